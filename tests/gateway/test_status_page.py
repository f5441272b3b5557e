"""The gateway's status page as Chromium renders it, of two gateways that run on loopback."""

import http.server
import json
import os
import re
import shutil
import socket
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import pytest

from gateway.browser import Browser

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
GATEWAY = os.environ.get("ANABRANCH_GATEWAY")
REQUIRED = "ANABRANCH_REQUIRE_PEERS" in os.environ
pytestmark = pytest.mark.skipif(
    not (CHROMIUM and GATEWAY) and not REQUIRED,
    reason="needs Chromium, and ANABRANCH_GATEWAY, the path of anabranch-gateway",
)

CONFIG = """
tunnel = {{ carrier = "quic", algorithm = "vegas", key = "{own}.key", peers = ["{peer}"] }}
operation.status = "127.0.0.1:{status}"
"""
NEAR = """far = "127.0.0.1:{far}"
socks.listen = "127.0.0.1:{socks}"
paths = [
  {{ name = "fibre", address = "127.0.0.1" }},
  {{ name = "a-long-name-of-a-second-path.lte", address = "127.0.0.2" }},
]"""
FAR = """listen = "127.0.0.1:{far}"
allow = ["127.0.0.0/8"]"""

LIVE = "document.getElementById('connection')?.textContent === 'Live'"
MEASURE = """(() => {
  const all = (selector) => [...document.querySelectorAll(selector)];
  const shown = (element) => element.getClientRects().length > 0;
  const texts = all("svg text, td, th, dt, dd, p, li, h1, h2").filter(shown);
  const fonts = texts.map((text) => parseFloat(getComputedStyle(text).fontSize));
  const style = (selector, key) => {
    return [...new Set(all(selector).filter(shown).map((one) => getComputedStyle(one)[key]))];
  };
  const cut = texts.filter((text) => {
    const { left, right } = text.getBoundingClientRect();
    return left < 0 || right > innerWidth || text.scrollWidth > text.clientWidth + 1;
  });
  return {
    inner: innerWidth,
    document: document.documentElement.scrollWidth,
    plots: all("svg").filter(shown).length,
    cells: all(".paths td").filter(shown).length,
    smallest: Math.min(...fonts),
    ink: style("svg text", "fill"),
    body: getComputedStyle(document.body).color,
    curves: style(".curve", "stroke"),
    swatches: style(".paths i", "backgroundColor"),
    cut: cut.map((text) => text.textContent),
  };
})()"""


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(one.getsockname()[1]) for one in sockets]
    for one in sockets:
        one.close()
    return ports


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as answer:
        return str(answer.read().decode())


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of near's page, once it has a few seconds of history."""
    folder = tmp_path_factory.mktemp("gateway")
    assert GATEWAY
    keys = {}
    for name in ("near", "far"):
        done = subprocess.run([GATEWAY, "keygen", f"{name}.key"], cwd=folder, capture_output=True)
        keys[name] = done.stdout.decode().strip()
    far, socks, near_status, far_status = free_ports(4)
    files = {
        "far": (FAR, keys["near"], far_status),
        "near": (NEAR, keys["far"], near_status),
    }
    running = []
    for name, (text, peer, status) in files.items():
        text = text.format(far=far, socks=socks)
        text += CONFIG.format(own=name, peer=peer, status=status)
        (folder / f"{name}.toml").write_text(text)
        running.append(subprocess.Popen([GATEWAY, name, f"{name}.toml"], cwd=folder))
    url = f"http://127.0.0.1:{near_status}"
    try:
        wait_for_history(url)
        yield url
    finally:
        for process in running:
            process.terminate()
        codes = [process.wait(timeout=20) for process in running]
    assert codes == [0, 0]


def wait_for_history(url: str) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            tunnels = json.loads(get(f"{url}/status.json"))["tunnels"]
            if tunnels and all(path["rtt_ms"] for path in tunnels[0]["paths"]):
                time.sleep(3)
                return
        except OSError:
            pass
        time.sleep(0.2)
    raise AssertionError("no tunnel with two paths")


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    assert CHROMIUM
    started = Browser(CHROMIUM, tmp_path_factory.mktemp("chromium"))
    yield started
    started.close()


def measured(browser: Browser, url: str, width: int, scheme: str = "light") -> dict[str, Any]:
    browser.open(url, width, scheme)
    browser.wait(LIVE)
    return dict(browser.evaluate(MEASURE))


@pytest.mark.parametrize("width", [1280, 420])
def test_nothing_is_cut_and_text_is_readable(page: str, browser: Browser, width: int) -> None:
    found = measured(browser, page, width)
    assert found["inner"] == width
    assert found["document"] <= width  # the page itself never scrolls sideways
    assert found["cut"] == []
    assert found["smallest"] >= 11.5  # px
    # Received, sent, RTT, loss and kappa; eleven values beside the name for each of two paths.
    assert (found["plots"], found["cells"]) == (5, 22)
    assert found["ink"] == [found["body"]]


def test_plots_follow_a_dark_theme(page: str, browser: Browser) -> None:
    light = measured(browser, page, 1280)
    dark = measured(browser, page, 1280, "dark")
    assert light["body"] != dark["body"]
    assert dark["ink"] == [dark["body"]]
    for found in (light, dark):
        assert len(found["curves"]) == 2
        assert set(found["curves"]) == set(found["swatches"])
    assert not set(light["curves"]) & set(dark["curves"])


@pytest.mark.parametrize("width", [1280, 420])
def test_a_screen_reader_finds_table_plots_and_state(
    page: str, browser: Browser, width: int
) -> None:
    browser.open(page, width)
    browser.wait(LIVE)
    spoken = browser.spoken()
    assert ("heading", "Anabranch gateway near") in spoken
    assert ("status", "") in spoken
    roles = [role for role, _ in spoken]
    assert roles.count("table") == 1
    assert (roles.count("rowheader"), roles.count("cell")) == (2, 22)
    assert roles.count("columnheader") == (12 if width == 1280 else 0)
    plots = [name for role, name in spoken if role == "image"]
    assert len(plots) == 5
    assert re.match(r"Received, Mbit/s, last \d+ min; a-long-name\S* \d.*; fibre \d", plots[0])


def test_without_scripts_the_page_says_what_to_do(page: str, browser: Browser) -> None:
    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    browser.open(page)
    text = ""
    deadline = time.monotonic() + 30
    while "needs JavaScript" not in text and time.monotonic() < deadline:
        text = " ".join(name for _, name in browser.spoken())
    browser.call("Emulation.setScriptExecutionDisabled", value=False)
    assert "This page needs JavaScript." in text
    assert "anabranch-gateway status" in text


class Recorded(http.server.BaseHTTPRequestHandler):
    """The page with one event; the connection ends when the test says so."""

    page = ""
    event: ClassVar[dict[str, Any]] = {}
    ended: threading.Event

    def do_GET(self) -> None:
        self.send_response(200)
        if self.path == "/events":
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            self.wfile.write(b"event: update\ndata: " + json.dumps(self.event).encode() + b"\n\n")
            self.ended.wait(60)
            return
        with urllib.request.urlopen(self.page + self.path, timeout=10) as answer:
            self.send_header("Content-Type", answer.headers["Content-Type"])
            self.end_headers()
            self.wfile.write(answer.read())

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def recorded(page: str, event: dict[str, Any]) -> Iterator[tuple[str, threading.Event]]:
    """The address of a page that shows this event."""
    ended = threading.Event()
    handler = type("Handler", (Recorded,), {"page": page, "event": event, "ended": ended})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/", ended
        finally:
            ended.set()
            server.shutdown()


def event_of(page: str, samples: list[list[float | None]], **status: object) -> dict[str, Any]:
    """The status of near, with this history of its first path."""
    history = {"second": len(samples), "paths": {"fibre": samples}}
    return {"status": json.loads(get(f"{page}/status.json")) | status, "history": history}


# Sent and received Mbit/s, RTT ms, packets, lost packets, kappa: nothing is sent.
IDLE = [0.0, 0.0, 20.0, 0, 0, None]
AT = """((id) => {
  const plot = document.getElementById(id);
  const box = (all) => [...all].map((one) => {
    const { x, y, width, height } = one.getBBox();
    return { x, y, width, height };
  });
  return {
    times: [...plot.querySelectorAll(".time")].map((text) => text.textContent),
    values: [...plot.querySelectorAll(".value")].map((text) => text.textContent),
    grid: box(plot.querySelectorAll(".grid")),
    curve: box(plot.querySelectorAll(".curve"))[0],
  };
})"""


@pytest.mark.parametrize(
    ("seconds", "times"),
    [
        (230, ["now", "−1 min", "−2 min", "−3 min", "−4 min"]),
        (3600, ["now", *(f"−{minutes} min" for minutes in range(10, 70, 10))]),
    ],
)
def test_the_time_axis_begins_with_the_data(
    page: str, browser: Browser, seconds: int, times: list[str]
) -> None:
    with recorded(page, event_of(page, [IDLE] * seconds)) as (url, _):
        browser.open(url)
        browser.wait(LIVE)
        found = browser.evaluate(f"{AT}('rtt')")
    assert found["times"] == times
    # The curve ends at the right end; the left one is a full minute.
    axis, curve = found["grid"][0], found["curve"]
    assert curve["x"] + curve["width"] == pytest.approx(axis["x"] + axis["width"], abs=0.1)
    assert axis["width"] * 229 / 240 - 0.2 <= curve["width"] <= axis["width"]


def test_a_path_that_sends_nothing_has_no_loss(page: str, browser: Browser) -> None:
    with recorded(page, event_of(page, [IDLE] * 100)) as (url, _):
        browser.open(url)
        browser.wait(LIVE)
        found = browser.evaluate(f"{AT}('loss')")
    assert found["values"] == ["0.0", "0.5", "1.0"]
    assert found["curve"]["height"] == 0
    assert found["curve"]["y"] == found["grid"][0]["y"]


def test_loss_is_that_of_the_packets_of_ten_seconds(page: str, browser: Browser) -> None:
    # 5 packets of 100, sent in one second, are declared lost in the next one: 5 %.
    samples = [IDLE] * 50 + [[*IDLE[:3], 100, 0, None], [*IDLE[:3], 0, 5, None]] + [IDLE] * 48
    with recorded(page, event_of(page, samples)) as (url, _):
        browser.open(url)
        browser.wait(LIVE)
        found = browser.evaluate(f"{AT}('loss')")
    # The axis ends 10 % above the largest value.
    assert found["values"] == ["0", "2", "4"]
    grid, curve = found["grid"], found["curve"]
    percent = (grid[1]["y"] - grid[2]["y"]) / 2
    assert curve["height"] == pytest.approx(5 * percent, abs=0.2)


def test_what_comes_from_elsewhere_is_text(page: str, browser: Browser) -> None:
    name = "<b>a rule</b>"
    reload = {"applied": [], "restart": [], "errors": [name]}
    with recorded(page, event_of(page, [IDLE], algorithm=name, reload=reload)) as (url, _):
        browser.open(url)
        browser.wait(LIVE)
        main = browser.evaluate("document.querySelector('main').textContent")
        made = browser.evaluate("document.querySelectorAll('main b').length")
    assert main.count(name) == 2
    assert made == 0


def test_the_page_says_when_it_is_not_live(page: str, browser: Browser) -> None:
    with recorded(page, event_of(page, [IDLE])) as (url, ended):
        browser.open(url)
        browser.wait(LIVE)
        ended.set()
        browser.wait("document.querySelector('#connection.fault') !== null")
        text = browser.evaluate("document.getElementById('connection').textContent")
    assert text == "Not live: no connection to the gateway."


def test_the_page_is_live(page: str, browser: Browser) -> None:
    browser.open(page)
    browser.wait(LIVE)
    curve = "document.querySelector('#rtt .curve')?.getAttribute('d')"
    before = browser.evaluate(curve)
    browser.wait(f"{curve} !== {json.dumps(before)}")
    assert browser.evaluate(LIVE)


def test_nothing_comes_from_elsewhere(page: str) -> None:
    for resource in ("", "/page.css", "/page.js"):
        assert "://" not in get(page + resource)
