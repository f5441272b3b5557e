"""A server of the page, without a network and with one."""

import threading
from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from anabranch.extras.ui.opened import open_path
from extras.ui.server import Server, client_of


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
