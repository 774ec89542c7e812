"""The frame that all pages share: nothing in a text can become markup, script or data, and nothing is loaded."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re

import pytest

from ashore.view.html import (
    Section,
    Series,
    badge,
    code,
    document,
    embed,
    facts,
    histogram,
    join,
    lines,
    note,
    table,
    tag,
    tiles,
)
from ashore.view.html.document import asset
from page_packages import HOSTILE, Parsed


def whole(text: str) -> bytes:
    """A page with one text in every place that takes one."""
    series = [Series(text, [0.0, math.nan], [0.0, 1.0], [0.0, math.inf])]
    parts = [
        table(text, [text], [[text], [code(text)]]),
        facts([(text, text)]),
        note(text),
        lines(text, [0.0, 1.0], series, summary=text, x_label=text, y_label=text, mark_label=text, names=(text, text)),
        histogram(text, [1.0, 2.0], [3], summary=text, x_label=text, marks=[(text, 1.5)], log=True),
        tag("p", text, title=text),
    ]
    sections = [Section("one", text, parts, note=text)]
    return document(text, sections, lead=text, badges=[badge(text)], head=tiles([(text, text)]), foot=text)


@pytest.mark.parametrize("text", [*HOSTILE, "\u202eright to left", "\x00\x1b[31m", "'><svg onload=alert(1)>"])
def test_a_text_stays_a_text_wherever_it_stands(text: str) -> None:
    page, plain = Parsed(whole(text)), Parsed(whole("plain"))
    assert [name for name, _ in page.elements] == [name for name, _ in plain.elements]
    assert [sorted(given) for _, given in page.elements] == [sorted(given) for _, given in plain.elements]
    assert "\u202e" not in "".join(page.texts)
    assert "\x1b" not in "".join(page.texts)


@pytest.mark.parametrize("text", HOSTILE)
def test_a_text_is_shown_as_it_is(text: str) -> None:
    assert text in Parsed(str(tag("p", text))).texts
    assert Parsed(str(tag("p", title=text))).elements == [("p", {"title": text})]


@pytest.mark.parametrize("text", [*HOSTILE, "</script><script>alert(1)</script>", "<!--<script>", "\u2028"])
def test_data_cannot_leave_its_element(text: str) -> None:
    (found,) = Parsed(str(embed({text: [text, math.nan, -math.inf, 1.5, None, True, 7]}))).texts
    wanted = text.replace("\u2028", "\N{REPLACEMENT CHARACTER}")
    assert json.loads(found) == {wanted: [wanted, None, None, 1.5, None, True, 7]}
    assert not set(found) & set("<>&")


def test_columns_say_how_they_are_set() -> None:
    page = Parsed(table("t", [".path", ">bytes", "!array", "plain"], [["a", "1", "[1, 2]", None]])).root
    assert [head.text for head in page.all("th", scope="col")] == ["path", "bytes", "array", "plain"]
    cells = [page.one("th", scope="row"), *page.all("td")]
    assert [cell.attributes.get("class") for cell in cells] == ["code", "number", "whole", None]
    assert [cell.text for cell in cells] == ["a", "1", "[1, 2]", "–"]


def test_markup_is_not_escaped_twice_and_nothing_is_nothing() -> None:
    assert join("a<", [tag("b", "c"), None, ["d"]]) == "a&lt;<b>c</b>d"
    assert tag("button", "x", hidden=True, disabled=False, class_="y", data_name=3, aria_label=None) == (
        '<button hidden class="y" data-name="3">x</button>'
    )


def test_only_the_styles_and_scripts_of_the_page_may_run() -> None:
    text = whole("x").decode()
    page = Parsed(text)
    policy = next(given["content"] for _, given in page.elements if given.get("http-equiv"))
    assert policy is not None
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == "'none'"
    assert "unsafe" not in policy
    for name, directive in (("style", "style-src"), ("script", "script-src")):
        bodies = re.findall(rf"<{name}>(.*?)</{name}>", text, re.DOTALL)
        digests = [base64.b64encode(hashlib.sha256(body.encode()).digest()).decode() for body in bodies]
        assert rules[directive].split() == [f"'sha256-{digest}'" for digest in digests]
        assert bodies


def test_the_page_names_no_other_place() -> None:
    page = Parsed(whole("x"))
    for name, given in page.elements:
        for key in ("src", "href", "srcset", "action", "data"):
            assert (given.get(key) or "#").startswith("#"), (name, given)
        assert not [key for key in given if key.startswith("on") or key == "style"], (name, given)
    assert not page.names() & {"link", "iframe", "object", "embed", "base", "form"}
    assert not re.search(r"url\(|@import", asset("page.css"))


def test_scripts_write_text_only_as_text() -> None:
    for name in ("page.js",):
        assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|Function\(", asset(name))
        assert not re.search(r"fetch\(|XMLHttp|WebSocket|import\(", asset(name))


def test_every_colour_is_there_in_both_themes_and_without_scripts() -> None:
    css = asset("page.css")
    light, chosen, system = re.findall(r":root[^{]*\{([^}]*)\}", css)
    names = re.compile(r"(--\w[\w-]*): ([^;]+);")
    assert dict(names.findall(chosen)).keys() == dict(names.findall(light)).keys()
    assert dict(names.findall(system)).items() <= dict(names.findall(chosen)).items()
    assert set(re.findall(r"var\((--[\w-]+)\)", css)) <= dict(names.findall(light)).keys()


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", [0, 1])
def test_words_can_be_read_on_what_they_stand_on(theme: int) -> None:
    """4.5 for words, 3 for lines: what the Web Content Accessibility Guidelines call AA."""
    blocks = re.findall(r":root[^{]*\{([^}]*)\}", asset("page.css"))
    colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", blocks[theme]))
    for words in ("ink", "muted", "faint", "accent", "good", "warning", "bad"):
        for ground in ("paper", "card", "head"):
            assert contrast(colours[words], colours[ground]) >= 4.5, (words, ground)
        if f"{words}-pale" in colours:
            assert contrast(colours[words], colours[f"{words}-pale"]) >= 4.5, words
    for line in (name for name in colours if re.fullmatch(r"s\d", name)):
        assert contrast(colours[line], colours["paper"]) >= 3, line
