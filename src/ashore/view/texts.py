"""Text that can be drawn: measured, and shortened to a width.

Everything is measured with the font that Pillow brings, so that a drawing does not depend on the machine that made it.
It holds little more than ASCII: other characters keep their place in the SVG, where the viewer's fonts show them, and
lose their accents or are drawn as an empty box in the PNG.
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache
from typing import NamedTuple

from PIL import Image, ImageDraw, ImageFont

from ashore.view.cleaning import ELLIPSIS

MEASURED_AT = 2
"""Texts are measured at the size they have in the PNG, where hinting rounds them to whole pixels."""

_NEAR = {"µ": "u", "μ": "u", "×": "x", "Ω": "O", "−": "-", "ß": "s", "ø": "o", "ł": "l"}


@lru_cache(maxsize=64)
def font(pixels: int) -> ImageFont.FreeTypeFont:
    """Pillow's own font at a size."""
    found = ImageFont.load_default(pixels)
    if not isinstance(found, ImageFont.FreeTypeFont):  # a Pillow without FreeType
        raise ImportError("Pillow was built without FreeType")
    return found


class Run(NamedTuple):
    """A piece of text that the font can draw, or a single character that it cannot."""

    text: str
    drawn: bool

    def width(self, size: float) -> float:
        """How wide it is, in pixels at scale one."""
        if self.drawn:
            return font(round(size * MEASURED_AT)).getlength(self.text) / MEASURED_AT
        if unicodedata.combining(self.text):
            return 0.0
        return size * (1.0 if unicodedata.east_asian_width(self.text) in "WF" else 0.62)


@lru_cache(maxsize=4096)
def _glyph(character: str) -> str | None:
    """What the font has for a character: itself, or else what it is without its accent."""
    missing = _pixels("\U0010ffff")
    for near in (character, unicodedata.normalize("NFKD", character)[0], _NEAR.get(character, "")):
        if near == " " or (near and _pixels(near) != missing):
            return near
    return None


def _pixels(character: str) -> bytes:
    image = Image.new("L", (64, 64))
    ImageDraw.Draw(image).text((16, 48), character, 255, font(32), anchor="ls")
    return image.tobytes()


def runs(text: str) -> list[Run]:
    """A text cut into pieces, of which those that the font has are drawn with it."""
    found: list[Run] = []
    for character in text:
        near = _glyph(character)
        if near is None:
            found.append(Run(character, drawn=False))
        elif found and found[-1].drawn:
            found[-1] = Run(found[-1].text + near, drawn=True)
        else:
            found.append(Run(near, drawn=True))
    return found


@lru_cache(maxsize=16384)
def width(text: str, size: float) -> float:
    """How wide a cleaned text is, in pixels at scale one."""
    return sum(run.width(size) for run in runs(text))


def fit(text: str, size: float, room: float) -> str:
    """A cleaned text, with its middle left out where it is wider than `room`: both ends of a name tell most."""
    if width(text, size) <= room:
        return text
    low, high = 0, len(text) - 1
    while low < high:
        kept = (low + high + 1) // 2
        if width(_shortened(text, kept), size) <= room:
            low = kept
        else:
            high = kept - 1
    return _shortened(text, low)


def _shortened(text: str, kept: int) -> str:
    head = (kept + 1) // 2
    return text[:head] + ELLIPSIS + text[len(text) - (kept - head) :]
