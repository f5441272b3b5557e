"""The server's process: a socket on loopback, a token, and the browser."""

import errno
import secrets
import socket
import sys
import webbrowser
from collections.abc import Callable

import uvicorn

from anabranch.extras.ui.app import make
from anabranch.extras.ui.live import Pool
from anabranch.extras.ui.opened import Opened
from anabranch.scenario import ScenarioError

LOOPBACK = "127.0.0.1"
GRACE_S = 2
"""How long open requests may last once the server ends and has cancelled their runs."""


SWITCH_S = 1e-4
"""How long theory, which is in Python, may keep the server from an answer: each time that the
server waits for the interpreter's lock."""


class _Server(uvicorn.Server):
    """A server that cancels the runs of open requests before it waits for their end."""

    def __init__(self, config: uvicorn.Config, pool: Pool) -> None:
        super().__init__(config)
        self._pool = pool

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End."""
        self._pool.close()
        await super().shutdown(sockets)


def _listener(port: int) -> socket.socket:
    try:
        return socket.create_server((LOOPBACK, port))
    except OSError as error:
        reason = "is in use" if error.errno == errno.EADDRINUSE else f"cannot be had: {error}"
        raise ScenarioError(
            f"port {port} of {LOOPBACK} {reason}: give another --port, or none for a free one"
        ) from None


def serve(
    opened: Opened, port: int, browser: bool, said: Callable[[str], None], workers: int | None
) -> None:
    """Serve the page until Ctrl-C. `said` is called with its address once it can be opened.

    Port 0 is any that is free. Raises `ScenarioError` where the port cannot be had.
    """
    sys.setswitchinterval(SWITCH_S)
    with _listener(port) as listener:
        port = listener.getsockname()[1]
        token = secrets.token_urlsafe(32)
        address = f"http://{LOOPBACK}:{port}/?token={token}"
        app = make(opened, token, port, workers)
        server = _Server(
            uvicorn.Config(
                app,
                log_level="warning",
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=GRACE_S,
                ws="none",
            ),
            app.state.pool,
        )
        said(address)
        if browser:
            webbrowser.open(address)
        server.run(sockets=[listener])
