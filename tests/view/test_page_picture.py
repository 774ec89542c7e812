"""The graph in the page of a package: every part of the drawing has its details, and its colours their theme."""

from __future__ import annotations

import base64
import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import pytest
from packages import chain, diffusion, hostile, long_names, quadruped, seven_inputs, thirty_inputs, unicode_names

import support
from ashore.package import Package, write
from ashore.spec import Manifest
from ashore.view import draw, theme
from ashore.view.html.document import asset
from ashore.view.page import gather, make_page
from ashore.view.page.details import details
from page_packages import Parsed, write_hostile

SVG = "{http://www.w3.org/2000/svg}"
MAKERS = [
    chain, diffusion, hostile, long_names, quadruped, seven_inputs, thirty_inputs, unicode_names, support.arm_manifest,
]  # fmt: skip


def ids_in(svg: ET.Element) -> list[str]:
    """What `graph.js` calls the parts of a drawing."""
    found: list[str] = []
    for group in svg.iter(f"{SVG}g"):
        kind, name = group.attrib["class"], group.attrib.get("data-name", "")
        if kind != "wire" and kind != "port":
            found.append(f"{kind}:{name}")
        ports = [port.attrib for port in group.iterfind(f"{SVG}g[@class='port']")]
        found += [f"port:{name}:{port['data-side']}:{port['data-name']}" for port in ports]
    return found


@pytest.mark.parametrize("make", MAKERS)
def test_everything_in_the_drawing_has_its_details(make: Callable[[], Manifest]) -> None:
    manifest = make()
    drawn = ids_in(ET.fromstring(draw(manifest).svg()))
    told = details(manifest, {}, {}, 1)
    assert set(drawn) <= told.keys()
    assert len(set(drawn)) == len(drawn)
    in_a_loop = [name for name, stage in manifest.stages.items() if stage.rate == "loop"]
    assert {one.split(":")[1] for one in told.keys() - set(drawn)} == set(in_a_loop), "those of a loop are not drawn"


def test_the_drawing_is_in_the_page(arm_package: Package) -> None:
    page = Parsed(make_page(arm_package, gather(arm_package, samples=0)).html).root
    svg = page.section("graph").one("svg")
    assert {group.attributes["data-name"] for group in svg.all("g", class_="stage")} == {"act", "decide"}
    assert [button.attributes["aria-label"] for button in page.section("graph").all("button")] == [
        "Zoom in", "Zoom out", "Show the whole graph",
    ]  # fmt: skip


def test_every_colour_of_the_drawing_follows_the_theme() -> None:
    css = asset("graph.css")
    colours = set(re.findall(r"#[0-9a-f]{6}", Path(theme.__file__).read_text()))
    assert colours == set(re.findall(r'\[(?:fill|stroke)="(#[0-9a-f]{6})"\]', css))
    light, dark = re.findall(r":root[^{]*\{([^}]*)\}", css)
    names = re.compile(r"(--[\w-]+):")
    assert names.findall(light) == names.findall(dark)


@pytest.mark.parametrize("make", MAKERS)
def test_no_colour_of_the_drawing_is_left_as_it_is(make: Callable[[], Manifest]) -> None:
    css = asset("graph.css")
    svg = draw(make()).svg().decode()
    for attribute, colour in set(re.findall(r'(fill|stroke)="(#[0-9a-f]{6})"', svg)):
        assert f'.canvas [{attribute}="{colour}"]' in css


def test_hostile_names_stay_text_in_the_drawing(tmp_path: Path) -> None:
    package = write_hostile(tmp_path / "p")
    page = Parsed(make_page(package, gather(package, samples=0)).html).root
    svg = page.section("graph").one("svg")
    allowed = {"g", "title", "rect", "path", "polygon", "circle", "text"}
    assert {one.name for one in _inside(svg)} == allowed
    assert "<script>document.title='owned'</script>" in svg.text


def test_a_drawing_that_cannot_be_made_is_taken_from_the_package_as_an_image(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "ashore.view.plan", None)  # as if a library of it were missing
    contents = support.arm_contents()
    evil = b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'
    contents["files"] = {**contents["files"], "graph.svg": evil}
    package = write(tmp_path / "p", support.arm_manifest(), **contents)
    section = Parsed(make_page(package, gather(package, samples=0)).html).root.section("graph")
    (image,) = section.all("img")
    head, _, data = (image.attributes["src"] or "").partition(",")
    assert (head, base64.b64decode(data)) == ("data:image/svg+xml;base64", evil), "an image, in which nothing runs"
    assert not section.all("svg")
    assert "pip install 'ashore[export]'" in section.text
    assert json.loads(section.one("script").text)["input:q"]["title"] == "q"


def test_without_any_picture_the_page_says_why(arm_package: Package, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ashore.view.drawing.MAX_PORTS", 3)
    section = Parsed(make_page(arm_package, gather(arm_package, samples=0)).html).root.section("graph")
    assert "There is no picture: arm: 19 ports and states; a drawing shows at most 3" in section.text


def _inside(element: object) -> list:
    children = [child for child in element.children if not isinstance(child, str)]
    return [*children, *(inner for child in children for inner in _inside(child))]
