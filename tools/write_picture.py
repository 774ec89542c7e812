"""Make the pictures in the README from what `make demo` made: its film, small enough to load, and its graph.

Usage: write_picture.py [demo/go1]
"""

import shutil
import sys
from pathlib import Path

from PIL import Image

DOCS = Path(__file__).parents[1] / "docs"
FRAMES, FIRST, COLOURS, WIDTH = 20, 42, 64, 320


def write_film(film: Path, out: Path) -> None:
    """A second and a half out of the middle, in few colours that all frames share."""
    with Image.open(film) as frames:
        height, duration, kept = round(WIDTH * frames.height / frames.width), frames.info["duration"], []
        for index in range(FIRST, FIRST + FRAMES):
            frames.seek(index)
            kept.append(frames.convert("RGB").resize((WIDTH, height), Image.Resampling.LANCZOS))
    palette = kept[0].quantize(COLOURS)
    shown = [one.quantize(palette=palette, dither=Image.Dither.NONE) for one in kept]
    shown[0].save(out, save_all=True, append_images=shown[1:], duration=duration, loop=0, optimize=True)


if __name__ == "__main__":
    demo = Path(sys.argv[1]) if len(sys.argv) > 1 else DOCS.parent / "demo" / "go1"
    write_film(demo / "film.gif", DOCS / "walk.gif")
    (graph,) = demo.glob("*/graph.svg")
    shutil.copy(graph, DOCS / "walk.svg")
