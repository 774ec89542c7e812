"""Stages that were exported before: everything that shapes a file decides where it is found; nothing else is used."""

from __future__ import annotations

import ast
import dataclasses
import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import onnx
import onnx_ir
import pytest
import torch

import ashore
import ashore.backends.onnx
import support
from ashore.backends import EXPORTERS, Exported, Request, export_cache
from ashore.backends.cache import EXPORTS, SEAL, Cache, digest_of_sources
from ashore.backends.export_cache import CACHED, FILE, export_key, source_folders
from ashore.errors import BackendError, ExportError
from ashore.package import Package

QUICKEST = "onnx-dynamo"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache with nothing in it, switched on."""
    monkeypatch.setenv("ASHORE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("ASHORE_EXPORT_CACHE", "on")
    return tmp_path / "cache" / "exports"


@pytest.fixture
def exports(monkeypatch: pytest.MonkeyPatch) -> list[Request]:
    """What the exporter of ONNX files was asked for, while it works as ever."""
    asked: list[Request] = []
    finish = ashore.backends.onnx._finish

    def counted(model: onnx.ModelProto, request: Request, *rest: Any) -> Exported:
        asked.append(request)
        return finish(model, request, *rest)

    monkeypatch.setattr(ashore.backends.onnx, "_finish", counted)
    return asked


class Leg:
    """One layer, and a state: the last action."""

    def __init__(self, seed: int = 0, scale: float = 0.25) -> None:
        torch.manual_seed(seed)
        self.actor, self.scale = torch.nn.Linear(6, 3), scale
        self.reset()

    def reset(self) -> None:
        self.last_action = torch.zeros(1, 3)

    def step(self, joint_pos: torch.Tensor) -> torch.Tensor:
        self.last_action = self.actor(torch.cat((joint_pos, self.last_action), dim=-1))
        return self.scale * self.last_action


def record(out: Path, leg: Leg | None = None, *, seed: int = 1, steps: int = 6, **options: Any) -> Package:
    leg = leg or Leg()
    generator = torch.Generator().manual_seed(seed)
    options = {"backend": QUICKEST, "picture": False, "summary": False, **options}
    with torch.no_grad(), ashore.record("leg", out, **options) as rec:
        for step in range(steps):
            if step == 4:
                rec.reset()
                leg.reset()
            with rec.step():
                joint_pos = rec.input("joint_pos", torch.randn(1, 3, generator=generator))
                rec.output("target", leg.step(joint_pos))
    assert rec.package is not None
    return rec.package


def stage(package: Package) -> bytes:
    return package.read(next(iter(package.manifest.stages["policy"].artifacts.values())).path)


# --- what is found ---------------------------------------------------------------------------------------------------


def test_the_same_code_is_exported_once_and_proven_twice(tmp_path: Path, exports: list[Request], cache: Path) -> None:
    first = record(tmp_path / "a", backend="onnx-dynamo")
    other = "recorded on other inputs, in more steps"
    second = record(tmp_path / "b", backend="onnx-dynamo", seed=7, steps=9, description=other)
    assert len(exports) == 1
    assert stage(first) == stage(second)
    (entry,) = cache.iterdir()
    assert sorted(path.name for path in entry.iterdir()) == [SEAL, FILE]
    for package in (first, second):
        proof = package.manifest.verification
        assert proof is not None
        assert proof.status == "passed"


def test_what_comes_from_the_cache_runs_as_the_code_does(tmp_path: Path, exports: list[Request]) -> None:
    record(tmp_path / "a")
    policy, leg = ashore.load(record(tmp_path / "b")), Leg()
    assert len(exports) == 1
    for step, x in enumerate(support.inputs_like((1, 3), 12, seed=3)):
        if step == 5:
            policy.reset()
            leg.reset()
        with torch.no_grad():
            expected = leg.step(torch.from_numpy(x)).numpy()
        np.testing.assert_allclose(policy.step({"joint_pos": x})["target"], expected, rtol=1e-6, atol=1e-6)


def test_what_the_exporter_said_is_said_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    finish = ashore.backends.onnx._finish

    def talkative(*arguments: Any) -> Exported:
        return dataclasses.replace(finish(*arguments), messages=("mind the step",))

    monkeypatch.setattr(ashore.backends.onnx, "_finish", talkative)
    record(tmp_path / "a")
    monkeypatch.setattr(ashore.backends.onnx, "_finish", None)
    assert b"mind the step" in record(tmp_path / "b").read("export.log")


def test_every_exporter_whose_files_are_kept_has_its_own(tmp_path: Path, cache: Path) -> None:
    for name in EXPORTERS:
        for folder in ("first", "second"):
            package = record(tmp_path / folder / name, backend=name)
            assert package.manifest.verification is not None
            assert package.manifest.verification.status == "passed"
    assert sorted(path.name.rpartition("-")[0] for path in cache.iterdir()) == sorted(CACHED)


# --- what is another stage -------------------------------------------------------------------------------------------


def changed_constant(tmp_path: Path) -> None:
    record(tmp_path / "b", Leg(seed=1))


def changed_number(tmp_path: Path) -> None:
    record(tmp_path / "b", Leg(scale=0.5))


def changed_opset(tmp_path: Path) -> None:
    record(tmp_path / "b", opset=20)


def changed_ir_version(tmp_path: Path) -> None:
    record(tmp_path / "b", ir_version=8)


def changed_batch(tmp_path: Path) -> None:
    record(tmp_path / "b", batch="dynamic")


def changed_port(tmp_path: Path) -> None:
    leg = Leg()
    options = {"backend": QUICKEST, "picture": False, "summary": False}
    with torch.no_grad(), ashore.record("leg", tmp_path / "b", **options) as rec:
        for step in range(6):
            if step == 4:
                rec.reset()
                leg.reset()
            with rec.step():
                joint_pos = rec.input("joint_position", torch.randn(1, 3))
                rec.output("target", leg.step(joint_pos))


@pytest.mark.parametrize(
    "change",
    [changed_constant, changed_number, changed_opset, changed_ir_version, changed_batch, changed_port],
    ids=lambda change: change.__name__,
)
def test_what_shapes_the_file_makes_it_another(
    tmp_path: Path, exports: list[Request], change: Callable[[Path], None]
) -> None:
    record(tmp_path / "a")
    change(tmp_path)
    assert len(exports) == 2


def request(**changes: Any) -> Request:
    plain = Request(
        torch.nn.Identity(),
        (torch.zeros(1, 3),),
        ("x",),
        ("y",),
        opset=18,
        ir_version=9,
        fingerprint="what it computes",
    )
    return dataclasses.replace(plain, **changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"fingerprint": "another"},
        {"inputs": ("z",)},
        {"outputs": ("z",)},
        {"dynamic": {0: 0}},
        {"opset": 19},
        {"opset": None},
        {"ir_version": 10},
        {"example": (torch.zeros(1, 4),)},
        {"example": (torch.zeros(1, 3, dtype=torch.float64),)},
        {"example": (torch.zeros(3, 1).T,)},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_every_part_of_a_request_decides_the_key(changes: dict[str, Any]) -> None:
    assert export_key("onnx", request()) == export_key("onnx-dynamo", request())
    assert export_key("onnx", request()) != export_key("onnx", request(**changes))


def test_every_exporter_has_a_key_of_its_own_or_none() -> None:
    keys = {name: export_key(name, request()) for name in EXPORTERS}
    assert {name for name, key in keys.items() if key is not None} == set(CACHED)
    assert len({keys[name] for name in CACHED}) == len(CACHED)


@pytest.mark.parametrize("tool", export_cache.TOOLS)
def test_every_version_decides_the_key(monkeypatch: pytest.MonkeyPatch, tool: str) -> None:
    before = export_key("onnx", request())
    version = export_cache.version
    monkeypatch.setattr(export_cache, "version", lambda name: "0.0" if name == tool else version(name))
    export_cache.versions.cache_clear()
    try:
        assert export_key("onnx", request()) != before
    finally:
        export_cache.versions.cache_clear()


@pytest.mark.parametrize(
    ("place", "name", "value"),
    [
        (export_cache, "__version__", "0.0"),
        (export_cache, "digest_of_sources", lambda *folders: "other sources"),
        (export_cache.sys, "version", "3.99"),
        (torch.version, "git_version", "0000000"),
        (export_cache.platform, "machine", lambda: "riscv64"),
        (torch.backends.cpu, "get_cpu_capability", lambda: "AVX1024"),
        (torch, "get_default_dtype", lambda: torch.float64),
        (torch, "are_deterministic_algorithms_enabled", lambda: True),
        (torch.backends.cuda, "flash_sdp_enabled", lambda: False),
    ],
    ids=lambda part: part if isinstance(part, str) and part.isidentifier() else "",
)
def test_what_writes_it_and_where_decides_the_key(
    monkeypatch: pytest.MonkeyPatch, place: Any, name: str, value: Any
) -> None:
    before = export_key("onnx", request())
    export_cache.versions.cache_clear()
    monkeypatch.setattr(place, name, value)
    try:
        assert export_key("onnx", request()) != before
    finally:
        monkeypatch.undo()
        export_cache.versions.cache_clear()


@pytest.mark.parametrize("name", ["TORCH_ONNX_EXPERIMENTAL", "PYTORCH_JIT", "ONNX_ANYTHING"])
def test_variables_that_exporters_may_read_decide_the_key(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    before = export_key("onnx", request())
    monkeypatch.setenv(name, "1")
    assert export_key("onnx", request()) != before


@pytest.mark.parametrize("exporter", CACHED)
def test_every_source_that_an_exporter_imports_is_part_of_the_key(exporter: str) -> None:
    """But for errors, and for finding an exporter by its name."""
    source = Path(ashore.__file__).parent
    folders = {folder.name for folder in source_folders(exporter)}
    pending, seen = [EXPORTERS[exporter].partition(":")[0]], set()
    while pending:
        module = pending.pop()
        if module in seen or module == "ashore.backends.torch_session":  # it opens files, and writes none
            continue
        seen.add(module)
        file = source.parent / (module.replace(".", "/") + ".py")
        tree = ast.parse((file if file.is_file() else file.with_suffix("") / "__init__.py").read_text())
        imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
        pending += [node.module for node in imports if str(node.module).startswith("ashore.") and node.module]
    layers = {module.split(".")[1] for module in seen}
    assert "backends" in layers
    assert layers - folders <= {"errors", "plugins"} | ({"spec", "package"} if exporter == "openvino" else set())


def test_another_source_is_another_key(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "one.py").write_text("x = 1")
    digests = [digest_of_sources(tmp_path / "a")]
    (tmp_path / "a" / "one.py").write_text("x = 2")
    digest_of_sources.cache_clear()
    digests.append(digest_of_sources(tmp_path / "a"))
    (tmp_path / "a" / "one.py").rename(tmp_path / "a" / "two.py")
    digest_of_sources.cache_clear()
    digests.append(digest_of_sources(tmp_path / "a"))
    assert len(set(digests)) == 3


def test_a_module_that_nobody_vouches_for_is_exported_every_time() -> None:
    assert export_key("onnx", request(fingerprint=None)) is None


def test_an_exporter_that_somebody_put_in_place_of_ours_is_always_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    record(tmp_path / "a")
    export, asked = ashore.backends.onnx.export_dynamo, []

    def another(request: Request) -> Exported:
        asked.append(request)
        return export(request)

    monkeypatch.setattr(ashore.backends.onnx, "export_dynamo", another)
    record(tmp_path / "b")
    record(tmp_path / "c")
    assert len(asked) == 2
    assert len(list(cache.iterdir())) == 1


# --- switched off ----------------------------------------------------------------------------------------------------


def test_it_can_be_switched_off_for_one_export(tmp_path: Path, exports: list[Request], cache: Path) -> None:
    record(tmp_path / "a", cache=False)
    record(tmp_path / "b", cache=False)
    assert len(exports) == 2
    assert not cache.exists()


def test_it_can_be_switched_off_by_the_environment(
    tmp_path: Path, exports: list[Request], cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASHORE_EXPORT_CACHE", "off")
    record(tmp_path / "a")
    record(tmp_path / "b")
    assert len(exports) == 2
    assert not cache.exists()


def test_a_switch_with_another_value_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASHORE_EXPORT_CACHE", "no")
    with pytest.raises(BackendError, match="ASHORE_EXPORT_CACHE=no: expected on or off"):
        record(tmp_path / "a")


def test_a_cache_that_cannot_be_written_costs_the_next_export_and_not_this_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    monkeypatch.setenv("ASHORE_CACHE", str(blocked))
    assert record(tmp_path / "a").manifest.verification is not None
    assert "what is exported cannot be kept there" in caplog.text
    assert "cache=False, --no-cache, ASHORE_EXPORT_CACHE=off" in caplog.text


# --- what somebody changed -------------------------------------------------------------------------------------------


@pytest.fixture
def entry(tmp_path: Path, cache: Path) -> Path:
    """What the cache holds of the leg."""
    record(tmp_path / "a")
    (entry,) = cache.iterdir()
    return entry


def replace(file: Path, data: bytes) -> None:
    file.unlink()
    file.write_bytes(data)
    file.chmod(0o500)


def refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(BackendError, match=text):
        record(tmp_path / "b")
    assert not (tmp_path / "b").exists(), "nothing is written"


def test_a_file_that_was_tampered_with_is_not_used(tmp_path: Path, entry: Path) -> None:
    data = bytearray((entry / FILE).read_bytes())
    data[len(data) // 2] ^= 1
    replace(entry / FILE, bytes(data))
    refused(
        tmp_path,
        r"stage\.msgpack: is not the stage that was exported: its sha256 is \w{12}…, and seal\.json says \w{12}…; it "
        r"was changed, and is not opened; remove .*/onnx-dynamo-\w+, and it is exported again",
    )
    shutil.rmtree(entry)
    record(tmp_path / "b")


def test_a_file_that_belongs_to_another_stage_is_not_used(tmp_path: Path, entry: Path, cache: Path) -> None:
    """A file and its seal fit each other, and were made for other weights."""
    record(tmp_path / "other", Leg(seed=5))
    (other,) = set(cache.iterdir()) - {entry}
    shutil.rmtree(entry)
    other.rename(entry)
    refused(tmp_path, r"seal\.json: belongs to another stage than onnx-dynamo-\w+; somebody put it there")


@pytest.mark.parametrize("what", [FILE, SEAL, ".", ".."])
def test_what_others_may_write_to_is_not_used(tmp_path: Path, entry: Path, what: str) -> None:
    (entry / what).chmod(0o777)
    refused(tmp_path, r"can be written to by others \(mode 777\), and a robot moves as it says; use chmod")


@pytest.mark.parametrize("file", [FILE, SEAL])
def test_half_an_entry_is_an_error(tmp_path: Path, entry: Path, file: str) -> None:
    (entry / file).unlink()
    refused(tmp_path, rf"{file}: cannot be read from the cache: No such file or directory; remove")


def test_a_wrong_file_with_a_right_seal_fails_the_proof_and_is_exported_anew(
    tmp_path: Path, entry: Path, exports: list[Request], caplog: pytest.LogCaptureFixture
) -> None:
    """Who can write as the user can seal; the proof then still compares the file with what was recorded."""
    exported = msgspec.msgpack.decode((entry / FILE).read_bytes(), type=Exported)
    model = onnx.load_from_string(exported.data)
    for constant in model.graph.initializer:
        array = onnx.numpy_helper.to_array(constant)
        if array.dtype == np.float32:
            constant.CopyFrom(onnx.numpy_helper.from_array(array + np.float32(0.5), constant.name))
    wrong = msgspec.msgpack.encode(dataclasses.replace(exported, data=model.SerializeToString()))
    seal = json.loads((entry / SEAL).read_bytes())
    replace(entry / FILE, wrong)
    replace(
        entry / SEAL, json.dumps({**seal, "sha256": hashlib.sha256(wrong).hexdigest(), "size": len(wrong)}).encode()
    )
    package = record(tmp_path / "b")
    assert stage(package) == exported.data
    assert len(exports) == 1
    assert "is not what was recorded; it is exported anew" in caplog.text


def test_what_fails_the_proof_is_not_kept(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, exports: list[Request]
) -> None:
    translate = torch.onnx.export

    def wrong(program: Any, *rest: Any, **more: Any) -> Any:
        made = translate(program, *rest, **more)
        for value in made.model.graph.initializers.values():
            if value.const_value is not None and value.const_value.dtype.numpy() == np.float32:
                value.const_value = onnx_ir.tensor(value.const_value.numpy() + np.float32(0.5), name=value.name)
        return made

    monkeypatch.setattr(torch.onnx, "export", wrong)
    with pytest.raises(ExportError, match="the saved files, on the recorded inputs"):
        record(tmp_path / "a")
    assert not cache.exists()
    monkeypatch.setattr(torch.onnx, "export", translate)
    record(tmp_path / "b")
    assert len(exports) == 2


def test_what_was_not_proven_is_not_kept(tmp_path: Path, cache: Path) -> None:
    record(tmp_path / "a", validation_steps=0)
    assert not cache.exists()


def test_a_folder_that_others_may_write_to_is_said_before_anything_is_kept_there(
    tmp_path: Path, cache: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cache.mkdir(parents=True)
    cache.chmod(0o777)
    record(tmp_path / "a")
    assert "can be written to by others" in caplog.text
    assert not list(cache.iterdir())


def test_where_there_can_be_no_cache_an_export_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("ASHORE_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)

    def nobody() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", nobody)
    record(tmp_path / "a")
    assert "there is no home folder to keep what is exported in" in caplog.text


# --- how much is kept ------------------------------------------------------------------------------------------------


def names(cache: Cache) -> list[str]:
    return sorted(path.name for path in cache.folder.iterdir())


def test_what_was_not_used_for_longest_is_dropped_first() -> None:
    small = Cache("small", "stage", "exported", "it matters", most_bytes=300)
    for name in "abc":
        small.keep(name, name * 64, FILE, bytes(100))
    for place, entry in enumerate(sorted(small.folder.iterdir())):
        os.utime(entry, (1000 + place, 1000 + place))
    assert small.find("a", "a" * 64, FILE) == bytes(100), "which makes b the oldest"
    small.keep("d", "d" * 64, FILE, bytes(100))
    assert [name[0] for name in names(small)] == ["a", "c", "d"]
    assert small.find("b", "b" * 64, FILE) is None


def test_nothing_is_dropped_that_the_cache_did_not_write() -> None:
    small = Cache("small", "stage", "exported", "it matters", most_bytes=150)
    small.keep("a", "a" * 64, FILE, bytes(100))
    (entry,) = small.folder.iterdir()
    (entry / "notes.txt").write_text("mine")
    (small.folder / "mine").mkdir()
    (small.folder / "mine.txt").write_text("mine")
    small.keep("b", "b" * 64, FILE, bytes(100))
    small.keep("c", "c" * 64, FILE, bytes(100))
    assert [name.partition("-")[0] for name in names(small)] == ["a", "c", "mine", "mine.txt"]
    assert (entry / "notes.txt").read_text() == "mine"


def test_a_stage_that_is_too_large_is_not_kept(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, exports: list[Request]
) -> None:
    monkeypatch.setattr(export_cache, "EXPORTS", dataclasses.replace(EXPORTS, most_bytes=1000))
    record(tmp_path / "a")
    record(tmp_path / "b")
    assert len(exports) == 2
    assert not cache.exists()
