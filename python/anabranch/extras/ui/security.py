"""Who may ask: a page that was opened with the token, on this machine, from this server.

Loopback alone does not keep other users' programs and web pages out: a page of another site can
send requests to 127.0.0.1 (CSRF), and with a name that resolves to 127.0.0.1 read the answers (DNS
rebinding). The token keeps out the first, the check of Host and Origin the others.
"""

import secrets
from collections.abc import Mapping
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs

from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MOST_BYTES = 1_000_000
"""The largest body of a request."""

HEADER = "x-anabranch-token"

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class Guard:
    """Refuses what must not reach the application, and adds headers to every answer."""

    def __init__(self, app: ASGIApp, token: str, port: int) -> None:
        self._app = app
        self._token = token
        self._hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost")}
        self._cookie = f"anabranch-{port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = [(name.lower().encode(), text.encode()) for name, text in HEADERS.items()]
                message = {**message, "headers": [*message["headers"], *own]}
            await send(message)

        headers = {
            name.decode("latin-1"): text.decode("latin-1") for name, text in scope["headers"]
        }
        answer = self._refusal(scope, headers) or self._welcome(scope)
        if answer is None and not self._knows(headers):
            answer = _refused(401, "open the address with the token that anabranch ui printed")
        if answer is not None:
            await answer(scope, receive, send_with_headers)
            return
        await self._app(scope, _limited(receive), send_with_headers)

    def _refusal(self, scope: Scope, headers: Mapping[str, str]) -> Response | None:
        """Fault of host, origin or body; None without one."""
        if headers.get("host") not in self._hosts:
            return _refused(421, "unknown host: open the address that anabranch ui printed")
        origin = headers.get("origin")
        if origin is not None and origin not in {f"http://{host}" for host in self._hosts}:
            return _refused(403, "another site may not use this server")
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            # A link on another site may open the page, as typing its address may.
            opens = scope["method"] == "GET" and headers.get("sec-fetch-mode") == "navigate"
            if not opens or scope["path"] != "/":
                return _refused(403, "another site may not use this server")
        if scope["method"] not in ("GET", "HEAD"):
            if origin is None and HEADER not in headers:
                return _refused(403, f"expected an Origin, or {HEADER}")
            if headers.get("content-type", "").partition(";")[0] != "application/json":
                return _refused(415, "expected application/json")
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > MOST_BYTES:
            return _refused(413, f"expected at most {MOST_BYTES} bytes")
        return None

    def _welcome(self, scope: Scope) -> Response | None:
        """The answer to the address with the token: a cookie, and the same page without it."""
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token")
        if scope["path"] != "/" or scope["method"] != "GET" or not given:
            return None
        if not self._is_token(given[0]):
            return _refused(401, "wrong token: open the address that anabranch ui printed")
        answer = RedirectResponse("/", status_code=303)
        answer.set_cookie(self._cookie, self._token, httponly=True, samesite="strict", path="/")
        return answer

    def _knows(self, headers: Mapping[str, str]) -> bool:
        """Whether the request has the token, as a header or as the cookie."""
        if self._is_token(headers.get(HEADER, "")):
            return True
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(self._cookie)
        except CookieError:
            return False
        return cookie is not None and self._is_token(cookie.value)

    def _is_token(self, text: str) -> bool:
        return secrets.compare_digest(text.encode(), self._token.encode())


def _limited(receive: Receive) -> Receive:
    """The body up to `MOST_BYTES`, also where its length was not announced."""
    received = 0

    async def limited() -> Message:
        nonlocal received
        message = await receive()
        received += len(message.get("body", b""))
        if received > MOST_BYTES:
            return {"type": "http.disconnect"}
        return message

    return limited


def _refused(status: int, text: str) -> Response:
    return PlainTextResponse(f"{text}\n", status_code=status)
