"""The command line: ``ashore inspect``, ``verify``, ``bench``, ``play``, ``pack``, ``unpack``, ``convert``."""

from ashore.cli.main import main

__all__ = ["main"]
