"""Prints the slowest tests of JUnit files, what was skipped and how to repeat each failure.

    python .ci/report.py target/nextest/beside/junit.xml target/pytest.xml

A file that does not exist belongs to tests that did not run.
"""

import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

SLOWEST = 10


@dataclass(frozen=True)
class Test:
    """A test and its command; `flaky`: it failed, then passed; `skipped`: the reason, if it was."""

    command: str
    time_s: float
    failed: bool
    flaky: bool
    skipped: str | None


def read(file: Path) -> Iterator[Test]:
    for case in ElementTree.parse(file).iter("testcase"):
        yield Test(
            command=command(case),
            time_s=float(case.get("time", "0")),
            failed=case.find("failure") is not None or case.find("error") is not None,
            flaky=case.find("flakyFailure") is not None,
            skipped=reason(case),
        )


def command(case: ElementTree.Element) -> str:
    """pytest names the file; nextest names the crate and its binary: `anabranch-sim::all`."""
    name = case.get("name", "")
    if file := case.get("file"):
        return f".venv/bin/pytest {shlex.quote(f'{file}::{name}')}"
    crate, _, binary = case.get("classname", "").partition("::")
    kind, _, program = binary.rpartition("/")
    target = "--bin " + program if kind == "bin" else f"--test {binary}" if binary else "--lib"
    return f"cargo test -p {crate} {target} {name} -- --exact"


def reason(case: ElementTree.Element) -> str | None:
    """A Rust test that cannot run here passes, and prints why after SKIPPED."""
    if (skipped := case.find("skipped")) is not None:
        return skipped.get("message", "")
    printed = "\n".join(case.findtext(stream) or "" for stream in ("system-out", "system-err"))
    return next((line for line in printed.splitlines() if line.startswith("SKIPPED")), None)


def main(files: list[Path]) -> int:
    tests = [test for file in files if file.exists() for test in read(file)]
    slowest = sorted(tests, key=lambda test: test.time_s, reverse=True)[:SLOWEST]
    print(f"{len(tests)} tests; the slowest:")
    for test in slowest:
        print(f"  {test.time_s:6.1f} s  {test.command}")
    for test in tests:
        if test.skipped is not None:
            print(f"Skipped: {test.command}\n  {test.skipped}")
    flaky = [test for test in tests if test.flaky]
    if flaky:
        print("Flaky, passed when repeated:", *(f"  {test.command}" for test in flaky), sep="\n")
    failed = [test for test in tests if test.failed]
    if failed:
        print("Failed; to repeat:", *(f"  {test.command}" for test in failed), sep="\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main([Path(name) for name in sys.argv[1:]]))
