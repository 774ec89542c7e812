"""The command line: ``ashore inspect``, ``verify``, ``bench``, ``pack``, ``unpack``."""

from ashore.cli.main import main

__all__ = ["main"]
