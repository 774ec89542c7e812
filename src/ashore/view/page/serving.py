"""Showing a page on this machine, and to nobody else."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from ashore.errors import AshoreError
from ashore.view.page.making import Page

LOOPBACK = "127.0.0.1"


def serve(page: Page, port: int = 0) -> ThreadingHTTPServer:
    """A server of one page on loopback, listening; call its ``serve_forever``.

    Args:
        page: what every visitor gets.
        port: where to listen; 0 is one that is free, which ``server_port`` tells.

    Raises:
        AshoreError: the port is taken, or may not be used.
    """

    class Handler(BaseHTTPRequestHandler):
        server_version, sys_version = "ashore", ""

        def do_GET(self) -> None:
            self._answer(body=True)

        def do_HEAD(self) -> None:
            self._answer(body=False)

        def _answer(self, *, body: bool) -> None:
            # Another name that leads here is a web site that tries to read what is on this machine.
            host = self.headers.get("Host", "").partition(":")[0]
            if host not in (LOOPBACK, "localhost"):
                self.send_error(403, "this page is shown on loopback only")
                return
            if self.path == "/favicon.ico":
                self.send_response(204)
                self.end_headers()
                return
            if self.path.partition("?")[0] != "/":
                self.send_error(404, "there is one page here, at /")
                return
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(page.html)))
            self.send_header("Cache-Control", "no-store")
            self.send_header("X-Content-Type-Options", "nosniff")
            self.send_header("Referrer-Policy", "no-referrer")
            self.send_header("Cross-Origin-Resource-Policy", "same-origin")
            self.end_headers()
            if body:
                self.wfile.write(page.html)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
            """Say nothing: who looks at the page knows it."""

    try:
        return ThreadingHTTPServer((LOOPBACK, port), Handler)
    except (OSError, OverflowError) as error:
        raise AshoreError(f"port {port}: cannot be served on: {error}; choose another with --port") from error
