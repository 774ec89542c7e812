"""What a neighbour's file says, as the struct that it should be."""

from __future__ import annotations

from typing import Any, TypeVar, cast

import msgspec

from ashore.errors import PackageError

_Struct = TypeVar("_Struct")


def as_struct(value: Any, kind: type[_Struct] | Any, where: str) -> _Struct:
    """A value as what it should be, or `PackageError` with the place."""
    try:
        return cast("_Struct", msgspec.convert(value, kind))
    except msgspec.ValidationError as error:
        message, _, path = str(error).partition(" - at `$")
        place = path.rstrip("`").lstrip(".")
        raise PackageError(f"{where}{f'.{place}' if place else ''}: {message[:1].lower()}{message[1:]}") from None
