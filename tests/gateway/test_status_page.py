"""The gateway's status page as Chromium renders it, of two gateways that run on loopback."""

import html as escapes
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
from pathlib import Path
from typing import Any

import pytest

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

MEASURE = """<script>addEventListener("load", () => {
  const all = (selector) => [...document.querySelectorAll(selector)];
  const shown = (element) => element.getClientRects().length > 0;
  const fonts = all("svg text, td, th, dt, dd, p").filter(shown).map((text) => {
    const scale = text.getScreenCTM?.() ?? { a: 1, b: 0 };
    return parseFloat(getComputedStyle(text).fontSize) * Math.hypot(scale.a, scale.b);
  });
  const ink = all("svg text").filter(shown).map((text) => getComputedStyle(text).fill);
  const lines = all("svg polyline").filter(shown).map((line) => getComputedStyle(line).stroke);
  parent.postMessage(JSON.stringify({
    inner: innerWidth,
    document: document.documentElement.scrollWidth,
    plots: all("svg").filter(shown).length,
    smallest: Math.min(...fonts),
    ink: [...new Set(ink)],
    body: getComputedStyle(document.body).color,
    lines: [...new Set(lines)],
  }), "*");
});</script></body>"""

FRAME = """<body>
<iframe src="page.html" style="border: 0; width: {width}px; height: 900px"></iframe>
<script>addEventListener("message", (event) => {{
  const found = document.createElement("pre");
  found.textContent = event.data;
  document.body.append(found);
}})</script></body>"""


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


def chromium(*arguments: str) -> str:
    assert CHROMIUM
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--window-size=1400,1000"]
    command = [CHROMIUM, *options, "--dump-dom", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120).stdout


def measured(page: str, width: int, folder: Path, *options: str) -> dict[str, Any]:
    """The page in a frame of this width, from files: its policy forbids frames and scripts."""
    style = get(f"{page}/page.css")
    html = get(page)
    html = html.replace('<link rel="stylesheet" href="/page.css">', f"<style>{style}</style>")
    html = html.replace('<script src="/page.js" defer></script>', "")
    (folder / "page.html").write_text(html.replace("</body>", MEASURE))
    (folder / "frame.html").write_text(FRAME.format(width=width))
    frame = (folder / "frame.html").as_uri()
    found = re.search(r"<pre>(.*?)</pre>", chromium("--virtual-time-budget=5000", *options, frame))
    assert found
    return dict(json.loads(escapes.unescape(found[1])))


@pytest.mark.parametrize("width", [1280, 420])
def test_nothing_is_cut_and_text_is_readable(page: str, width: int, tmp_path: Path) -> None:
    found = measured(page, width, tmp_path)
    assert found["inner"] == width
    assert found["document"] <= width  # the page itself never scrolls sideways
    assert found["smallest"] >= 11.5  # px
    # Received, sent, RTT, loss and kappa, each drawn once for this width.
    assert found["plots"] == 5
    assert found["ink"] == [found["body"]]


def test_plots_follow_a_dark_theme(page: str, tmp_path: Path) -> None:
    light = measured(page, 1280, tmp_path)
    dark = measured(page, 1280, tmp_path, "--blink-settings=preferredColorScheme=0")
    assert light["body"] != dark["body"]
    assert dark["ink"] == [dark["body"]]
    assert not set(light["lines"]) & set(dark["lines"])


class Slow(http.server.BaseHTTPRequestHandler):
    """The page, with an image that takes 5 s: Chromium prints what it shows when all is loaded."""

    upstream = ""

    def do_GET(self) -> None:
        self.send_response(200)
        if self.path == "/slow":
            time.sleep(5)
            self.end_headers()
            return
        with urllib.request.urlopen(self.upstream + self.path, timeout=10) as answer:
            self.send_header("Content-Type", answer.headers["Content-Type"])
            self.end_headers()
            for line in answer:
                self.wfile.write(line.replace(b"</body>", b'<img src="/slow"></body>'))
                self.wfile.flush()

    def log_message(self, *_: object) -> None:
        pass


def test_the_page_is_live(page: str) -> None:
    assert '<p id="connection" role="status">Not live: reload the page.</p>' in get(page)
    handler = type("Handler", (Slow,), {"upstream": page})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        dom = chromium(f"http://127.0.0.1:{server.server_port}/")
        server.shutdown()
    # The script removes the remark when it has shown what the server sent.
    assert '<p id="connection" role="status"></p>' in dom


def test_nothing_comes_from_elsewhere(page: str) -> None:
    for resource in ("", "/page.css", "/page.js"):
        assert "://" not in get(page + resource)
