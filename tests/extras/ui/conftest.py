"""Common part of the tests of the page: a server, without a network and with one, and requests."""

import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from starlette.testclient import TestClient

from anabranch.extras.ui.app import make
from anabranch.extras.ui.opened import Opened, open_path

TOKEN = "a-token-of-the-tests"
PORT = 8000
PATIENCE_S = 30

ENDLESS = {
    "item": "examples/two_links",
    "set": {"measure.duration_s": "1e6", "measure.sample_ms": "1e6"},
    "rules": ["lia"],
    "seed": 1,
    "on": "sim",
}
"""A run that takes much longer than a test."""


def client_of(path: Path | None) -> TestClient:
    """A client, with the token, of a page that was opened with this path."""
    app = make(open_path(path), TOKEN, PORT)
    headers = {"x-anabranch-token": TOKEN}
    return TestClient(app, base_url=f"http://127.0.0.1:{PORT}", headers=headers)


class Server:
    """A server on a free port of loopback."""

    def __init__(self, opened: Opened, workers: int) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        app = make(opened, TOKEN, self.port, workers)
        self._server = uvicorn.Server(
            uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=1, ws="none")
        )

    def run(self) -> None:
        self._server.run(sockets=[self._listener])

    def stop(self) -> None:
        self._server.should_exit = True

    def begin(self, document: dict[str, Any]) -> tuple[http.client.HTTPConnection, Any]:
        """A connection on which a run was begun, and its answer, of which nothing was read."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        headers = {"x-anabranch-token": TOKEN, "content-type": "application/json"}
        connection.request("POST", "/api/run", json.dumps(document), headers)
        answer = connection.getresponse()
        assert answer.status == 200
        return connection, answer

    def jobs(self) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        connection.request("GET", "/api/jobs", headers={"x-anabranch-token": TOKEN})
        found: int = json.loads(connection.getresponse().read())["jobs"]
        connection.close()
        return found

    def wait_for_no_jobs(self) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while self.jobs():
            assert time.monotonic() < deadline, "a run is left"
            time.sleep(0.02)


def read_until(answer: Any, kind: str) -> dict[str, Any]:
    """The next event of this type."""
    while True:
        event: dict[str, Any] = json.loads(answer.readline())
        if event["type"] == kind:
            return event


def events(answer: Any) -> list[dict[str, Any]]:
    """The events of a whole answer of the client."""
    assert answer.status_code == 200, answer.text
    return [json.loads(line) for line in answer.text.splitlines()]


@pytest.fixture
def client() -> Iterator[TestClient]:
    """A page's client, with the token."""
    with client_of(None) as client:
        yield client


@pytest.fixture
def server() -> Iterator[Server]:
    """A server on loopback, with one worker."""
    server = Server(open_path(None), workers=1)
    thread = threading.Thread(target=server.run)
    thread.start()
    yield server
    server.stop()
    thread.join()
