"""Processes and network namespaces that end with the script, however it ends.

The script runs itself again as the first process of a PID namespace, in a network namespace of its
own. When that process ends, the kernel kills every program that it has started and removes their
network namespaces, which have no names. Only after SIGKILL a folder of temporary files remains, and
the congestion control among those that are allowed on the host, if it was not there before.
"""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

INSIDE = "ANABRANCH_RIVALS_INSIDE"
"""Set in the script that runs inside."""


ALLOWED = Path("/proc/sys/net/ipv4/tcp_allowed_congestion_control")
"""Congestion controls that may be the default of a network namespace; a property of the host."""


def enter(congestion_control: str) -> None:
    """Return inside; outside run the script again inside, and exit with its code."""
    if os.environ.get(INSIDE):
        return
    if os.geteuid() != 0:
        sys.exit("the bed creates network namespaces: run this as root")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with _allowed(congestion_control):
        sys.exit(_run_inside())


@contextlib.contextmanager
def _allowed(congestion_control: str) -> Iterator[None]:
    before = ALLOWED.read_text().split()
    if congestion_control in before:
        yield
        return
    try:
        ALLOWED.write_text(" ".join([*before, congestion_control]))
    except OSError as error:
        sys.exit(f"{ALLOWED}: {congestion_control}: {error.strerror}")
    try:
        yield
    finally:
        others = (name for name in ALLOWED.read_text().split() if name != congestion_control)
        ALLOWED.write_text(" ".join(others))


def _run_inside() -> int:
    command = ["setpriv", "--pdeathsig", "KILL", "unshare", "--net", "--pid", "--kill-child"]
    command += ["--mount-proc", sys.executable, *sys.argv]
    with tempfile.TemporaryDirectory(prefix="anabranch-rivals-") as folder:
        inside = subprocess.Popen(command, env=os.environ | {INSIDE: "1", "TMPDIR": folder})
        try:
            return inside.wait()
        except KeyboardInterrupt:
            time.sleep(1)  # Ctrl-C reaches the script inside, too, which prints a last line.
            return 130
        finally:
            inside.kill()
            inside.wait()


class Host:
    """A network namespace, held by a process that sleeps."""

    def __init__(self) -> None:
        own = _namespace("self")
        self._holder = subprocess.Popen(["unshare", "--net", "sleep", "infinity"])
        self.pid = self._holder.pid
        while _namespace(self.pid) == own:
            time.sleep(0.001)

    def spawn(self, command: Sequence[str | Path], out: Path) -> subprocess.Popen[str]:
        """Start a program here that writes stdout to a file, and stderr to another beside it."""
        with out.open("w") as file, out.with_suffix(".err").open("w") as errors:
            return subprocess.Popen(self.words(command), stdout=file, stderr=errors, text=True)

    def run(self, command: Sequence[str | Path], stdin: str = "", timeout_s: float = 60) -> str:
        """Run a program here to its end, and return what it printed; it must succeed."""
        done = subprocess.run(
            self.words(command), input=stdin, capture_output=True, text=True, timeout=timeout_s
        )
        if done.returncode:
            raise RuntimeError(f"{' '.join(map(str, command))}: {done.stdout}{done.stderr}")
        return done.stdout

    def words(self, command: Sequence[str | Path]) -> list[str]:
        """The command that runs a command here, as a program with the same process number."""
        return ["nsenter", f"--net=/proc/{self.pid}/ns/net", *map(str, command)]

    def close(self) -> None:
        """Remove it, once its programs have ended."""
        end(self._holder)


def end(program: subprocess.Popen[str] | subprocess.Popen[bytes]) -> None:
    """End a program that the script has started."""
    program.kill()
    program.wait()


def cpu_s(pid: int) -> float:
    """Processor time of a program, s."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _namespace(process: int | str) -> str:
    return os.readlink(f"/proc/{process}/ns/net")
