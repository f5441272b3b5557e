"""A report as Chromium renders it: nothing is cut at 1280 pixels, text is readable at 420."""

import html as escapes
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from papers.printed_olia import olia, olia_page

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
REQUIRED = "ANABRANCH_REQUIRE_PEERS" in os.environ
pytestmark = pytest.mark.skipif(not CHROMIUM and not REQUIRED, reason="needs Chromium")

MEASURE = """<script>addEventListener("load", () => {
  const all = (selector) => [...document.querySelectorAll(selector)];
  const fonts = all("svg text").map((text) => {
    const scale = text.getScreenCTM();
    return parseFloat(getComputedStyle(text).fontSize) * Math.hypot(scale.a, scale.b);
  });
  parent.postMessage(JSON.stringify({
    inner: innerWidth,
    document: document.documentElement.scrollWidth,
    beyond: all("body *").filter((one) => !one.closest("figure:has(.network)"))
      .filter((one) => one.getBoundingClientRect().right > innerWidth + 1)
      .map((one) => one.outerHTML.slice(0, 80)),
    strip: document.querySelector(".strip").getBoundingClientRect().bottom,
    figure: document.querySelector("svg").getBoundingClientRect().bottom,
    networks: all("svg.network").length,
    smallest: Math.min(...fonts),
  }), "*");
});</script></body>"""

FRAME = """<body>
<iframe src="page.html" style="border: 0; width: {width}px; height: 900px"></iframe>
<script>addEventListener("message", (event) => {{
  const found = document.createElement("pre");
  found.textContent = event.data;
  document.body.append(found);
}})</script></body>"""


def measured(page: str, width: int, folder: Path) -> dict[str, Any]:
    """The page in a frame of this width, because Chromium's windows have at least 500 pixels."""
    (folder / "page.html").write_text(page.replace("</body>", MEASURE))
    (folder / "frame.html").write_text(FRAME.format(width=width))
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--window-size=1400,1000"]
    command = [CHROMIUM, *options, "--virtual-time-budget=5000", "--dump-dom"]
    done = subprocess.run(
        [*map(str, command), (folder / "frame.html").as_uri()],
        capture_output=True,
        text=True,
        timeout=60,
    )
    found = re.search(r"<pre>(.*?)</pre>", done.stdout)
    assert found, done.stderr
    return dict(json.loads(escapes.unescape(found[1])))


@pytest.mark.parametrize("width", [1280, 420])
def test_nothing_is_cut_and_text_is_readable(width: int, tmp_path: Path) -> None:
    found = measured(olia_page(), width, tmp_path)
    assert found["inner"] == width
    assert found["beyond"] == []  # but for drawings of networks, which scroll within the page
    assert found["document"] <= width  # the page itself never scrolls sideways
    assert found["smallest"] >= 11  # px
    assert found["networks"] == len(olia().networks)
    if width == 1280:  # strip and first figure are on the first screen
        assert found["strip"] < 900
        assert found["figure"] < 900
