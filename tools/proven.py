"""Whether everything that is exported was proven cold, with every case on ONNX, since its sources last changed.

`make test-all` notes at its end which sources passed: a digest of what records, exports and checks exports, in
tests/proven.txt. `make test` proves less on ONNX, one case for every kind of operation, which is enough as long as
these sources are as they were. So CI asks here which of the two to run.

python tools/proven.py --check    exit status 0 if they are as they were, and says so
python tools/proven.py --note     notes that they passed
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
NOTE = ROOT / "tests" / "proven.txt"
SOURCES = ("src/ashore/capture", "src/ashore/backends", "tests/capture", "tests/backends", "constraints.txt")


def digest() -> str:
    """A digest of the sources and of the versions that they were proven with."""
    files: list[Path] = []
    for source in SOURCES:
        path = ROOT / source
        files += [path] if path.is_file() else [file for file in path.rglob("*") if file.suffix in (".py", ".c", ".h")]
    found = hashlib.sha256()
    for file in sorted(files):
        found.update(f"{file.relative_to(ROOT)}\0".encode() + hashlib.sha256(file.read_bytes()).digest())
    return found.hexdigest()


def main() -> int:
    """Check, or note."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--check", action="store_true")
    what.add_argument("--note", action="store_true")
    if parser.parse_args().note:
        NOTE.write_text(f"{digest()}\n")
        return 0
    same = NOTE.is_file() and NOTE.read_text().strip() == digest()
    told = "are as they were when make test-all passed: that is skipped" if same else "have changed: make test-all"
    sys.stdout.write(f"{', '.join(SOURCES)} {told}\n")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
