"""A lab with one multi-homed user host, `near`, and the host `server`, and programs in them."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

ROOT = Path(__file__).parents[3]
SERVER = "10.255.255.254"

T = TypeVar("T")
HERE = Path(__file__).parent


@dataclass(frozen=True)
class Link:
    """A link with the same properties in both directions."""

    rate_mbps: float
    delay_ms: float
    queue_packets: int | None = None
    """Default: 100 ms at its rate, at least 20 packets."""
    loss: float = 0
    down: Sequence[tuple[float, float]] = ()
    """When it fails: from, to, s after the lab has started."""

    def toml(self) -> str:
        packets = self.queue_packets or max(20, round(self.rate_mbps * 1e6 * 0.1 / 12_000))
        text = f"rate_mbps = {self.rate_mbps}, delay_ms = {self.delay_ms}"
        text += f", queue.drop_tail = {{ packets = {packets} }}"
        if self.loss:
            text += f", loss.bernoulli.probability = {self.loss}"
        outages = (f"{{ from_s = {start}, to_s = {end} }}" for start, end in self.down)
        return f"{text}, down = [{', '.join(outages)}]"


def address(path: int) -> str:
    """The address of host `near` on a path of a lab."""
    return f"10.0.0.{path + 1}"


@dataclass
class Program:
    """A program that was started in a host."""

    popen: subprocess.Popen[str]
    generations: int = 2
    """Distance from the process that started it: `exec`'s is the grandchild."""

    @property
    def pid(self) -> int:
        """The number of the program itself."""
        pid = self.popen.pid
        for _ in range(self.generations):
            pid = wait_for(lambda pid=pid: _child(pid), 5, "the program to start")
        return pid

    def stop(self, timeout_s: float = 10) -> str:
        """End it with SIGTERM, and return what it printed."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGTERM)
        return self.wait(timeout_s)

    def wait(self, timeout_s: float = 600) -> str:
        """Output of the program at its end."""
        return self.popen.communicate(timeout=timeout_s)[0]

    def report(self, timeout_s: float = 600) -> dict[str, Any]:
        """The JSON object that it prints before it ends."""
        text = self.wait(timeout_s)
        if self.popen.returncode:
            raise RuntimeError(f"{self.popen.args}: exit code {self.popen.returncode}: {text}")
        return json.loads(text)

    def kill(self) -> None:
        """End it with SIGKILL: what started it, and so the program."""
        self.popen.kill()
        self.popen.wait()

    def rss_mb(self) -> float:
        """Resident memory, MB."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        kb = next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS"))
        return int(kb) / 1000

    def cpu_s(self) -> float:
        """Processor time, s."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@dataclass
class Lab:
    """A running lab, started with `start`; without a scenario all hosts are this machine."""

    folder: Path
    scenario: Path | None
    server: str = SERVER
    """The address of host `server`."""
    programs: list[Program] = field(default_factory=list)
    started_at: float = field(default_factory=time.monotonic)

    def spawn(self, host: str, command: Sequence[str | Path], log: str | None = None) -> Program:
        """Start a program in a host; with `log` it writes to that file of the lab's folder."""
        out = (self.folder / log).open("a") if log else subprocess.PIPE
        err = out if log else (self.folder / "programs.log").open("a")
        popen = subprocess.Popen(self._words(host, command), stdout=out, stderr=err, text=True)
        program = Program(popen, 2 if self.scenario else 0)
        self.programs.append(program)
        return program

    def run(self, host: str, command: Sequence[str | Path], timeout_s: float = 600) -> str:
        """Run a program in a host to its end, and return what it printed; it must succeed."""
        words = self._words(host, command)
        done = subprocess.run(words, capture_output=True, text=True, timeout=timeout_s)
        if done.returncode:
            raise RuntimeError(f"{' '.join(map(str, command))}: {done.stdout}{done.stderr}")
        return done.stdout

    def _words(self, host: str, command: Sequence[str | Path]) -> list[str]:
        words = list(map(str, command))
        if not self.scenario:
            return words
        return [_anabranch_lab(), "exec", str(self.scenario), host, "--", *words]

    def serve(self) -> None:
        """Start the servers of flood.py, game.py and hashed.py in `server`."""
        for script in ("flood", "game", "hashed"):
            self.spawn("server", [sys.executable, HERE / f"{script}.py", "serve"], f"{script}.log")
        time.sleep(0.5)

    def script(self, name: str, *arguments: object) -> Program:
        """Start flood.py, game.py or hashed.py in `near`; `report` waits for its end."""
        to = ["--to", self.server]
        return self.spawn("near", [sys.executable, HERE / f"{name}.py", *map(str, arguments), *to])

    def age_s(self) -> float:
        """Time since it started, s: the time of the links' outages, to about 50 ms."""
        return time.monotonic() - self.started_at

    def wire_bytes(self) -> list[tuple[int, int]]:
        """For each path the bytes that `near` has received from it and sent over it."""
        text = self.run("near", ["cat", "/proc/thread-self/net/dev"])
        rows = (line.split() for line in text.splitlines())
        paths = sorted((row for row in rows if row[0].startswith("path")), key=lambda row: row[0])
        return [(int(row[1]), int(row[9])) for row in paths]


@contextlib.contextmanager
def start(links: Sequence[Link], algorithm: str = "cubic") -> Iterator[Lab]:
    """A lab in which `near` has one path over each link, in both directions.

    `algorithm` is the congestion control of the hosts' kernels.
    """
    names = [f"l{number}" for number in range(len(links))]
    lines = [f'algorithm = "{algorithm}"', "measure.duration_s = 1"]
    lines += [
        f"links.{name} = {{ {link.toml()} }}" for name, link in zip(names, links, strict=True)
    ]
    paths = ", ".join(f'["{name}"]' for name in names)
    lines += [
        f'flows = [{{ name = "near", paths = [{paths}] }}]',
        "tcp = { rmem_max_bytes = 60_000_000, wmem_max_bytes = 60_000_000 }",
    ]
    with run_scenario("\n".join(lines) + "\n") as lab:
        # The gateway configures the kernel's path manager itself.
        lab.run("near", ["ip", "mptcp", "endpoint", "flush"])
        yield lab


@contextlib.contextmanager
def run_scenario(text: str) -> Iterator[Lab]:
    """A lab with the hosts and links of this scenario, in both directions."""
    folder = Path(tempfile.mkdtemp(prefix="anabranch-gateway-"))
    scenario = folder / "lab.toml"
    scenario.write_text(text)
    idle = [_anabranch_lab(), "exec", "--duplex", str(scenario), "server", "--"]
    idle += ["sh", "-c", "echo ready; exec sleep 100000"]
    first = subprocess.Popen(
        idle, stdout=subprocess.PIPE, stderr=(folder / "lab.log").open("w"), text=True
    )
    lab = Lab(folder, scenario)
    # SIGTERM, as from timeout(1), must not leave the lab behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        if not first.stdout or first.stdout.readline() != "ready\n":
            raise RuntimeError((folder / "lab.log").read_text())
        lab.started_at = time.monotonic()
        yield lab
    except BaseException:
        print(f"logs: {folder}", file=sys.stderr)
        raise
    else:
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        first.kill()  # and with it every program
        first.wait()
        for program in lab.programs:
            program.kill()


@contextlib.contextmanager
def this_machine() -> Iterator[Lab]:
    """Every host is this machine, and every address 127.0.0.1."""
    with tempfile.TemporaryDirectory(prefix="anabranch-gateway-") as folder:
        lab = Lab(Path(folder), None, "127.0.0.1")
        try:
            yield lab
        finally:
            for program in lab.programs:
                program.kill()


def load() -> str:
    """How busy the machine is; figures of a busy machine are trials."""
    return f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors"


def wait_for(look: Callable[[], T | None], timeout_s: float, what: str) -> T:
    """Result of `look`, as soon as it is not None."""
    end = time.monotonic() + timeout_s
    while time.monotonic() < end:
        if (found := look()) is not None:
            return found
        time.sleep(0.01)
    raise TimeoutError(f"waited {timeout_s} s for {what}")


def _child(pid: int) -> int | None:
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        if words := children.read_text().split():
            return int(words[0])
    return None


def _anabranch_lab() -> str:
    given = os.environ.get("ANABRANCH_LAB")
    return given or str(ROOT / "target/release/anabranch-lab")
