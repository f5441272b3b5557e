"""`anabranch diagnose`: why several paths together carry less than they could."""

import subprocess
import tempfile
import time
from collections.abc import Sequence
from importlib.resources import files as resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from anabranch.cli import tables
from anabranch.cli.notes import App, note
from anabranch.cli.options import Json
from anabranch.cli.progress import progress
from anabranch.formats import printable
from anabranch.scenario import ScenarioError

if TYPE_CHECKING:
    from anabranch.diagnose import Diagnosis
    from anabranch.diagnose.connection import Path as Subflow

NOT_ENOUGH = 3
COLLECTS_S = 13.5


def register(parent: App) -> None:
    """Add this command."""
    parent.command("diagnose")(diagnose_command)


def diagnose_command(
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FILE...", help="Outputs of ss and others, or a folder of them."),
    ] = None,
    peer: Annotated[
        list[Path] | None,
        typer.Option("--peer", metavar="FILE", help="Of the other end. Repeatable."),
    ] = None,
    alone: Annotated[
        list[str] | None,
        typer.Option(
            "--alone", metavar="DEVICE=FILE", help="The `iperf3 -J` of a path alone. Repeatable."
        ),
    ] = None,
    link: Annotated[
        list[str] | None,
        typer.Option(
            "--link",
            metavar="DEVICE=MBPS,...",
            help="What the contract says, as wan0=30,wan1=10. Repeatable.",
        ),
    ] = None,
    script: Annotated[
        bool, typer.Option("--script", help="Print a shell script that collects the files.")
    ] = False,
    redact: Annotated[
        Path | None,
        typer.Option(
            "--redact", metavar="DIR", help="Write copies without addresses and names, to post."
        ),
    ] = None,
    scenario: Annotated[
        Path | None,
        typer.Option("--scenario", metavar="FILE", help="Write the network as a scenario."),
    ] = None,
    picture: Annotated[
        Path | None,
        typer.Option(
            "--picture", metavar="FILE.svg|png|pdf", help="Draw each path over the samples' time."
        ),
    ] = None,
    what_if: Annotated[
        str | None,
        typer.Option(
            "--what-if",
            metavar="RULE|buffers|scheduler",
            help="Simulate the network as it is and with this change.",
        ),
    ] = None,
    live: Annotated[
        str | None,
        typer.Option(
            "--live", metavar="DST[:PORT]", help="Watch this host's connections to DST for 13 s."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Find why several paths together carry less than they could, and what to change.

    Reads the output of `ss -tinmM`, taken twice at the sender during a transfer, and what `ip`,
    `nstat`, `sysctl`, `tc` and `iperf3 -J` say; files are recognised by their content, in a folder
    `peer-*` is of the other end and `alone-DEVICE.json` a path alone. Exits with 3 if that is not
    enough for a cause, and prints what is missing.

    Examples:

        anabranch diagnose --script > collect.sh

        anabranch diagnose collected

        anabranch diagnose ss-1.txt ss-2.txt --link wan0=30,wan1=10 --json

        anabranch diagnose collected --what-if lia --scenario home.toml
    """
    if script:
        print(resources("anabranch.diagnose").joinpath("collect.sh").read_text(), end="")
        return
    if live:
        _watch(live, as_json=as_json, links=_numbers(link or []))
        return
    if not files:
        raise ScenarioError(
            "name the files, or a folder: `anabranch diagnose --script > collect.sh` writes a "
            "script that collects them"
        )
    from anabranch.diagnose import diagnose, gather
    from anabranch.diagnose.inputs import check_devices

    links = _numbers(link or [])
    given = {device: Path(file) for device, file in map(_pair, alone or [])}
    with progress("diagnose") as done:
        evidence = gather(files, peer or [], given, links, done)
    if redact is not None:
        _redact([*files, *(peer or []), *given.values()], redact)
        return
    found = diagnose(evidence)
    check_devices(evidence, [*links, *given], [path.device for path in found.connection.paths])
    if scenario is not None:
        from anabranch.diagnose.network import scenario_text

        if scenario.exists():
            raise ScenarioError(f"{scenario}: exists already: name a new file")
        scenario.write_text(scenario_text(found))
        note(f"{scenario}: the network; try `anabranch compare {scenario} --algorithm cubic,lia`")
    if picture is not None:
        from anabranch.diagnose.report import samples
        from anabranch.figures.diagnosed import write

        caption = f"{found.cause.id}: dots: packets in flight, red where another limit holds a path"
        write(*samples(found), f"{caption}; dashed: windows and least RTTs", picture)
    changed = _what_if(found, what_if) if what_if else {}
    _answer(found, as_json=as_json, changed=changed)


def _answer(found: "Diagnosis", *, as_json: bool, changed: dict[str, Any]) -> None:
    from anabranch.diagnose.report import as_dict

    if as_json:
        tables.print_json(as_dict(found) | ({"what_if": changed} if changed else {}))
    else:
        _print(found)
        if changed:
            tables.STDOUT.print(
                f"Simulated: {changed['simulated_now_mbps']:.3g} Mbps as it is, "
                f"{changed['simulated_then_mbps']:.3g} with {changed['change']}"
            )
    if not found.is_enough:
        raise typer.Exit(NOT_ENOUGH)


def _what_if(found: "Diagnosis", change: str) -> dict[str, Any]:
    from anabranch.diagnose.network import what_if

    return {"change": change, **what_if(found, change)}


def _watch(target: str, *, as_json: bool, links: dict[str, float]) -> None:
    """Collects as the script does, and asks about the connection to one address."""
    from anabranch.diagnose import diagnose, gather

    script = resources("anabranch.diagnose").joinpath("collect.sh").read_text()
    with tempfile.TemporaryDirectory(prefix="anabranch-") as folder, progress("diagnose") as done:
        command = ["sh", "-s", folder]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True) as running:  # fmt: skip
            assert running.stdin is not None
            assert running.stderr is not None
            try:
                running.stdin.write(script)
                running.stdin.close()
                began = time.monotonic()
                while running.poll() is None:
                    time.sleep(0.25)
                    done(min(1.0, (time.monotonic() - began) / COLLECTS_S))
            except BaseException:
                running.terminate()
                raise
            if running.returncode:
                raise ScenarioError(running.stderr.read().strip() or "collect.sh failed")
        evidence = gather([Path(folder)], links_mbps=links)
    _answer(diagnose(evidence, target), as_json=as_json, changed={})


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise typer.BadParameter(f"expected DEVICE=VALUE, as in wan0=30; got {text!r}")
    return name, value


def _numbers(texts: Sequence[str]) -> dict[str, float]:
    found = {}
    for device, value in (_pair(part) for text in texts for part in text.split(",")):
        try:
            rate = float(value)
        except ValueError:
            rate = 0.0
        if not 0 < rate < 1e6:
            raise typer.BadParameter(f"--link {device}: expected Mbps above 0, got {value!r}")
        found[device] = rate
    return found


def _redact(files: Sequence[Path], target: Path) -> None:
    from anabranch.diagnose.inputs import REFUSED
    from anabranch.diagnose.quic import is_qlog
    from anabranch.diagnose.redact import redact
    from anabranch.readers.capture import MAGIC

    def is_text(data: bytes) -> bool:
        return not (data.startswith((*MAGIC, *REFUSED)) or is_qlog(data))

    left = redact(files, target, is_text)
    note(f"{target}: copies without addresses, tokens and names")
    if left:
        note(f"left out, because they hold packets: {', '.join(left)}")


def _print(found: "Diagnosis") -> None:
    from anabranch.diagnose.report import goodput_mbps

    evidence, connection = found.evidence, found.connection
    formats = dict.fromkeys(("peer: " if one.of_peer else "") + one.format for one in evidence.read)
    seconds = f"{connection.seconds:.3g} s between the samples" if connection.seconds else ""
    seconds = seconds or "one sample, or the time between them is not known"
    count = len(connection.paths)
    taken = f"the connection that moved most has {count} path{'s' * (count != 1)}"
    if connection.others:
        taken += f"; {connection.others} others left out"
    _say([f"read: {'; '.join(formats)} ({taken}; {seconds})"])
    _say([f"not read: {one}" for one in evidence.skipped])
    table = tables.new_table(
        "path", "from", "Mbps", "alone", "RTT/least, ms", "window", "in flight", "unsent",
        "sent again", "held by", "rule",
    )  # fmt: skip
    for path in connection.paths:
        table.add_row(*(escape(printable(cell)) for cell in _cells(found, path)))
    tables.STDOUT.print(table)
    facts = []
    if (goodput := goodput_mbps(found)) is not None:
        facts.append(f"{goodput:.3g} Mbps together")
    if connection.outstanding_bytes:
        facts.append(f"{max(connection.outstanding_bytes)} bytes unacknowledged")
    if connection.window_bytes:
        facts.append(f"receive window {connection.window_bytes} bytes")
    if connection.buffers:
        facts.append(f"send buffer {connection.buffers[-1][0]} bytes")
    lines = [", ".join(facts)] if facts else []
    lines += [f"Cause ({found.cause.confidence}): {found.cause.id}: {found.sentence}"]
    lines += [f"  {fact}" for fact in found.cause.facts]
    if found.is_enough:
        lines += _remedy(found)
    if found.also:
        lines.append(f"Also: {', '.join(one.id for one in found.also)}; measure again after this")
    if found.missing and not (found.is_enough and found.cause.confidence == "certain"):
        lines.append("Missing:")
        lines += [f"  {one.command}   ({one.why})" for one in found.missing]
    _say(lines)


def _say(lines: Sequence[str]) -> None:
    """Print lines that quote a stranger's files: no markup, and control characters escaped."""
    for line in lines:
        tables.STDOUT.print(printable(line), soft_wrap=True, highlight=False, markup=False)


def _remedy(found: "Diagnosis") -> list[str]:
    lines = [
        f"Remedy{' at the peer' if one.host == 'peer' else ''}: {one.command}"
        for one in found.remedy
    ]
    if found.expected:
        least = "at least " if found.expected.at_least else ""
        lines.append(f"  expected {least}{found.expected.mbps:.3g} Mbps ({found.expected.source})")
    return lines


def _cells(found: "Diagnosis", path: "Subflow") -> list[str]:
    from anabranch.diagnose.report import held_by

    last = path.last
    alone = found.evidence.alone_mbps.get(path.device or "")
    share = path.retransmitted_share
    least = last.socket.fields.get("minrtt")
    return [
        path.name,
        path.address,
        "-" if path.rate_mbps is None else f"{path.rate_mbps:.1f}",
        "-" if alone is None else f"{alone:.1f}",
        f"{'-' if last.rtt_ms is None else f'{last.rtt_ms:.0f}'}/"
        f"{'-' if least is None else f'{least:.0f}'}",
        "-" if last.is_captured else f"{last.number('cwnd'):.0f}",
        f"{last.number('unacked'):.0f}",
        "-" if last.unsent_bytes is None else f"{last.unsent_bytes:.0f}",
        "-" if share is None else f"{100 * share:.1f} %",
        held_by(found, path),
        last.rule or "-",
    ]
