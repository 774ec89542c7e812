"""What a robot has, as the inputs of a policy: a batch axis where it was left out, texts as bytes, noise as drawn.

`Policy.step` takes exactly the arrays of the manifest. The calls of imitation learning, `select_action` and
`predict_action_chunk`, take an observation as cameras and encoders give it; what is done to it here is said in full.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from ashore.errors import InputError
from ashore.package import Array, Arrays
from ashore.package.text import encode_text
from ashore.spec import NOISE, TEXT, Port, concrete


class Observed(NamedTuple):
    """An observation, ready for a step."""

    inputs: Arrays
    single: bool
    """Whether it had no batch axis, so that an action shall have none either."""


def observe(
    where: str,
    given: object,
    ports: Mapping[str, Port],
    *,
    batch: int,
    noise: object = None,
    seed: int | None = None,
    generator: np.random.Generator,
) -> Observed:
    """Make the inputs of a step from an observation.

    Args:
        where: the call, for errors.
        given: name -> array, or text. All arrays have a batch axis, or none of them has, which is one row.
        ports: the inputs of the policy.
        batch: the length of the symbolic batch axis.
        noise: what a generating policy starts from: an array if there is one such input, else name -> array.
        seed: draws the noise instead.
        generator: draws it if neither is given.
    """
    if not isinstance(given, Mapping):
        raise InputError(f"{where}: expected a mapping from name to array or text, got {type(given).__name__}")
    found: dict[str, Any] = dict(cast("Mapping[str, Any]", given))
    drawn = {name: port for name, port in ports.items() if port.kind == NOISE and name not in found}
    arrays = [name for name in found if name in ports and ports[name].kind != TEXT]
    missing = [name for name in arrays if np.ndim(found[name]) == len(ports[name].shape) - 1]
    single = bool(arrays) and len(missing) == len(arrays)
    if missing and not single:
        raise InputError(
            f"{where}: {missing[0]!r} has no batch axis, and {next(n for n in arrays if n not in missing)!r} has one; "
            f"give all of them one, or none"
        )
    for name in missing:
        port = ports[name]
        if concrete(port.shape, batch)[0] != 1:
            raise InputError(f"{where}: {name!r} has no batch axis; expected {list(concrete(port.shape, batch))}")
        found[name] = np.asarray(found[name])[None]
    for name, value in found.items():
        if name in ports and ports[name].kind == TEXT:
            found[name] = _text(f"{where}: {name!r}", value, concrete(ports[name].shape, batch))
    return Observed(found | _noise(where, drawn, batch, noise, seed, generator), single)


def _text(where: str, value: object, shape: Sequence[int]) -> object:
    """UTF-8 in rows of bytes; arrays are taken as such rows."""
    if not isinstance(value, str | list | tuple):
        return value
    texts = [value] if isinstance(value, str) else list(cast("Sequence[str]", value))
    if len(texts) != shape[0]:
        raise InputError(f"{where}: expected {shape[0]} texts, got {len(texts)}")
    return encode_text(texts, shape[1], where)


def _noise(
    where: str,
    ports: Mapping[str, Port],
    batch: int,
    given: object,
    seed: int | None,
    generator: np.random.Generator,
) -> dict[str, Array]:
    if given is None:
        chosen = generator if seed is None else np.random.default_rng(seed)
        return {
            name: chosen.standard_normal(concrete(port.shape, batch), np.float32).astype(port.dtype)
            for name, port in ports.items()
        }
    if seed is not None:
        raise InputError(f"{where}: give noise or a seed, not both")
    named = cast("Mapping[str, Array]", given) if isinstance(given, Mapping) else dict.fromkeys(ports, given)
    if not ports or set(named) != set(ports) or (len(ports) > 1 and not isinstance(given, Mapping)):
        wanted = f"noise by name, for {sorted(ports)}" if ports else "no noise, since nothing takes it"
        raise InputError(f"{where}: expected {wanted}")
    return dict(cast("Mapping[str, Array]", named))
