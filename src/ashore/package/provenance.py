"""Where a package comes from: tool versions, the state of the training code, the checkpoint."""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Iterable
from pathlib import Path

from ashore.errors import PackageError
from ashore.spec import Checkpoint, Git, Provenance


def collect_provenance(
    *,
    tools: Iterable[str] = ("ashore", "numpy", "onnxruntime"),
    checkpoint: str | os.PathLike[str] | None = None,
    code: str | os.PathLike[str] | None = None,
    task: str | None = None,
    created_at: str | None = None,
) -> Provenance:
    """Describe this export.

    Args:
        tools: distributions to record the versions of; those not installed are left out.
        checkpoint: the file the weights came from.
        code: a directory of the training code; its git commit is recorded if it is in a repository.
        task: the name of the training task.
        created_at: ISO 8601 in UTC; leave it out where byte-identical packages are wanted.
    """
    return Provenance(
        tools={name: version for name in sorted(tools) if (version := _version(name))},
        python=platform.python_version(),
        platform=f"{platform.system()}-{platform.machine()}".lower(),
        created_at=created_at,
        git=None if code is None else _git(Path(code)),
        checkpoint=None if checkpoint is None else _checkpoint(Path(checkpoint)),
        task=task,
    )


def _version(distribution: str) -> str | None:
    from importlib import metadata  # slow to import, and running a package does not need it

    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _checkpoint(path: Path) -> Checkpoint:
    try:
        with open(path, "rb") as stream:
            digest = hashlib.sha256()
            while chunk := stream.read(1 << 20):
                digest.update(chunk)
    except OSError as error:
        raise PackageError(f"{path}: the checkpoint cannot be read: {error.strerror}") from error
    return Checkpoint(name=path.name, sha256=digest.hexdigest())


def _git(folder: Path) -> Git | None:
    commit = _run_git(folder, "rev-parse", "HEAD")
    if commit is None:
        return None
    # A status that cannot be had counts as dirty: nobody should trust a commit that may not be the code that ran.
    return Git(commit=commit.strip(), dirty=_run_git(folder, "status", "--porcelain") != "")


def _run_git(folder: Path, *arguments: str) -> str | None:
    import subprocess  # likewise

    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout
