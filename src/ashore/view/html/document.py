"""The frame of a page: its head, its navigation, its sections, and the policy that lets it load nothing."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from ashore.view.html.markup import Child, Markup, tag


@dataclass(frozen=True)
class Section:
    """A part of a page."""

    id: str
    """Where ``#id`` leads; letters and hyphens."""

    title: str
    body: Child
    note: str | None = None
    """One sentence under the title."""


def document(
    title: str,
    sections: Sequence[Section],
    *,
    lead: str | None = None,
    badges: Sequence[Markup] = (),
    head: Child = None,
    foot: Child = None,
    styles: Sequence[str] = (),
    scripts: Sequence[str] = (),
) -> bytes:
    """A whole page, UTF-8.

    Args:
        title: the heading, and what the window is called.
        sections: what the page shows; the navigation leads to each.
        lead: a sentence or two under the heading.
        badges: beside the heading.
        head: what stands between the heading and the first section, such as `tiles`.
        foot: below the last section.
        styles: further files of this folder, after ``page.css``.
        scripts: likewise, run after ``page.js``.
    """
    css, code = ([asset(name) for name in names] for names in (("page.css", *styles), ("page.js", *scripts)))
    policy = "; ".join(
        (
            "default-src 'none'",
            f"style-src {' '.join(map(_digest, css))}",
            f"script-src {' '.join(map(_digest, code))}",
            "img-src data:",
            "media-src data:",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )
    navigation = tag(
        "nav",
        tag("ul", [tag("li", tag("a", section.title, href=f"#{section.id}")) for section in sections]),
        aria_label="Sections",
    )
    header = tag(
        "header",
        tag("div", tag("h1", title), badges, class_="title"),
        tag("button", type="button", id="theme", class_="button", hidden=True),
        tag("p", lead, class_="lead") if lead else None,
    )
    page = tag(
        "html",
        tag(
            "head",
            tag("meta", charset="utf-8"),
            tag("meta", http_equiv="Content-Security-Policy", content=policy),
            tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
            tag("meta", name="color-scheme", content="light dark"),
            tag("meta", name="referrer", content="no-referrer"),
            tag("title", title),
            [tag("style", Markup(text)) for text in css],
        ),
        tag(
            "body",
            tag("a", "Skip to the content", href="#content", class_="skip"),
            header,
            navigation,
            tag("main", head, [_section(section) for section in sections], id="content", tabindex="-1"),
            tag("footer", foot) if foot else None,
            tag("noscript", tag("p", "Plots and pictures that answer to clicks need JavaScript; tables do not.")),
            [tag("script", Markup(text)) for text in code],
        ),
        lang="en",
    )
    return b"<!doctype html>\n" + page.encode()


@cache
def asset(name: str) -> str:
    """A file of this folder."""
    return files("ashore.view.html").joinpath(name).read_text("utf-8")


def _digest(text: str) -> str:
    """What the content security policy calls a style or a script that may be in the page."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _section(section: Section) -> Markup:
    heading = f"{section.id}-title"
    return tag(
        "section",
        tag("h2", section.title, id=heading),
        tag("p", section.note, class_="note") if section.note else None,
        section.body,
        id=section.id,
        aria_labelledby=heading,
    )
