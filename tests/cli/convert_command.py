"""Running ``ashore convert`` as a user does."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ashore", "convert", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


def machine(*arguments: object, code: int = 0) -> Any:
    """What it prints for machines."""
    done = run(*arguments, "--json")
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)
