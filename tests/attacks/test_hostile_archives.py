"""``.ashore`` files made to do harm: each is one clear error, and nothing is written outside the chosen folder."""

from __future__ import annotations

import io
import stat
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

import ashore
import support
from ashore.errors import AshoreError
from ashore.package import read, unpack

Build = Callable[[bytes], bytes]


def repack(data: bytes, change: Callable[[zipfile.ZipFile, dict[str, bytes]], object]) -> bytes:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for name, content in contents.items():
            archive.writestr(name, content)
        change(archive, contents)
    return out.getvalue()


def extra(
    name: str, content: bytes = b"x", mode: int = stat.S_IFREG | 0o644, method: int = zipfile.ZIP_STORED
) -> Build:
    def change(archive: zipfile.ZipFile, _: dict[str, bytes]) -> None:
        entry = zipfile.ZipInfo(name)
        entry.external_attr = mode << 16
        archive.writestr(entry, content, method)

    return lambda data: repack(data, change)


def twice(data: bytes) -> bytes:
    def change(archive: zipfile.ZipFile, contents: dict[str, bytes]) -> None:
        archive.writestr("manifest.json", contents["manifest.json"])

    with pytest.warns(UserWarning, match="Duplicate name"):
        return repack(data, change)


def entries(data: bytes) -> list[int]:
    """Where the entries of the central directory start."""
    found, position = [], data.find(b"PK\x01\x02")
    while position >= 0:
        found.append(position)
        position = data.find(b"PK\x01\x02", position + 1)
    return found


def encrypted(data: bytes) -> bytes:
    made = bytearray(data)
    made[entries(data)[0] + 8] |= 1
    return bytes(made)


def overlapping(data: bytes) -> bytes:
    """Many entries, all of them the same bytes of the file: small on disk, large when read."""
    big = repack(data, lambda archive, _: archive.writestr("big.bin", bytes(100_000)))
    start = entries(big)[-1]
    end = big.find(b"PK\x05\x06")
    entry, tail = big[start:end], bytearray(big[end:])
    copies = b"".join(entry.replace(b"big.bin", f"b{number:02d}.bin".encode()) for number in range(50))
    count = len(entries(big)) + 50
    struct.pack_into("<HH", tail, 8, count, count)
    struct.pack_into("<I", tail, 12, struct.unpack_from("<I", tail, 12)[0] + len(copies))
    return big[:end] + copies + bytes(tail)


def wrong_checksum(data: bytes) -> bytes:
    made = bytearray(data)
    made[entries(data)[0] + 16] ^= 0xFF
    return bytes(made)


def larger_than_it_is(data: bytes) -> bytes:
    made, start = bytearray(data), entries(data)[0]
    struct.pack_into("<II", made, start + 20, 0x7FFFFFFF, 0x7FFFFFFF)
    return bytes(made)


def nul_in_a_name(data: bytes) -> bytes:
    name = b"manifest.json"
    return data.replace(name, b"manifest\0json")


def commented(data: bytes) -> bytes:
    return repack(data, lambda archive, _: setattr(archive, "comment", b"hello"))


def nameless(data: bytes) -> bytes:
    """An entry without a name, in the central directory only."""
    start, end = entries(data)[-1], data.find(b"PK\x05\x06")
    length = struct.unpack_from("<H", data, start + 28)[0]
    entry = bytearray(data[start:end])
    struct.pack_into("<H", entry, 28, 0)
    del entry[46 : 46 + length]
    tail = bytearray(data[end:])
    struct.pack_into("<I", tail, 12, struct.unpack_from("<I", tail, 12)[0] - length)
    return data[:start] + bytes(entry) + bytes(tail)


ATTACKS: dict[str, tuple[Build, str]] = {
    "zip_slip": (extra("../outside.txt"), r"'\.\./outside\.txt': a path has no empty, '\.' or '\.\.' part"),
    "deep_zip_slip": (extra("artifacts/../../outside.txt"), "a path has no empty, '.' or '..' part"),
    "absolute_name": (extra("/tmp/outside.txt"), "a path is relative to the package"),
    "drive_letter": (extra("C:evil.txt"), "a path is relative to the package"),
    "hidden_name": (extra(".profile"), "is not made of letters"),
    "link": (extra("artifacts/link", b"/etc/passwd", stat.S_IFLNK | 0o777), "is a link or a special file"),
    "device": (extra("artifacts/null", b"", stat.S_IFCHR | 0o666), "is a link or a special file"),
    "zip_bomb": (extra("bomb.bin", bytes(50_000_000), method=zipfile.ZIP_DEFLATED), "is compressed"),
    "lzma_bomb": (extra("bomb.bin", bytes(50_000_000), method=zipfile.ZIP_LZMA), "is compressed"),
    "overlapping_entries": (overlapping, "overlaps another entry"),
    "larger_than_it_is": (larger_than_it_is, "overlaps another entry"),
    "name_twice": (twice, "'manifest.json' stands twice"),
    "encrypted": (encrypted, "is encrypted"),
    "unlisted": (extra("extra.bin"), r"extra\.bin is not listed in the manifest"),
    "directory_with_content": (extra("folder/", b"content"), "a path has no empty"),
    "wrong_checksum": (wrong_checksum, "Bad CRC-32|not a readable"),
    "nul_in_a_name": (nul_in_a_name, "not a readable|is not made of letters|no manifest"),
    "truncated": (lambda data: data[: len(data) // 2], r"not a readable \.ashore file"),
    "without_its_end": (lambda data: data[:-30], r"not a readable \.ashore file"),
    "empty": (lambda _: b"", r"not a readable \.ashore file"),
    "something_before_it": (lambda data: b"#!/bin/sh\nrm -rf /\n" + data, "something lies before it"),
    "something_after_it": (lambda data: data + b"tail", "something lies after the archive"),
    "comment": (commented, "it ends in a comment"),
    "nameless_entry": (nameless, "a path has 1 to 255 characters"),
    "not_a_zip": (lambda _: b"\x7fELF" + bytes(1000), r"not a readable \.ashore file"),
    "too_many_files": (
        lambda data: repack(data, lambda archive, _: [archive.writestr(f"f{n}", b"") for n in range(5000)]),
        "more than 4096 files",
    ),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_every_attack_is_one_clear_error(name: str, tmp_path: Path) -> None:
    build, message = ATTACKS[name]
    inner = tmp_path / "inner"
    inner.mkdir()
    path = inner / "evil.ashore"
    path.write_bytes(build(support.write_sum(inner / "good.ashore").path.read_bytes()))
    with pytest.raises(AshoreError, match=message):
        ashore.load(path)
    with pytest.raises(AshoreError):
        unpack(read(path), inner / "out")
    assert sorted(entry.name for entry in inner.iterdir()) == ["evil.ashore", "good.ashore"]
    assert [entry.name for entry in tmp_path.iterdir()] == ["inner"]


def test_a_plain_repacked_archive_is_fine(tmp_path: Path) -> None:
    data = support.write_sum(tmp_path / "good.ashore").path.read_bytes()
    (tmp_path / "same.ashore").write_bytes(repack(data, lambda archive, _: archive.writestr("artifacts/", b"")))
    assert ashore.load(tmp_path / "same.ashore").manifest.name == "sum"
