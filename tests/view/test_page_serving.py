"""A page that is shown is shown on this machine, as it is, and to nobody else."""

from __future__ import annotations

import http.client
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from threading import Thread

import pytest

from ashore.errors import AshoreError
from ashore.package import Package
from ashore.view.page import Page, serve

PAGE = Page("p", "<!doctype html><p>näher</p>".encode(), "fine")


@pytest.fixture
def port() -> Iterator[int]:
    server = serve(PAGE)
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


def ask(port: int, path: str = "/", method: str = "GET", **headers: str) -> tuple[http.client.HTTPResponse, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request(method, path, headers=headers)
    response = connection.getresponse()
    body = response.read()
    connection.close()
    return response, body


def test_the_page_is_shown_and_nothing_else(port: int) -> None:
    response, body = ask(port)
    assert (response.status, body) == (200, PAGE.html)
    assert response.getheader("Content-Type") == "text/html; charset=utf-8"
    assert response.getheader("X-Content-Type-Options") == "nosniff"
    assert response.getheader("Cache-Control") == "no-store"
    assert "Python" not in (response.getheader("Server") or "")
    assert ask(port, "/?theme=dark")[1] == PAGE.html
    for path in ("/etc/passwd", "/../", "/index.html"):
        assert ask(port, path)[0].status == 404
    assert ask(port, "/favicon.ico")[0].status == 204
    assert ask(port, method="POST")[0].status == 501
    head, nothing = ask(port, method="HEAD")
    assert (head.getheader("Content-Length"), nothing) == (str(len(PAGE.html)), b"")


def test_another_name_that_leads_here_is_refused(port: int) -> None:
    """A web site may give its name the address of this machine, and read what it finds there."""
    assert ask(port, Host="localhost:80")[0].status == 200
    assert ask(port, Host="evil.example")[0].status == 403
    assert ask(port, Host=f"127.0.0.1.evil.example:{port}")[0].status == 403


def test_only_this_machine_is_served(port: int) -> None:
    server = serve(PAGE)
    assert server.server_address[0] == "127.0.0.1"
    server.server_close()


def test_a_port_that_is_taken_is_an_error(port: int) -> None:
    with pytest.raises(AshoreError, match=rf"port {port}: cannot be served on: .*; choose another with --port"):
        serve(PAGE, port)


def listening() -> None:
    """A process that a shell started in the background would not hear of an interrupt, nor would what it starts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_the_command_shows_the_page_until_it_is_interrupted(arm_package: Package) -> None:
    command = [sys.executable, "-m", "ashore", "view", str(arm_package.path), "--samples", "0", "--serve"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, preexec_fn=listening) as process:
        try:
            assert process.stdout is not None
            lines: list[str] = []
            while not lines or not lines[-1].startswith("http"):
                lines.append(process.stdout.readline())
                assert lines[-1], "the command ended"
            found = re.fullmatch(r"http://127\.0\.0\.1:(\d+)/ until Ctrl\+C\n", lines[-1])
            assert found
            assert ask(int(found[1]))[1] == arm_package.path.with_name("arm.html").read_bytes()
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=20) == 0
        finally:
            process.kill()
