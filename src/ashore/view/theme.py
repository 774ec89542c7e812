"""How the drawing looks: sizes in pixels at scale one, and a few quiet colours."""

from __future__ import annotations

from collections.abc import Mapping

MARGIN = 32.0
HEADING, TITLE, BODY, SMALL = 22.0, 15.0, 13.0, 11.0
"""Text sizes: the package, a stage, a port, and what is said about it."""

LEADING = 1.35
"""Height of a line of text, in text sizes."""

PAD = 12.0
"""Between the edge of a box and its text."""

CARD_GAP, STAGE_GAP, LANE_GAP = 10.0, 40.0, 18.0
LABEL_WIDTH, CARD_WIDTH = 230.0, 320.0
"""Longer texts are shortened: those of a stage's port, and those of a package's port or state."""

TRACK = 13.0
"""Between two wires that run side by side."""

GUTTER = 56.0
"""The least room between two columns."""

RADIUS, CORNER = 6.0, 7.0
"""Roundness of boxes and of wires."""

DASH = (5.0, 4.0)
FONTS = "Aileron, 'Helvetica Neue', Helvetica, Arial, sans-serif"
"""Aileron is what Pillow brings, and what texts are measured with."""

INK, MUTED, FAINT = "#1c2733", "#4f5d6b", "#7c8896"
PAPER, CARD, EDGE, RULE = "#ffffff", "#ffffff", "#c4ccd4", "#dde3e9"
WIRE = "#5b6b7b"
STATE_FILL, STATE_EDGE, STATE_WIRE = "#fdf7ea", "#cfab5b", "#b3852b"
STAGE_FILL = "#f7f9fb"

RATE_COLOURS: Mapping[str, tuple[str, str]] = {
    "policy": ("#dfe9f4", "#2b5c8a"),
    "substep": ("#dcefe9", "#1f6f5c"),
    "loop": ("#e9e2f3", "#5f4690"),
}
"""Rate -> the fill of a stage's head, and the colour of the words in it."""

SOURCE_COLOURS: Mapping[str, str] = {
    "sensor": "#3a76ab",
    "estimator": "#2c8a78",
    "command": "#b7791f",
    "reference": "#7a5fa8",
    "privileged": "#c0392b",
}
