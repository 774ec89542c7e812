"""The C compiler of this machine: which one it is, what it compiles for, and what it has to say."""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ashore.errors import BackendError

CANDIDATES = ("cc", "gcc", "clang")
INSTALL = "install one (Debian: apt-get install gcc), or name it in the environment variable CC"
_LINES = 12


class CompileError(BackendError):
    """The compiler refuses a source."""


class Compiler(NamedTuple):
    """A compiler, with the flags that it is called with."""

    command: tuple[str, ...]
    flags: tuple[str, ...]
    identity: str
    """Differs between compilers, versions, flags, and machines with other instructions."""

    def run(self, arguments: Sequence[str], folder: Path, what: str) -> None:
        """Compile in a folder.

        Args:
            arguments: what follows the flags.
            folder: where it runs, and where it keeps what it needs meanwhile.
            what: what is compiled, for an error.
        """
        done = _call([*self.command, *self.flags, *arguments], folder)
        if done.returncode != 0:
            raise CompileError(
                f"{what}: {shlex.join(self.command)} cannot compile it (exit status {done.returncode}):\n"
                f"{_first_lines(done.stderr)}"
            )


def find_compiler(flags: Sequence[str], native: Sequence[str] = ()) -> Compiler:
    """The compiler of this machine: the one that CC names, else ``cc``, ``gcc`` or ``clang``.

    Args:
        flags: what it is called with.
        native: further flags, which are left out if the compiler does not know them for this machine.
    """
    command = _command()
    for chosen in (tuple(flags) + tuple(native), tuple(flags)):
        # One call tells version and instructions: both are among what the compiler defines before it reads anything.
        done = _call([*command, *chosen, "-dM", "-E", "-x", "c", os.devnull], Path.cwd())
        if done.returncode == 0 and b"__VERSION__" in done.stdout:
            return Compiler(command, chosen, _identity(command, chosen, done.stdout))
    raise BackendError(
        f"{shlex.join(command)}: is not a C compiler that works (exit status {done.returncode}): "
        f"{_first_lines(done.stderr) or 'it does not say which version it is'}; {INSTALL}"
    )


def _command() -> tuple[str, ...]:
    asked = os.environ.get("CC", "").strip()
    if asked:
        try:
            command = tuple(shlex.split(asked))
        except ValueError as error:
            raise BackendError(f"CC: expected a command, got {asked!r}: {error}") from error
        if shutil.which(command[0]) is None:
            raise BackendError(
                f"CC names the C compiler {command[0]!r}, which is not there; the backend 'c' needs one: {INSTALL}"
            )
        return command
    for name in CANDIDATES:
        if shutil.which(name) is not None:
            return (name,)
    raise BackendError(f"there is no C compiler here ({', '.join(CANDIDATES)}); the backend 'c' needs one: {INSTALL}")


def _identity(command: tuple[str, ...], flags: tuple[str, ...], macros: bytes) -> str:
    found = Path(shutil.which(command[0]) or command[0]).resolve()
    about = found.stat()
    told = [*command, *flags, str(found), str(about.st_size), str(about.st_mtime_ns)]
    return hashlib.sha256("\0".join(told).encode() + b"\0" + macros).hexdigest()


def _call(command: Sequence[str], folder: Path) -> subprocess.CompletedProcess[bytes]:
    environment = {**os.environ, "LC_ALL": "C", "TMPDIR": str(folder)}
    try:
        return subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=False)
    except OSError as error:
        raise BackendError(
            f"the C compiler {command[0]!r} cannot be started: {error.strerror or error}; {INSTALL}"
        ) from error


def _first_lines(text: bytes) -> str:
    lines = text.decode(errors="replace").strip().splitlines()
    return "\n".join(lines[:_LINES] + ([f"… and {len(lines) - _LINES} lines more"] if len(lines) > _LINES else []))
