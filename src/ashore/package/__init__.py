"""The package on disk: read and checked, written whole or not at all, packed into one file."""

from ashore.package.container import ARCHIVE_SUFFIX
from ashore.package.contract import UNKNOWN, Contract, contract_of
from ashore.package.golden import Golden, Recording, Tick, batch_of
from ashore.package.provenance import collect_provenance
from ashore.package.reading import Package, read
from ashore.package.tensors import Array, Arrays, load_arrays, save_arrays
from ashore.package.text import decode_text, encode_text
from ashore.package.writing import add_files, pack, unpack, write

__all__ = [
    "ARCHIVE_SUFFIX",
    "UNKNOWN",
    "Array",
    "Arrays",
    "Contract",
    "Golden",
    "Package",
    "Recording",
    "Tick",
    "add_files",
    "batch_of",
    "collect_provenance",
    "contract_of",
    "decode_text",
    "encode_text",
    "load_arrays",
    "pack",
    "read",
    "save_arrays",
    "unpack",
    "write",
]
