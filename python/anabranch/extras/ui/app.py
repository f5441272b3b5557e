"""The addresses of the page's server."""

import asyncio
import json
import os
import re
import threading
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Send

from anabranch._core import VERSION
from anabranch.extras.ui import qlog
from anabranch.extras.ui.asked import BACKENDS_OF_PAGE, archive, asked, scenario_of
from anabranch.extras.ui.gallery import gallery, item
from anabranch.extras.ui.live import Busy, Message, Pool, described, events
from anabranch.extras.ui.opened import Opened, replayed
from anabranch.extras.ui.palette import palette
from anabranch.extras.ui.security import Guard
from anabranch.files import in_words
from anabranch.formats import short_numbers
from anabranch.scenario import ScenarioError, rules, schema
from anabranch.theory.errors import NotConverged

STATIC = Path(__file__).parent / "static"
LINES = "application/x-ndjson"


def make(opened: Opened, token: str, port: int, workers: int | None = None) -> Starlette:
    """The application for a page on this port."""
    pool = Pool(workers or os.cpu_count() or 1)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        threading.Thread(target=_load_theory, daemon=True).start()
        yield
        pool.close()

    server = _Server(opened, pool)
    routes = [
        Route("/", server.page),
        Route("/api/start", server.start),
        Route("/api/item", server.item),
        Route("/api/jobs", server.jobs),
        Route("/api/opened", server.opened),
        Route("/api/qlog", server.qlog),
        Route("/api/check", server.check, methods=["POST"]),
        Route("/api/run", server.run, methods=["POST"]),
        Route("/api/export", server.export, methods=["POST"]),
        Mount("/static", StaticFiles(directory=STATIC)),
    ]
    guard = Middleware(Guard, token=token, port=port)
    errors: dict[Any, Any] = dict.fromkeys((ScenarioError, NotConverged, OSError), _faulty)
    errors[Busy] = _busy
    app = Starlette(routes=routes, middleware=[guard], exception_handlers=errors, lifespan=lifespan)
    app.state.pool = pool
    return app


def _load_theory() -> None:
    """Load what the first run needs, while the page is being looked at."""
    import anabranch.theory.fluid.backend
    import anabranch.theory.optimum.maximise  # noqa: F401


async def _faulty(_: Request, error: Exception) -> Response:
    words = in_words(error) if isinstance(error, OSError) else str(error)
    return JSONResponse({"error": _located(short_numbers(words))}, status_code=422)


async def _busy(_: Request, error: Exception) -> Response:
    return JSONResponse({"error": {"message": str(error)}}, status_code=503)


def _located(message: str) -> Message:
    """A message of the reader of scenarios, with the line that it names."""
    _, _, rest = message.partition("scenario.toml:")
    line, _, text = rest.partition(":")
    if message.startswith("scenario.toml:") and line.isdecimal():
        return {"line": int(line), "message": text.strip()}
    plain = message.removeprefix("scenario.toml:").strip()
    return {"message": _SET.sub(r"\1 = \2: ", plain)}


_SET = re.compile(r"--set ([^=]+)=(.*?): ")
"""How the command line names a value that replaces one of the scenario, as a slider does."""


@cache
def _table_of_rules() -> list[dict[str, Any]]:
    return [
        {
            "name": rule["name"],
            "summary": rule["summary"],
            "fluid": rule["fluid"],
            "parameters": [
                {"name": one["name"], "default": f"{one['default']:g}", "meaning": one["meaning"]}
                for one in rule["parameters"]
            ],
        }
        for rule in rules()
    ]


class _Server:
    """Handlers of the addresses."""

    def __init__(self, opened: Opened, pool: Pool) -> None:
        self._opened = opened
        self._pool = pool

    async def page(self, _: Request) -> Response:
        return FileResponse(STATIC / "index.html")

    async def start(self, _: Request) -> Response:
        items = [
            {"id": i.id, "group": i.group, "title": i.title, "description": i.description}
            for i in gallery().values()
        ]
        return JSONResponse(
            {
                "version": VERSION,
                "gallery": items,
                "rules": _table_of_rules(),
                "backends": BACKENDS_OF_PAGE,
                "palette": palette(),
                "schema": json.loads(schema()),
                "opened": self._opened.as_dict(),
            }
        )

    async def item(self, request: Request) -> Response:
        found = item(request.query_params.get("id", ""))
        return JSONResponse({"toml": found.toml, "set": dict(found.set)})

    async def jobs(self, _: Request) -> Response:
        return JSONResponse({"jobs": self._pool.jobs, "workers": self._pool.workers})

    async def check(self, request: Request) -> Response:
        document = await _document(request)
        return JSONResponse(described(scenario_of(document, self._opened.folder)))

    async def run(self, request: Request) -> Response:
        given = asked(await _document(request), self._opened.folder)
        self._pool.check()
        return Events(events(given, self._pool))

    async def export(self, request: Request) -> Response:
        given = asked(await _document(request), self._opened.folder)
        stop = threading.Event()
        job = self._pool.submit(lambda: archive(given, stop))
        try:
            while not job.done():
                await asyncio.wait([job], timeout=0.1)
                if await request.is_disconnected():
                    raise ClientDisconnect
            return Response(job.result(), media_type="application/zip")
        finally:
            stop.set()

    async def opened(self, request: Request) -> Response:
        result = self._opened.result
        if result is None:
            raise ScenarioError("no directory of results was opened")
        query = request.query_params
        names = [name for name in (query.get("a"), query.get("b")) if name]
        seed = query.get("seed", "")
        if not seed.isdecimal():
            raise ScenarioError(f"seed {seed!r}: expected a whole number")
        found = await run_in_threadpool(list, replayed(result, names, int(seed)))
        return Response("".join(map(_line, found)), media_type=LINES)

    async def qlog(self, request: Request) -> Response:
        known = {str(log.relative_to(self._opened.folder)): log for log in self._opened.logs}
        query = request.query_params
        name = query.get("file", "")
        if name not in known:
            raise ScenarioError(f"{name!r} is none of the qlog files that were opened")
        span = [float(query[key]) if key in query else None for key in ("from_ms", "to_ms")]
        log = await run_in_threadpool(qlog.read, known[name])
        return JSONResponse(qlog.view(log, *span))


async def _document(request: Request) -> dict[str, Any]:
    try:
        document = json.loads(await request.body())
    except ValueError:
        raise ScenarioError("expected a JSON document") from None
    except ClientDisconnect:
        raise ScenarioError("the request is too long, or its sender has left") from None
    if not isinstance(document, dict):
        raise ScenarioError("expected a JSON object")
    return document


def _line(event: Message) -> str:
    return json.dumps(event, allow_nan=False, separators=(",", ":")) + "\n"


async def _lines(found: AsyncGenerator[Message]) -> AsyncGenerator[str]:
    async with aclosing(found):
        async for event in found:
            yield _line(event)


class Events(StreamingResponse):
    """Events as lines of JSON. When the client leaves their source is closed at once."""

    def __init__(self, found: AsyncGenerator[Message]) -> None:
        self._source = _lines(found)
        super().__init__(self._source, media_type=LINES)

    async def stream_response(self, send: Send) -> None:
        """Send the events as they come."""
        async with aclosing(self._source):
            await super().stream_response(send)
