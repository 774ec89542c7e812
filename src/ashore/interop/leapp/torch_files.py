"""What may be inside a torch file that somebody else made, asked without torch.

A TorchScript file is read by torch's own unpickler, which knows a fixed set of types; but a file of the same ending may
be a plain pickle. An exported program (``.pt2``) may ask `torch.export.load` to unpickle anything at all, and holds a
pickle of its example inputs in any case. So what a file is, and what its pickles would import, is looked at here before
it is taken into a package.
"""

from __future__ import annotations

import io
import json
import pickletools
import zipfile
import zlib
from collections.abc import Iterator

from ashore.errors import PackageError

_UNREADABLE = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, ValueError, RuntimeError, OSError)
_MAX_MEMBERS = 100_000
_TENSORS = {
    "collections OrderedDict",
    "torch._utils _rebuild_tensor_v2",
    "torch._utils _rebuild_parameter",
    "torch._tensor _rebuild_from_type_v2",
    "torch Tensor",
    "torch Size",
    "torch.serialization _get_layout",
    *(
        f"torch {name}Storage"
        for name in ("Float", "Double", "Half", "BFloat16", "Long", "Int", "Short", "Char", "Byte", "Bool")
    ),
    *(f"torch {name}" for name in ("float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8")),
    *(f"torch {name}" for name in ("uint8", "bool", "device")),
    "torch.nn.parameter Parameter",
}
"""What a pickle of plain tensors imports."""

_IMPORTING = {"STACK_GLOBAL", "INST", "EXT1", "EXT2", "EXT4"}
"""Ways to import that torch itself does not write."""

_PT2_FOLDERS = ("data/weights/", "data/constants/", "data/sample_inputs/", "models/", ".data/")
_PT2_FILES = {"archive_format", "archive_version", "byteorder", "version"}
_OLD_PT2 = "serialized_exported_program.json"


def check_torch_file(backend: str, data: bytes, where: str) -> None:
    """Raise `PackageError` unless bytes are a TorchScript file (``jit``) or an exported program of tensors (``pt2``).

    Args:
        backend: what LEAPP calls it.
        data: the whole file.
        where: what to call it in an error.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            if len(archive.infolist()) > _MAX_MEMBERS:
                raise PackageError(f"{where}: more than {_MAX_MEMBERS} entries")
            (_check_script if backend == "jit" else _check_program)(archive, where)
    except _UNREADABLE as error:
        what = "TorchScript file" if backend == "jit" else "exported program"
        raise PackageError(f"{where}: is no {what}: {error}") from error


def _check_script(archive: zipfile.ZipFile, where: str) -> None:
    names = _members(archive)
    if "constants.pkl" not in names or not any(name.startswith("code/") for name in names):
        raise PackageError(f"{where}: is no TorchScript file but a pickle, which nothing here opens")


def _check_program(archive: zipfile.ZipFile, where: str) -> None:
    names = _members(archive)
    _refuse_compressed(archive)
    if _OLD_PT2 in names:
        raise PackageError(f"{where}: was written by a torch that pickled its weights; export it with a newer one")
    if "archive_format" not in names or "models/model.json" not in names:
        raise PackageError(f"{where}: is no exported program")
    for name, member in names.items():
        if name not in _PT2_FILES and not name.startswith(_PT2_FOLDERS):
            raise PackageError(f"{where}: holds {name!r}, which a program of tensors has no use for")
        if name.startswith(("data/weights/", "data/constants/")):
            _check_payload(archive, name, member, where)
        elif name.startswith("data/sample_inputs/"):
            _check_pickles(archive.read(member), f"{where}: {name}")


def _check_payload(archive: zipfile.ZipFile, name: str, member: str, where: str) -> None:
    file = name.rpartition("/")[2]
    if file.endswith("_config.json"):
        if any(_asks_for_pickle(json.loads(archive.read(member)))):
            raise PackageError(f"{where}: {name} asks for weights to be unpickled")
    elif not file.startswith(("weight_", "tensor_")):
        raise PackageError(f"{where}: holds {name!r}, which is no plain tensor")


def _asks_for_pickle(value: object) -> Iterator[bool]:
    if isinstance(value, dict):
        if value.get("use_pickle") not in (None, False):
            yield True
        for child in value.values():
            yield from _asks_for_pickle(child)
    elif isinstance(value, list):
        for child in value:
            yield from _asks_for_pickle(child)


def _check_pickles(data: bytes, where: str) -> None:
    """The file was made by `torch.save`, and everything that it would import belongs to plain tensors."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        names = _members(archive)
        _refuse_compressed(archive)
        if "data.pkl" not in names:
            raise PackageError(f"{where}: is not what torch saves tensors as")
        for name, member in names.items():
            if name.endswith(".pkl"):
                for opcode, argument, _ in pickletools.genops(archive.read(member)):
                    foreign = opcode.name == "GLOBAL" and argument not in _TENSORS
                    if foreign or opcode.name in _IMPORTING:
                        raise PackageError(f"{where}: its pickle would import {argument or opcode.name!r}")


def _members(archive: zipfile.ZipFile) -> dict[str, str]:
    """Path below the archive's own top folder -> path in the archive."""
    found: dict[str, str] = {}
    for entry in archive.infolist():
        name = entry.filename.partition("/")[2]
        if name in found:
            raise zipfile.BadZipFile(f"{entry.filename!r} stands twice")
        found[name] = entry.filename
    return found


def _refuse_compressed(archive: zipfile.ZipFile) -> None:
    """Torch compresses code, but no data: what is read here is no longer than the file that it is in."""
    for entry in archive.infolist():
        if entry.compress_type != zipfile.ZIP_STORED or entry.file_size != entry.compress_size:
            raise zipfile.BadZipFile(f"{entry.filename!r} is compressed")
