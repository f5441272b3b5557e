"""A shell in which the `as root` blocks of a page run, from its first to its last.

A command that ends with `&` goes on, and its block shows lines that it prints within 30 s, to wait
for. Other outputs have the words of the page; their numbers are of each run.
"""

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType

from repository.printed import Block, Command, Workspace, blocks, commands, regenerated

KEY = re.compile(r"MCowBQYDK2VwAyEA[\w+/]{43}=")
"""A public key, as `anabranch-gateway keygen` prints it."""
NUMBER = re.compile(r"\d[\d.,]*( [kMG](?=bps|bit|B))?")
APPEARS_S = 30.0
"""Until a line of a command in the background has to appear."""
ENDS_S = 120.0
"""A command's longest time."""
LEAVES_S = 20.0
"""Until the shell, and then all that it has started, have to end after the last command."""
_IS_ROOT = os.geteuid() == 0
_NAMESPACES = (
    ["--net", "--mount"] if _IS_ROOT else ["--net", "--mount", "--user", "--map-root-user"]
)
"""Options for the shell: settings and pinned programs end with it; a user is its root."""


def masked(line: str) -> str:
    """A line with its words only: keys, numbers and widths of columns differ from run to run.

    >>> masked("fibre  up    20.00   68 %  4.9 MB") == masked("fibre  up  9.98  7 %  13.0 kB")
    True
    """
    return re.sub(r"\s+", " ", NUMBER.sub("0", KEY.sub("key", line))).strip()


class Session:
    """A shell, its jobs, and what they have printed; nothing of it remains at the end."""

    def __init__(self, workspace: Workspace) -> None:
        self._folder = TemporaryDirectory()
        self._logs = 0
        self._shell = subprocess.Popen(
            ["unshare", *_NAMESPACES, "bash", "--norc"],
            cwd=workspace.directory,
            env=workspace.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        self._write("set -m; mount -t bpf -o mode=0700 bpf /sys/fs/bpf; ip link set lo up\n")

    def __enter__(self) -> "Session":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._shell.stdin
        self._write("for job in $(jobs -p); do kill -- -$job; done; wait\n")
        self._shell.stdin.close()
        try:
            self._shell.wait(LEAVES_S)
        except subprocess.TimeoutExpired:
            self._shell.kill()
            self._shell.wait()
        until = time.monotonic() + LEAVES_S  # programs that the lab ends with itself
        while (left := dict(_of_session(self._shell.pid))) and time.monotonic() < until:
            time.sleep(0.1)
        for process in left:
            os.kill(process, signal.SIGKILL)
        self._folder.cleanup()
        assert error or not left, f"processes that did not end: {left}"

    def enter(self, command: Command) -> list[str]:
        """Output of a command, without spaces at the ends of lines and empty lines at its ends.

        Of one in the background, the lines that the page shows. Raises AssertionError if a command
        fails, or does not print such a line in time.
        """
        if command.text.rstrip().endswith("&"):
            return self._start(command)
        return self._run(command.text)

    def _start(self, command: Command) -> list[str]:
        self._logs += 1
        log = Path(self._folder.name) / f"job{self._logs}"
        log.touch()  # the job itself opens it later
        text = command.text.rstrip().removesuffix("&")
        self._run(f"{text} > {log} 2>&1 &")
        wanted = [masked(line) for line in command.printed if line]
        until = time.monotonic() + APPEARS_S
        while wanted:
            printed = log.read_text()
            seen = masked(printed)
            wanted = [line for line in wanted if line not in seen]
            assert time.monotonic() < until, f"{text}: does not print {wanted}, but\n{printed}"
            time.sleep(0.1)
        return [line for line in command.printed if line]

    def _run(self, text: str) -> list[str]:
        script, out, err, code = (Path(self._folder.name) / x for x in ("sh", "out", "err", "code"))
        script.write_text(f"{text}\n")
        code.unlink(missing_ok=True)
        self._write(f". {script} < /dev/null > {out} 2> {err}; echo $? > {code}.new\n")
        self._write(f"mv {code}.new {code}\n")
        until = time.monotonic() + ENDS_S
        while not code.exists():
            assert time.monotonic() < until, f"{text}: does not end within {ENDS_S:g} s"
            assert self._shell.poll() is None, f"{text}: ended the shell"
            time.sleep(0.02)
        assert code.read_text() == "0\n", f"{text}: {code.read_text()}{err.read_text()}"
        return "\n".join(map(str.rstrip, out.read_text().split("\n"))).strip("\n").split("\n")

    def _write(self, text: str) -> None:
        assert self._shell.stdin
        self._shell.stdin.write(text)
        self._shell.stdin.flush()


def _of_session(leader: int) -> Iterator[tuple[int, str]]:
    """The processes of a session that have not ended, with their command lines."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            state, _, _, session = (process / "stat").read_text().rpartition(")")[2].split()[:4]
            command = (process / "cmdline").read_text().replace("\0", " ")
        except OSError:  # it has ended
            continue
        if int(session) == leader and state != "Z":
            yield int(process.name), command


def missing(page: Path) -> list[str]:
    """Needs of the `as root` blocks of a page that are not here."""
    text = "\n".join(line for block in blocks(page) for line in block.lines if block.as_root)
    needs = {
        "root": _IS_ROOT or ("anabranch-kernel" not in text and _may_unshare()),
        "/dev/net/tun": os.access("/dev/net/tun", os.R_OK | os.W_OK),
        "Multipath TCP": Path("/proc/sys/net/mptcp/enabled").exists(),
    }
    programs = {"ip", *re.findall(r"\b(?:anabranch-\w+|curl|iperf3|mptcpize|nft)\b", text)}
    path = os.pathsep.join([*_built(), os.environ["PATH"]])
    needs |= {program: shutil.which(program, path=path) is not None for program in programs}
    return [need for need, there in needs.items() if not there]


def _may_unshare() -> bool:
    """Whether a user may be root of namespaces of its own."""
    command = ["unshare", *_NAMESPACES, "true"]
    return subprocess.run(command, stderr=subprocess.DEVNULL).returncode == 0


def _built() -> list[str]:
    """Folders of the programs that the gate has built."""
    names = ("ANABRANCH_LAB", "ANABRANCH_GATEWAY", "ANABRANCH_KERNEL")
    return [str(Path(os.environ[name]).absolute().parent) for name in names if name in os.environ]


def play_as_root(page: Path, workspace: Workspace) -> list[tuple[Block, list[str]]]:
    """Run the `as root` blocks of a page, with their lines as they are now.

    A line of an output with the words of the page stays as it is printed there.
    """
    path = [*_built(), workspace.environment["PATH"]]
    workspace.environment["PATH"] = os.pathsep.join(path)
    now = []
    with Session(workspace) as session:
        for block in blocks(page):
            if block.file:
                workspace.write(block)
            elif block.as_root:
                entered = commands(block)
                for command in entered:
                    output = session.enter(command)
                    command.output = _kept(command.printed, output)
                now.append((block, regenerated(block, entered)))
    return now


def _kept(printed: Sequence[str], output: Sequence[str]) -> list[str]:
    """The lines of the page where they have the words of the output."""
    shown = list(printed[:-1] if printed and not printed[-1] else printed)
    same = list(map(masked, shown)) == list(map(masked, output))
    return shown if same else list(output)
