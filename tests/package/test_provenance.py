from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import pytest

from ashore import __version__
from ashore.errors import PackageError
from ashore.package import collect_provenance


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=a", "-c", "user.email=a@b.c")
    done = subprocess.run(["git", "-C", folder, *identity, *arguments], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def test_versions_and_the_checkpoint_are_recorded(tmp_path: Path) -> None:
    (tmp_path / "model.pt").write_bytes(b"weights")
    found = collect_provenance(checkpoint=tmp_path / "model.pt", tools=("ashore", "no-such-thing"), task="walk")
    assert found.tools == {"ashore": __version__}
    assert found.checkpoint is not None
    assert found.checkpoint.name == "model.pt"
    assert found.checkpoint.sha256 == hashlib.sha256(b"weights").hexdigest()
    assert found.task == "walk"
    assert found.git is None


def test_the_commit_and_uncommitted_changes_are_recorded(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / "train.py").write_text("pass")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "x")
    clean = collect_provenance(code=tmp_path).git
    assert clean is not None
    assert clean.commit == git(tmp_path, "rev-parse", "HEAD")
    assert clean.dirty is False
    (tmp_path / "train.py").write_text("fail")
    dirty = collect_provenance(code=tmp_path).git
    assert dirty is not None
    assert dirty.dirty is True


def test_code_outside_a_repository_has_no_commit(tmp_path: Path) -> None:
    assert collect_provenance(code=tmp_path).git is None


def test_a_checkpoint_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(PackageError, match="the checkpoint cannot be read"):
        collect_provenance(checkpoint=tmp_path / "model.pt")
