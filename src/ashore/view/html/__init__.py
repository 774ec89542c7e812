"""Self-contained HTML pages: one file that loads nothing, works offline, and trusts none of the text in it.

A page is built from `tag`, which escapes every text it is given, and from parts made with it::

    from ashore.view.html import Section, badge, document, facts, lines, table

    page = document(
        "Verification of go1",
        [
            Section("summary", "Summary", facts([("Steps", "24"), ("Backend", "onnx")])),
            Section("ports", "Ports", table("Largest differences", ["port", ">|error|"], [["outputs/action", "1e-7"]])),
        ],
        lead="12 joints at 50 Hz",
        badges=[badge("verified", "good")],
    )
    Path("report.html").write_bytes(page)

Colours, for both themes, are the variables at the top of ``page.css``; plots are drawn by ``page.js`` as wide as there
is room. Whatever a section needs of its own, it can make with `tag` and the classes of ``page.css``: styles and scripts
in attributes are refused by the page's own content security policy.
"""

from ashore.view.html.document import Section, document
from ashore.view.html.markup import Child, Markup, embed, join, tag
from ashore.view.html.parts import badge, code, facts, note, scrolling, table, tiles
from ashore.view.html.plots import Series, histogram, lines

__all__ = [
    "Child",
    "Markup",
    "Section",
    "Series",
    "badge",
    "code",
    "document",
    "embed",
    "facts",
    "histogram",
    "join",
    "lines",
    "note",
    "scrolling",
    "table",
    "tag",
    "tiles",
]
