"""One HTML file that shows a whole package, with what it computes and how fast, measured while the page is made."""

from ashore.view.page.evidence import Evidence, gather
from ashore.view.page.making import Page, make_page, write_page
from ashore.view.page.serving import serve

__all__ = ["Evidence", "Page", "gather", "make_page", "serve", "write_page"]
