"""Causes and remedies of `anabranch diagnose`, between hosts of the lab.

    .venv/bin/python benches/diagnose/situations.py FOLDER [NAME...]

As root, with `anabranch-lab` (docs/reference/lab.md), iperf3, mptcpize and nft. In each network the
causes are made, a transfer is watched at both ends by the script of `anabranch diagnose --script`,
the files, which stay in FOLDER, are diagnosed, and what diagnose prints as the remedy is run; with
several causes this is repeated. Prints docs/records/diagnose.csv, with goodputs in Mbps: before the
remedy, as expected from the links' rates (`--link`) and from each path alone (`--alone`), and after
it. In parentheses: "at least".
"""

import csv
import json
import os
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LAB = os.environ.get("ANABRANCH_LAB", "anabranch-lab")
DIAGNOSE = [sys.executable, "-m", "anabranch", "diagnose"]
SERVER = "10.255.255.254"
SECONDS = 22
SERVERS = "iperf3 -s -p 5202 >/dev/null & iperf3 -s >/dev/null"
USUAL = "sysctl -qw net.ipv4.tcp_notsent_lowat=4294967295 net.ipv4.tcp_rmem='4096 131072 6291456'"
BOX = (
    "nft add table ip box; nft 'add chain ip box c {type filter hook input priority 0;}'; "
    "nft add rule ip box c ip saddr 10.0.0.2"
)
HEAD = "situation; links, Mbps/ms; rule; diagnosed; before; by links; by paths alone; after"


@dataclass(frozen=True)
class Situation:
    """A network of situations.toml, which explains the keys."""

    causes: list[str]
    links: list[list[float]]
    rule: str = "cubic"
    here: str = "true"
    peer: str = "true"
    last: str = ""
    shared: float = 0.0
    rate: str = ""


def scenario(one: Situation) -> str:
    """The network as a file of the lab."""
    lines = ['algorithm = "reno"', 'tcp.profile = "linux"', "measure.duration_s = 10"]
    for i, (rate, rtt) in enumerate(one.links):
        queue = f"queue.drop_tail = {{ packets = {max(60, round(rate * rtt / 12))} }}"
        last = one.last if i == len(one.links) - 1 else ""
        lines += [f"[links.l{i}]", f"rate_mbps = {rate}", f"delay_ms = {rtt / 2}", last]
        lines += [queue] * ("queue" not in last)
    if one.shared:
        lines += ["[links.s]", f"rate_mbps = {one.shared}", "delay_ms = 0.1",
                  "queue.drop_tail = { packets = 60 }"]  # fmt: skip
    paths = [[f"l{i}", *["s"] * bool(one.shared)] for i in range(len(one.links))]
    return "\n".join([*lines, "[[flows]]", 'name = "user"', f"paths = {json.dumps(paths)}", ""])


def words(file: Path, host: str, command: str) -> list[str]:
    """Arguments that run a command in a host of the lab."""
    return [LAB, "exec", str(file), host, "--", "sh", "-c", command]


def collect(one: Situation, file: Path, folder: Path, rate: str) -> float:
    """Each path alone, then a transfer that is watched at both ends; goodput, Mbps."""
    folder.mkdir()
    for i in range(len(one.links)):
        # Without the library of mptcpize.
        alone = f"env -u LD_PRELOAD iperf3 -J -t 5 -c {SERVER} -p 5202 -B 10.0.0.{i + 1}"
        subprocess.run(words(file, "user", f"{alone} >{folder}/alone-path{i}.json"), check=False)
    test = f"iperf3 {rate} -J -t {SECONDS} -c {SERVER} >{folder}/iperf3.json"
    running = [subprocess.Popen(words(file, "user", test))]
    time.sleep(4)
    for host, prefix in (("user", ""), ("server", "peer-")):
        command = f"{' '.join(DIAGNOSE)} --script | sh -s {folder} {prefix} >/dev/null"
        running.append(subprocess.Popen(words(file, host, command)))
    for process in running:
        process.wait()
    end = json.loads((folder / "iperf3.json").read_text())["end"]
    return float(end["sum_received"]["bits_per_second"]) / 1e6


def expected(folder: Path, *options: str) -> tuple[dict[str, Any], str]:
    """Answer of diagnose, and the goodput that it expects."""
    done = subprocess.run([*DIAGNOSE, folder, "--json", *options], stdout=subprocess.PIPE)
    found = json.loads(done.stdout)
    mbps, source = found["remedy"][0]["expected_mbps"], found["remedy"][0]["from"]
    text = "" if mbps is None else f"{mbps:.1f}"
    return found, f"({text})" if source and "now" in source and source != "as now" else text


def setup(one: Situation, rule: str) -> str:
    """Commands for the routes of the sender: a rule that only they set, or the host's default."""
    found = [USUAL]
    for i in range(len(one.links)):
        route = f"ip route replace default dev path{i} src 10.0.0.{i + 1} {rule}"
        found += [f"{route} table {i + 1}", *[route] * (i == 0)]
    return "; ".join(found)


def rows(name: str, one: Situation, folder: Path) -> Iterator[list[str]]:
    """A row per cause."""
    folder.mkdir(parents=True)
    file = folder / "network.toml"
    file.write_text(scenario(one))
    server = f"{USUAL}; {one.peer.replace('BOX', BOX)}; {SERVERS}"
    lab = subprocess.Popen(words(file, "server", server))
    try:
        time.sleep(1.5)
        here = f"{setup(one, f'congctl {one.rule}')}; {one.here}"
        subprocess.run(words(file, "user", here), check=True)
        before = collect(one, file, folder / "0", one.rate)
        links = ",".join(f"path{i}={rate}" for i, (rate, _) in enumerate(one.links))
        for i, cause in enumerate(one.causes):
            found, by_links = expected(folder / str(i), "--link", links)
            _, by_paths = expected(folder / str(i))
            for step in found["remedy"]:
                command = step["command"]
                if "tcp_congestion_control" in command:  # which the routes' rule would hide
                    command = f"{setup(one, '')}; {command}"
                host = "server" if step["host"] == "peer" else "user"
                if step["command"].startswith(("ip ", "tc ", "sysctl ")):
                    subprocess.run(words(file, host, f"{command} >&2"), check=True)
            after = collect(one, file, folder / str(i + 1), "")
            said = found["cause"]["id"] + f", not {cause}" * (found["cause"]["id"] != cause)
            shown = ", ".join(f"{rate}/{rtt}" for rate, rtt in one.links)
            numbers = (f"{before:.1f}", by_links, by_paths, f"{after:.1f}")
            yield [name, shown, one.rule, said, *numbers]
            before = after
    finally:
        lab.terminate()
        lab.wait()


def main(folder: str, *names: str) -> None:
    """Prints the table."""
    table = csv.writer(sys.stdout, lineterminator="\n")
    table.writerow(HEAD.split("; "))
    situations = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
    for name in names or situations:
        place = Path(folder).resolve() / name.replace(" ", "-")
        for row in rows(name, Situation(**situations[name]), place):
            table.writerow(row)
            sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
