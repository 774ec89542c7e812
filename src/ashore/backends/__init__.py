"""Serialising stages: the export side of each backend, and the sessions of those that torch runs."""

from ashore.backends.exporting import EXPORTERS, PROFILES, Exported, Request, exporter_name, find_exporter

__all__ = ["EXPORTERS", "PROFILES", "Exported", "Request", "exporter_name", "find_exporter"]
