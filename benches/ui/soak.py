"""The server of `anabranch ui` for minutes: runs that complete, runs that are cancelled, pages that
leave. Prints memory over time; at the end no run may be left and memory must not grow.

    python benches/ui/soak.py [--minutes 20] [--cancelled 50]
"""

import argparse
import http.client
import json
import sys
import time
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

sys.path.insert(0, str(Path(__file__).parent))

from page import server

SEED = 1
WARM = 0.25
"""The part of the time after which memory must not grow: caches and modules are loaded by then."""
MOST_GROWTH = 0.05
RULES = ["lia", "olia", "balia", "reno", "generalized"]
ITEMS = ["examples/two_links", "examples/wireless", "papers/olia/scenario_c", "studies/shared/n4"]
ENDLESS = {"measure.duration_s": "1e6", "measure.sample_ms": "1e4"}


class Page:
    """Requests as the page makes them."""

    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        self.host = parts.netloc
        self.headers = {
            "x-anabranch-token": parse_qs(parts.query)["token"][0],
            "content-type": "application/json",
        }

    def run(self, document: dict, leave_after: int | None = None) -> str:
        """The type of the last event; or leaves after so many events."""
        connection = http.client.HTTPConnection(self.host, timeout=600)
        connection.request("POST", "/api/run", json.dumps(document), self.headers)
        answer = connection.getresponse()
        assert answer.status == 200, answer.read()
        kind, count = "", 0
        for line in iter(answer.readline, b""):
            kind, count = json.loads(line)["type"], count + 1
            if leave_after is not None and count >= leave_after:
                break
        answer.close()
        connection.close()
        return kind

    def jobs(self) -> int:
        connection = http.client.HTTPConnection(self.host, timeout=600)
        connection.request("GET", "/api/jobs", headers=self.headers)
        found: int = json.loads(connection.getresponse().read())["jobs"]
        connection.close()
        return found


def memory_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


def threads(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/task").iterdir()))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--cancelled", type=int, default=50)
    chosen = parser.parse_args()
    length_s = 60 * chosen.minutes
    with server() as (address, pid):
        page, begun = Page(address), time.monotonic()
        completed = cancelled = 0
        measured, next_line = [], 0.0
        while (now_s := time.monotonic() - begun) < length_s:
            item = ITEMS[completed % len(ITEMS)]
            rules = [RULES[completed % len(RULES)], RULES[(completed + 1) % len(RULES)]]
            ask = {"item": item, "set": {}, "rules": rules, "seed": SEED, "on": "sim"}
            if cancelled < chosen.cancelled * now_s / length_s:
                endless = {**ask, "item": "examples/two_links", "set": ENDLESS}
                page.run(endless, leave_after=1 + cancelled % 7)
                cancelled += 1
            else:
                assert page.run(ask) == "done"
                completed += 1
                time.sleep(0.2)
            measured.append((now_s, memory_mb(pid)))
            if now_s >= next_line:
                next_line += length_s / 20
                line = f"{now_s:6.0f} s  {measured[-1][1]:6.0f} MB  {threads(pid)} threads"
                print(f"{line}  {completed} completed, {cancelled} cancelled", flush=True)
        deadline = time.monotonic() + 30
        while (left := page.jobs()) and time.monotonic() < deadline:
            time.sleep(0.1)
    warm = [mb for at, mb in measured if WARM * length_s <= at < 0.5 * length_s]
    late = [mb for at, mb in measured if at >= 0.75 * length_s]
    growth = sum(late) / len(late) / (sum(warm) / len(warm)) - 1
    print(f"{completed} runs completed, {cancelled} cancelled, {left} left")
    print(f"memory of the last quarter against the second: {growth:+.1%}")
    holds = left == 0 and growth <= MOST_GROWTH
    print("holds" if holds else "does not hold")
    return 0 if holds else 1


if __name__ == "__main__":
    raise SystemExit(main())
