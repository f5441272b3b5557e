"""Chromium, driven over a pipe with its DevTools protocol."""

import base64
import json
import os
import select
import subprocess
import time
from pathlib import Path
from typing import Any

OPTIONS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--remote-debugging-pipe",
]
PATIENCE_S = 60


class Browser:
    """A page of an exact width, without frames and proxies, so that its security policy holds."""

    def __init__(self, chromium: str, profile: Path) -> None:
        commands, self._to = os.pipe()
        self._from, answers = os.pipe()
        # Chromium reads commands from descriptor 3 and writes answers to 4.
        shell = ["bash", "-c", f'exec "$0" "$@" 3<&{commands} 4>&{answers}', chromium]
        self._process = subprocess.Popen(
            [*shell, *OPTIONS, f"--user-data-dir={profile}", "about:blank"],
            pass_fds=(commands, answers),
            stderr=subprocess.DEVNULL,
        )
        os.close(commands)
        os.close(answers)
        self._received = b""
        self._calls = 0
        self._session: dict[str, str] = {}
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = {"sessionId": attached["sessionId"]}

    def close(self) -> None:
        self._session = {}
        self.call("Browser.close")
        self._process.wait(PATIENCE_S)
        os.close(self._to)
        os.close(self._from)

    def call(self, method: str, **params: object) -> Any:
        self._calls += 1
        message = {"id": self._calls, "method": method, "params": params, **self._session}
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = json.loads(self._receive())
            if answer.get("id") == self._calls:
                assert "error" not in answer, answer
                return answer["result"]

    def _receive(self) -> bytes:
        while b"\0" not in self._received:
            assert select.select([self._from], [], [], PATIENCE_S)[0], "Chromium does not answer"
            received = os.read(self._from, 1 << 20)
            assert received, "Chromium has ended"
            self._received += received
        message, _, self._received = self._received.partition(b"\0")
        return message

    def open(self, url: str, width: int = 1280, scheme: str = "light") -> None:
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", features=features)
        self.call("Page.navigate", url=url)

    def evaluate(self, script: str) -> Any:
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def wait(self, condition: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not self.evaluate(condition):
            assert time.monotonic() < deadline, condition
            time.sleep(0.05)

    def spoken(self) -> list[tuple[str, str]]:
        """Role and name of all that a screen reader finds."""
        nodes = self.call("Accessibility.getFullAXTree")["nodes"]
        found = [node for node in nodes if not node["ignored"]]
        return [(node["role"]["value"], node.get("name", {}).get("value", "")) for node in found]

    def screenshot(self, file: Path) -> None:
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        file.write_bytes(base64.b64decode(shot["data"]))
