"""The page of a package: what it says, what it proves, and that nothing in a package can become part of it.

These tests run where torch and the libraries of drawings are missing, too.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

import support
from ashore.errors import AshoreError
from ashore.package import Package, pack, read, write
from ashore.spec import Artifact, Endpoint, Finding, Frozen, JointLimits, Limits, Port, State, Verification
from ashore.view.page import Page, gather, make_page, write_page
from ashore.view.page.elements import limits_of, name_of, unit_of
from page_packages import HOSTILE, Element, Parsed, write_hostile, write_large

SECTIONS = (
    "graph contract joints stages trajectories latency findings constants verification provenance files"
).split()


def page_of(package: Package, **options: Any) -> Page:
    return make_page(package, gather(package, **{"samples": 30, **options}))


def parsed(package: Package, **options: Any) -> Element:
    return Parsed(page_of(package, **options).html).root


def details(page: Element) -> dict[str, Any]:
    (found,) = page.one("div", id="picture").all("script")
    return json.loads(found.text)


def plots(section: Element) -> dict[str, dict[str, Any]]:
    """Title of a plot -> what it draws."""
    return {
        figure.one("strong").text: json.loads(figure.one("script").text)
        for figure in section.all("figure", class_="plot")
    }


# --- what it says ----------------------------------------------------------------------------------------------------


def test_every_section_is_there_and_the_navigation_leads_to_each(arm_package: Package) -> None:
    page = parsed(arm_package)
    assert [section.attributes["id"] for section in page.all("section")] == SECTIONS
    assert [link.attributes["href"] for link in page.one("nav").all("a")] == [f"#{name}" for name in SECTIONS]


def test_the_contract_says_what_the_manifest_says(arm_package: Package) -> None:
    contract = parsed(arm_package).section("contract")
    q, v = contract.table("Inputs")
    assert (q["name"], q["kind"], q["array"], q["unit"], q["source"], q["rate"], q["elements"]) == (
        "q", "state/joint/position", "float32 [1, 2]", "rad", "sensor", "policy", "shoulder, elbow",
    )  # fmt: skip
    assert v["rate"] == "substep"
    assert [row["name"] for row in contract.table("Outputs")] == ["action", "torque"]
    action, filter_, ticks = contract.table("States")
    assert (action["role"], action["on a reset"], action["initial value"]) == (
        "last action",
        "initial value",
        "0.25 -0.25",
    )
    assert filter_["initial value"] == "0.5 -0.5"
    assert (ticks["role"], ticks["on a reset"]) == ("counter", "kept")


def test_observed_ranges_are_those_of_the_recording(arm_package: Package) -> None:
    golden = arm_package.golden()
    assert golden is not None
    seen = np.concatenate([tick.inputs["q"] for tick in golden.ticks if tick.rate == "policy"])
    page = parsed(arm_package)
    assert page.section("contract").table("Inputs")[0]["observed"] == f"{seen.min():.6g} … {seen.max():.6g}"
    told = details(page)["input:q"]
    assert told["columns"] == ["element", ">least seen", ">largest seen"]
    assert told["rows"] == [
        [name, f"{seen[:, place].min():.6g}", f"{seen[:, place].max():.6g}"]
        for place, name in enumerate(support.JOINTS)
    ]


def test_joints_are_shown_with_pose_gains_and_limits(tmp_path: Path) -> None:
    bounds = JointLimits(lower=-1.5, upper=2.5)
    joints = tuple(
        msgspec.structs.replace(one, position_limits=bounds, effort_limit=33.0) for one in support.arm_manifest().joints
    )
    shoulder, elbow = parsed(support.write_arm(tmp_path / "arm", joints=joints)).section("joints").table("Joints")
    assert shoulder == {
        "name": "shoulder", "#": "0", "type": "revolute", "default": "0.1", "kp": "20", "kd": "0.5", "effort": "33",
        "lower": "-1.5", "upper": "2.5",
    }  # fmt: skip
    assert elbow["#"] == "1"


def test_details_hold_everything_about_a_port(tmp_path: Path) -> None:
    port = Port(
        dtype="float32", shape=(1, 3), kind="command/body/velocity", unit=("m/s", "m/s", "rad/s"), frame="base",
        element_names=(None, ("vx", "vy", "wz")), source="command", limits=Limits(lower=(-1.0, None, -2.0), upper=1.0),
        connection="command:twist", description="what is asked for", metadata={"a": 1}, finite=False,
    )  # fmt: skip
    manifest = msgspec.structs.replace(support.sum_manifest(), inputs={"x": port})
    package = write(tmp_path / "p", manifest, **support.sum_contents())
    told = details(parsed(package))
    facts = dict(told["input:x"]["facts"])
    assert facts["kind"] == "command/body/velocity"
    assert facts["unit"] == "m/s, m/s, rad/s"
    assert facts["frame"] == "base"
    assert facts["source"] == "command: somebody asks for it"
    assert facts["values"] == "may hold NaN and infinities"
    assert facts["connection"] == "command:twist"
    assert facts["description"] == "what is asked for"
    assert facts["metadata"] == '{"a": 1}'
    assert told["input:x"]["columns"][:4] == ["element", "unit", ">lower limit", ">upper limit"]
    assert [row[:4] for row in told["input:x"]["rows"]] == [
        ["vx", "m/s", "-1", "1"], ["vy", "m/s", "-", "1"], ["wz", "rad/s", "-2", "1"],
    ]  # fmt: skip


def test_links_of_details_follow_the_wires(arm_package: Package) -> None:
    told = details(parsed(arm_package))
    assert told["input:q"]["links"] == [["goes to decide/q", "port:decide:input:q"]]
    assert ["goes to act/held", "port:act:input:held"] in told["state:action"]["links"]
    assert ["comes from decide/action", "port:decide:output:action"] in told["state:action"]["links"]
    assert {link for one in told.values() for _, link in one.get("links", [])} <= told.keys()
    assert told["port:decide:input:q"]["note"] == "Its elements are those of inputs/q."


def test_names_in_tables_lead_to_their_details(arm_package: Package) -> None:
    page = parsed(arm_package)
    buttons = {button.text: button.attributes["data-show"] for button in page.all("button", class_="link")}
    assert buttons.keys() == {"q", "v", "action", "torque", "filter", "ticks", "act", "decide"}
    assert set(buttons.values()) <= details(page).keys()


def test_findings_constants_and_origin_are_shown(tmp_path: Path) -> None:
    finding = Finding(name="gain", severity="warning", message="kp is 0", where="robot.py:7", remedy="set it")
    frozen = Frozen(name="command", where="env.py:3", dtype="float32", shape=(3,), values=(0.5, 0.0, 0.0))
    package = support.write_arm(tmp_path / "arm", findings=(finding,), constants=(frozen,), licence="MIT")
    page = parsed(package)
    (shown,) = page.section("findings").table("Findings that were allowed")
    assert shown["severity"] == "warning"
    assert shown["message"] == "kp is 0"
    assert shown["where"] == "robot.py:7"
    (constant,) = page.section("constants").table("Frozen constants")
    assert (constant["name"], constant["array"], constant["values"]) == ("command", "float32 [3]", "0.5 0 0")
    assert "MIT" in page.section("provenance").text
    assert "1 finding allowed" in page.one("header").text


def test_files_are_listed_with_their_sizes(arm_package: Package) -> None:
    rows = parsed(arm_package).section("files").table("Files")
    assert {row["path"]: row["bytes"] for row in rows} == {
        path: f"{entry.size:,}" for path, entry in arm_package.manifest.files.items()
    }


def test_an_input_that_only_a_simulator_has_is_called_so(tmp_path: Path) -> None:
    manifest = support.sum_manifest()
    inputs = {"x": msgspec.structs.replace(manifest.inputs["x"], source="privileged")}
    page = parsed(support.write_sum(tmp_path / "p", inputs=inputs))
    assert "needs what only a simulator has" in page.one("header").text


def test_a_package_with_little_in_it_says_what_is_missing(sum_package: Package) -> None:
    page = parsed(sum_package)
    assert "names no joints" in page.section("joints").text
    assert "None" in page.section("findings").text
    assert "None" in page.section("constants").text
    assert "does not say" in page.section("verification").text
    assert "not stated" in page.one("dl", class_="tiles").text


# --- what it proves --------------------------------------------------------------------------------------------------


def test_a_good_package_gives_back_its_recording(arm_package: Package) -> None:
    page = page_of(arm_package)
    assert page.verdict == "gives back its recording"
    section = Parsed(page.html).root.section("verification")
    assert "6 steps, 22 substeps, 2 resets" in section.text
    assert {row["free-running"] for row in section.table("Largest differences")} == {"0"}


def test_trajectories_hold_the_recording_and_what_the_package_computes(arm_package: Package) -> None:
    golden = arm_package.golden()
    assert golden is not None
    drawn = plots(parsed(arm_package).section("trajectories"))
    assert drawn.keys() == {
        "outputs/action", "outputs/torque", "states/action", "states/filter", "states/ticks", "inputs/q", "inputs/v",
    }  # fmt: skip
    torque = drawn["outputs/torque"]
    recorded = np.concatenate([tick.outputs["torque"] for tick in golden.ticks if tick.rate == "substep"])
    assert [one["name"] for one in torque["series"]] == list(support.JOINTS)
    for place, one in enumerate(torque["series"]):
        assert one["values"] == pytest.approx(recorded[:, place], rel=1e-5)
        assert one["compared"] == one["values"]
        assert one["error"] == [0.0] * len(recorded)
    assert drawn["inputs/q"]["series"][0]["compared"] is None
    assert torque["yLabel"] == "N*m"


def test_ticks_stand_at_their_time_and_resets_are_marked(arm_package: Package) -> None:
    drawn = plots(parsed(arm_package).section("trajectories"))
    assert drawn["outputs/action"]["x"] == pytest.approx([0.0, 0.02, 0.04, 0.06, 0.08, 0.1])
    assert drawn["outputs/torque"]["x"][:6] == pytest.approx([0.0, 0.005, 0.01, 0.015, 0.02, 0.025])
    assert drawn["outputs/torque"]["marks"] == [0.08]
    assert drawn["outputs/torque"]["xLabel"] == "time in s"


def test_without_a_period_the_axis_counts_decisions(sum_package: Package) -> None:
    drawn = plots(parsed(sum_package).section("trajectories"))["outputs/y"]
    assert (drawn["xLabel"], drawn["x"], drawn["marks"]) == ("decision", [float(at) for at in range(8)], [5.0])


def test_a_package_that_differs_says_where(arm_package: Package) -> None:
    wrong = support.ACT_MODEL.replace("value_float = 0.1", "value_float = 0.11")
    support.change_file(arm_package.path, "artifacts/act.onnx", support.model(wrong))
    page = page_of(read(arm_package.path))
    assert page.verdict == "differs from its recording"
    root = Parsed(page.html).root
    assert "bad" in (root.one("header").all("span")[0].attributes["class"] or "")
    assert "substep 0: outputs/torque[0, 0] (shoulder): expected" in root.section("verification").text
    torque = plots(root.section("trajectories"))["outputs/torque"]["series"][0]
    difference = np.abs(np.subtract(torque["compared"], torque["values"]))
    assert difference.max() > 1e-3
    assert torque["error"] == pytest.approx(difference, rel=1e-2, abs=1e-5)


def test_a_package_that_fails_on_the_way_is_shown_up_to_there(arm_package: Package) -> None:
    wrong = support.ACT_MODEL.replace("torque = Sub(f_out, drag)", "none = Sub(v, v)\n    torque = Div(drag, none)")
    support.change_file(arm_package.path, "artifacts/act.onnx", support.model(wrong))
    page = page_of(read(arm_package.path))
    root = Parsed(page.html).root
    assert page.verdict == "differs from its recording"
    assert "stopped before the end of the recording. tick 1:" in root.section("trajectories").text
    assert plots(root.section("trajectories"))["outputs/torque"]["series"][0]["compared"] == [None] * 22
    assert plots(root.section("trajectories"))["outputs/action"]["series"][0]["compared"][1:] == [None] * 5


def test_a_package_that_cannot_run_here_has_a_page_that_says_so(tmp_path: Path) -> None:
    manifest = support.sum_manifest()
    stage = msgspec.structs.replace(manifest.stages["policy"], artifacts={"torchscript": Artifact(path="a.pt")})
    contents = {**support.sum_contents(), "files": {"a.pt": b"no program"}}
    package = write(tmp_path / "p", msgspec.structs.replace(manifest, stages={"policy": stage}), **contents)
    page = page_of(package)
    assert page.verdict == "could not be run here"
    root = Parsed(page.html).root
    for section in ("verification", "latency", "trajectories"):
        assert "torchscript" in root.section(section).text, section
    assert plots(root.section("trajectories"))["outputs/y"]["series"][0]["compared"] is None
    with pytest.raises(AshoreError, match="torchscript"):
        gather(package, backend="torchscript")


def test_a_package_without_a_recording_is_measured_all_the_same(tmp_path: Path) -> None:
    contents = {key: value for key, value in support.arm_contents().items() if key != "golden"}
    package = write(tmp_path / "p", support.arm_manifest(), **contents)
    page = page_of(package)
    assert page.verdict == "no recording"
    root = Parsed(page.html).root
    assert "no recording" in root.section("trajectories").text
    assert [row["call"] for row in root.section("latency").table("Calls")] == ["step", "substep"]


def test_latency_is_a_histogram_of_every_call_beside_the_period(arm_package: Package) -> None:
    evidence = gather(arm_package, samples=40)
    section = Parsed(make_page(arm_package, evidence).html).root.section("latency")
    step, substep = plots(section).values()
    assert sum(step["counts"]) == sum(substep["counts"]) == 40
    assert step["log"]
    assert step["marks"][2] == ["period 20 ms", 20_000.0]
    assert substep["marks"][2] == ["period 5 ms", 5_000.0]
    p99 = evidence.latency["policy"].percentile(99)
    assert step["marks"][1][1] == pytest.approx(p99)
    row = section.table("Calls")[0]
    assert row["p99 of the period"] == f"{p99 / 20_000:.2%}"


def test_a_rate_that_cannot_be_measured_says_why(tmp_path: Path) -> None:
    contents = {key: value for key, value in support.arm_contents().items() if key != "golden"}
    wrong = support.ACT_MODEL.replace("torque = Sub(f_out, drag)", "none = Sub(v, v)\n    torque = Div(drag, none)")
    contents["files"] = {**contents["files"], "artifacts/act.onnx": support.model(wrong)}
    section = parsed(write(tmp_path / "p", support.arm_manifest(), **contents)).section("latency")
    assert "Not measured. substep: " in section.text
    assert "'torque'[0, 0] (shoulder) is nan" in section.text
    assert not section.all("table")


def test_nothing_is_measured_if_nothing_was_asked_for(arm_package: Package) -> None:
    assert "Not measured. It was asked not to." in parsed(arm_package, samples=0).section("latency").text


def test_the_verification_of_the_export_is_shown_beside(tmp_path: Path) -> None:
    skipped = parsed(support.write_arm(tmp_path / "arm", verification=Verification(status="skipped")))
    assert "told to verify nothing" in skipped.section("verification").text


def test_rows_of_a_batch_are_told_apart(tmp_path: Path) -> None:
    page = parsed(support.write_batched(tmp_path / "p", rows=3))
    drawn = plots(page.section("trajectories"))
    names = [one["name"] for one in drawn["outputs/y"]["series"]]
    assert names == [f"[{row}, {place}]" for row in range(3) for place in range(2)]
    assert page.section("contract").table("Inputs")[0]["array"] == "float32 [batch, 2]"


# --- size ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Package:
    return write_large(tmp_path_factory.mktemp("large") / "large", ticks=600)


@pytest.fixture(scope="module")
def large_page(large: Package) -> Page:
    return page_of(large)


def test_the_page_of_a_large_package_stays_small(large_page: Page) -> None:
    assert len(large_page.html) < 2_000_000
    assert large_page.verdict == "gives back its recording"


def test_what_is_left_out_of_plots_is_said_and_spikes_are_kept(large: Package, large_page: Page) -> None:
    golden = large.golden()
    assert golden is not None
    section = Parsed(large_page.html).root.section("trajectories")
    drawn = plots(section)["inputs/height_scan"]
    assert len(drawn["series"]) < 187
    assert f"Shown: {len(drawn['series'])} of 187 elements, those that change most." in section.text
    assert len(drawn["x"]) < 600
    assert f"600 ticks drawn as {len(drawn['x'])} points" in section.text
    seen = np.concatenate([tick.inputs["height_scan"] for tick in golden.ticks])
    one = drawn["series"][0]
    place = int(one["name"].strip("[]"))
    assert min(one["values"]) == pytest.approx(seen[:, place].min(), rel=1e-5)
    assert max(one["values"]) == pytest.approx(seen[:, place].max(), rel=1e-5)
    assert drawn["x"] == sorted(drawn["x"])


def test_more_ports_than_can_be_plotted_are_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ashore.view.page.plots.MAX_NUMBERS", 3000)
    package = write_large(tmp_path / "p", ports=40, ticks=100)
    section = parsed(package, samples=0).section("trajectories")
    numbers = sum(
        len(values) for plot in plots(section).values() for one in plot["series"]
        for values in (one["values"], one["compared"], one["error"]) if values
    )  # fmt: skip
    assert 0 < numbers <= 3000
    assert "more are not plotted" in section.text


# --- hostile packages ------------------------------------------------------------------------------------------------


def test_hostile_names_stay_text_everywhere(tmp_path: Path) -> None:
    page = page_of(write_hostile(tmp_path / "p"))
    parts = Parsed(page.html)
    svg = {"svg", "g", "title", "rect", "path", "polygon", "circle", "text"}
    html = (
        "html head meta title style body a header div h1 span p button nav ul li main dl dt dd section h2 h3 table "
        "caption thead tbody tr th td code figure figcaption strong script details summary aside footer noscript"
    )
    assert parts.names() <= svg | set(html.split())
    for name, given in parts.elements:
        assert not [key for key in given if key.startswith("on") or key == "style"], (name, given)
        assert (given.get("href") or "#").startswith("#")
        assert "src" not in given
    told = details(parts.root)
    for name, row in zip(HOSTILE, parts.root.section("contract").table("Inputs"), strict=True):
        assert told[f"input:{name}"]["title"] == name
        assert row["name"] == name + name, "the name, and the description below"
        assert row["kind"] == f"custom/{name}"
    scripts = [script for script in parts.root.all("script") if script.attributes.get("type") != "application/json"]
    assert len(scripts) == 2, "the page's own"


# --- writing it ------------------------------------------------------------------------------------------------------


def test_a_page_is_not_written_into_a_package(arm_package: Package) -> None:
    page = page_of(arm_package)
    with pytest.raises(AshoreError, match=r"lies in the package .*arm, which holds nothing but its own files"):
        write_page(page, arm_package.path / "artifacts" / "page.html")
    with pytest.raises(AshoreError, match="is a directory; name the file"):
        write_page(page, arm_package.path.parent)
    read(arm_package.path)


def test_a_page_is_there_whole_or_not_at_all(arm_package: Package, tmp_path: Path, monkeypatch: Any) -> None:
    page = page_of(arm_package)
    out = tmp_path / "new" / "page.html"
    write_page(page, out)
    assert out.read_bytes() == page.html

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", fail)
    with pytest.raises(AshoreError, match=r"page.html: cannot be written: No space left on device"):
        write_page(page, out)
    assert out.read_bytes() == page.html
    assert [path.name for path in out.parent.iterdir()] == ["page.html"]


def test_a_film_is_put_into_the_page(arm_package: Package, tmp_path: Path) -> None:
    film = tmp_path / "walk.mp4"
    film.write_bytes(b"\x00\x01film")
    evidence = gather(arm_package, samples=0)
    shown = Parsed(make_page(arm_package, evidence, film=film).html).root.section("film").one("video")
    assert shown.attributes["src"] == "data:video/mp4;base64,AAFmaWxt"
    (film.rename(tmp_path / "walk.gif")).touch()
    image = Parsed(make_page(arm_package, evidence, film=tmp_path / "walk.gif").html).root.section("film").one("img")
    assert (image.attributes["src"] or "").startswith("data:image/gif;base64,")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("walk.avi", r"a film ends in one of \.mp4"),
        ("walk.svg", "a film ends in one of"),
        ("gone.mp4", "cannot be read"),
    ],
)
def test_a_film_that_cannot_be_shown_is_refused(arm_package: Package, tmp_path: Path, name: str, message: str) -> None:
    if not name.startswith("gone"):
        (tmp_path / name).write_bytes(b"x")
    with pytest.raises(AshoreError, match=message):
        make_page(arm_package, gather(arm_package, samples=0), film=tmp_path / name)


def test_a_film_may_not_be_endless(arm_package: Package, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ashore.view.page.making.MAX_FILM_BYTES", 3)
    (tmp_path / "walk.mp4").write_bytes(b"1234")
    with pytest.raises(AshoreError, match="4 bytes; a page takes a film of at most 3: shorten it"):
        make_page(arm_package, gather(arm_package, samples=0), film=tmp_path / "walk.mp4")


# --- the command -----------------------------------------------------------------------------------------------------


def ashore(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ashore", "view", *map(str, arguments)], capture_output=True, text=True
    )


def test_the_command_writes_the_page_beside_the_package(arm_package: Package) -> None:
    done = ashore(arm_package.path, "--samples", 20)
    assert done.returncode == 0, done.stderr
    page = arm_package.path.with_name("arm.html")
    assert "arm gives back its recording" in done.stdout
    assert f"{page.stat().st_size:,} bytes" in done.stdout
    assert Parsed(page.read_bytes()).root.one("h1").text == "arm"


def test_the_command_tells_machines_what_it_found(arm_package: Package, tmp_path: Path) -> None:
    packed = pack(arm_package, tmp_path / "one.ashore")
    done = ashore(packed.path, "--samples", 20, "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert Path(told["path"]) == tmp_path.resolve() / "one.html"
    assert told["size_bytes"] == (tmp_path / "one.html").stat().st_size
    assert (told["verdict"], told["passed"], told["max_abs_error"]) == ("gives back its recording", True, 0.0)
    assert told["latency_us"]["substep"]["samples"] == 20
    assert told["url"] is None


def test_the_command_refuses_what_makes_no_sense(arm_package: Package) -> None:
    assert ashore(arm_package.path, "--port", 80).returncode == 2
    refused = ashore(arm_package.path, "--out", arm_package.path / "page.html", "--samples", 0)
    assert refused.returncode == 3
    assert "lies in the package" in refused.stderr
    assert ashore(arm_package.path, "--backend", "nonsense", "--samples", 0).returncode == 3


def test_making_a_page_loads_no_framework() -> None:
    frameworks = {"torch", "onnx", "mujoco", "networkx", "PIL"}
    code = f"import sys, ashore.view.page; print(sorted({{n.split('.')[0] for n in sys.modules}} & {frameworks!r}))"
    done = support.run_python(code)
    assert done.stdout == "[]\n", done.stderr


# --- names of elements -----------------------------------------------------------------------------------------------


def test_elements_are_called_by_their_names_or_else_by_their_place() -> None:
    legs, joints = ("FL", "FR"), ("hip", "knee", "toe")
    named = Port(dtype="float32", shape=(1, 2, 3), element_names=(None, legs, joints), unit=("rad", "rad", "m"))
    assert [name_of(named, place) for place in (0, 4)] == ["FL, hip", "FR, knee"]
    assert unit_of(named, 5) == "m"
    assert name_of(Port(dtype="float32", shape=(1, 4, 3), element_names=(None, None, joints)), 5) == "1, toe"
    assert name_of(State(dtype="float32", shape=(1, 1, 128), role="recurrent"), 77) == "[77]"
    assert name_of(State(dtype="float32", shape=(1,), role="counter"), 0) == "value"
    assert name_of(Port(dtype="float32", shape=()), 0) == "value"
    batched = Port(dtype="float32", shape=("batch", 3), element_names=(None, joints))
    assert [name_of(batched, 4, batch=2), name_of(batched, 1)] == ["1, knee", "knee"]
    bounds = Limits(lower=(0.0, None, -1.0), upper=2.0)
    assert limits_of(msgspec.structs.replace(batched, limits=bounds), 5, batch=2) == (-1.0, 2.0)


def test_the_range_of_what_is_not_finite_says_so(tmp_path: Path) -> None:
    from ashore.package import Recording
    from ashore.view.page.ranges import observe

    recording = Recording()
    for value in (1.0, np.nan, np.inf):
        recording.step({"x": np.array([value, 2.0], np.float32)}, {})
    seen = observe(recording.golden())[Endpoint("inputs", "x")]
    assert seen.whole() == "1 … inf, and values that are not finite"
    assert seen.element(1) == ("2", "2")
