"""I-TCP for real: two gateways share a bottleneck, with and without rate adjustment.

    python crates/gateway/acceptance/itcp.py --carrier mptcp

This is papers/itcp/scenario_two.toml: subnet 1 offers 0.52 of the bottleneck, subnet 2 offers 0.24
in files with a heavier tail, and equal weights give subnet 1 a share of 0.5. The lab gets the
simulator's arrivals, file by file. A file that is not delivered at the end counts with its age:
without it the few files on which the tails depend would be missing.

The clock runs `--speed` times as fast as the paper's: rates of links and arrivals are multiplied by
it, delays and the period of the samples are divided by it, and sizes of files and queues stay. So
windows are the paper's, and a time, multiplied by the speed, is the paper's time. The speed is at
most 8: the RTT is then 5 ms, below which `vegas_k` takes no delay for a queue. Packets have 1500
bytes instead of 1000, and the links of the lab are faster by the share of headers. Unlike the
simulator's, a file's time in the system has the round trip that opens its stream in it.

The paper's 20 000 s are too long for a lab, and 2000 s have some 15 rounds of its C = 180 samples,
too few for kappa to follow; so C is 45 here, in the lab and in the simulator.

With carrier mptcp `vegas_k` must be pinned: anabranch-kernel load vegas_k:kappa=10 --pin.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from gateways import CARRIERS, payload_share
from hosts import HERE, ROOT, SERVER, Lab, Program, load, run_scenario

import anabranch

VARIANTS = {"fixed": None, "printed": False, "guard": True}
"""Whether the adjustment has the guard, by variant; None without adjustment."""
SUBNETS = ("subnet1", "subnet2")
PERIOD_S = 0.5
"""P of the paper's table I."""
WEIGHT = 10
"""M, with which all start."""


def links(speed: float, payload: float) -> str:
    """The links of the paper at this speed; `payload` is the share of a packet."""
    access = f"{{ rate_mbps = {100 * speed / payload}, delay_ms = {10 / speed} }}"
    bottleneck = f"rate_mbps = {10 * speed / payload}, delay_ms = {10 / speed}"
    return (
        f"links.access1 = {access}\nlinks.access2 = {access}\n"
        f"links.bottleneck = {{ {bottleneck}, queue.drop_tail = {{ packets = 10000 }} }}\n"
    )


def simulated(
    guard: bool | None, options: argparse.Namespace, faster: float = 1
) -> dict[str, dict[float, tuple[int, float]]]:
    """Per subnet and arrival, s, the bytes and the time in the system, s, of what was delivered.

    With links that are so much `faster` all files are, and the arrivals are the same.
    """
    speed = options.speed
    period = f"samples = {options.samples}, period_s = {PERIOD_S / speed}"
    adjust = "" if guard is None else f", adjust = {{ {period}, guard = {str(guard).lower()} }}"
    sizes = (
        "{ mean_bytes = 65000, shape = 2.5 }",
        "{ mean_bytes = 30000, shape = 1.2 }",
    )
    flows = "".join(
        f'[[flows]]\nname = "{name}"\npaths = [["access{i}", "bottleneck"]]\n'
        f"workload.gateway = {{ clients = 10, rate_per_s = {speed}, size.pareto = {size}{adjust} }}"
        "\n"
        for i, (name, size) in enumerate(zip(SUBNETS, sizes, strict=True), 1)
    )
    text = (
        f'algorithm = "vegas:kappa={WEIGHT}"\nseeds = [{options.seed}]\n'
        f"measure = {{ duration_s = {options.seconds / speed}, sample_ms = 1000 }}\n"
        "tcp = { packet_bytes = 1000, header_bytes = 0, initial_window_packets = 2 }\n"
    )
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        file.write(text + links(speed, 1 / faster) + flows)
        file.flush()
        transfers = anabranch.run(file.name).transfers
    return {
        subnet: {
            row.start_s: (row.bytes, row.duration_s)
            for row in transfers[transfers.flow == subnet].itertuples()
        }
        for subnet in SUBNETS
    }


def ages(arrivals: list[tuple[float, int]], took_s: list[float | None], end_s: float) -> np.ndarray:
    """The time in the system of each file until it was delivered or the measurement ended, s."""
    until_end = (end_s - at for at, _ in arrivals)
    return np.array(
        [
            left if took is None else min(took, left)
            for took, left in zip(took_s, until_end, strict=True)
        ]
    )


@contextlib.contextmanager
def lab(options: argparse.Namespace, carrier: str) -> Iterator[Lab]:
    """Hosts `near1` and `near2`, and `server` behind the bottleneck."""
    flows = ", ".join(
        f'{{ name = "near{i}", paths = [["access{i}", "bottleneck"]] }}' for i in (1, 2)
    )
    head = (
        'algorithm = "cubic"\nmeasure.duration_s = 1\n'
        "tcp = { rmem_max_bytes = 60_000_000, wmem_max_bytes = 60_000_000 }\n"
    )
    text = head + links(options.speed, payload_share(carrier)) + f"flows = [{flows}]\n"
    with run_scenario(text) as running:
        yield running


def gateway() -> str:
    """The program."""
    return os.environ.get("ANABRANCH_GATEWAY") or str(ROOT / "target/release/anabranch-gateway")


def write_configurations(
    folder: Path, i: int, carrier: str, guard: bool | None, options: argparse.Namespace
) -> None:
    """Files of the i-th pair of gateways."""
    keys = {}
    for side in ("near", "far"):
        command: list[str | Path] = [gateway(), "keygen", folder / f"{side}{i}.key"]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        keys[side] = done.stdout.strip()
    # Over QUIC the weight is a parameter of the rule; the kernel's is given at `load`.
    algorithm = f"vegas:kappa={WEIGHT}" if carrier == "quic" else "vegas"
    itcp = ""
    if guard is not None:
        itcp = (
            f"[tunnel.itcp]\nsamples = {options.samples}\nperiod_s = {PERIOD_S / options.speed}\n"
            f"guard = {str(guard).lower()}\n"
        )
    # Files wait in the gateway, not at the clients.
    limits = "[limits]\nbuffer_bytes = 64000000\ntunnel_buffer_bytes = 512000000\n"
    for side, peer in (("near", "far"), ("far", "near")):
        tunnel = (
            f'[tunnel]\ncarrier = "{carrier}"\nalgorithm = "{algorithm}"\n'
            f'key = "{folder / f"{side}{i}.key"}"\npeers = ["{keys[peer]}"]\n'
        )
        if side == "near":
            text = (
                f'far = "{SERVER}:{4430 + i}"\n{tunnel}{itcp}[[paths]]\nname = "path"\n'
                f'address = "10.0.{i - 1}.1"\n[[forwards]]\nlisten = "127.0.0.1:9000"\n'
                f'to = "{SERVER}:7003"\n'
            )
        else:
            text = f'listen = "{SERVER}:{4430 + i}"\nallow = ["{SERVER}"]\n{tunnel}'
        text += f'{limits}[operation]\nstatus = "127.0.0.1:948{i}"\n'
        (folder / f"{side}{i}.toml").write_text(text)


def measured(
    carrier: str,
    guard: bool | None,
    arrivals: dict[str, list[tuple[float, int]]],
    options: argparse.Namespace,
) -> tuple[dict[str, list[list[float | None]]], dict[str, list[str]]]:
    """Per subnet the files as files.py prints them, and kappa/window at the end of each tenth."""
    with lab(options, carrier) as running:
        running.spawn("server", [sys.executable, HERE / "files.py", "serve"], "files.log")
        for i in (1, 2):
            write_configurations(running.folder, i, carrier, guard, options)
            running.spawn(
                "server", [gateway(), "far", running.folder / f"far{i}.toml"], f"far{i}.log"
            )
        time.sleep(0.5)
        for i in (1, 2):
            running.spawn(
                f"near{i}", [gateway(), "near", running.folder / f"near{i}.toml"], f"near{i}.log"
            )
        time.sleep(2)
        senders: dict[str, Program] = {}
        for i, subnet in enumerate(SUBNETS, 1):
            times = running.folder / f"{subnet}.json"
            times.write_text(json.dumps(arrivals[subnet]))
            command = [sys.executable, str(HERE / "files.py"), "send", "--port", "9000"]
            senders[subnet] = running.spawn(f"near{i}", [*command, "--times", str(times)])
        states: dict[str, list[str]] = {subnet: [] for subnet in SUBNETS}
        for _ in range(10):
            time.sleep(options.seconds / options.speed / 10)
            for i, subnet in enumerate(SUBNETS, 1):
                states[subnet].append(state(running, i))
        files = {subnet: sender.report()["files"] for subnet, sender in senders.items()}
        return files, states


def state(running: Lab, i: int) -> str:
    """Weight and window, packets, of the i-th near, from its status."""
    status = json.loads(
        running.run(f"near{i}", ["curl", "-s", f"http://127.0.0.1:948{i}/status.json"])
    )
    tunnel = status["tunnels"][0]
    return f"{tunnel['kappa'] or 0:.1f}/{tunnel['paths'][0]['window_packets']:.0f}"


def print_row(
    label: str,
    subnet: str,
    arrivals: dict[str, list[tuple[float, int]]],
    took_s: list[float | None],
    end_s: float,
    speed: float,
    weights: str,
) -> None:
    """One line of the table, in the paper's time."""
    paper_s = ages(arrivals[subnet], took_s, end_s) * speed
    middle, tail = np.percentile(paper_s, [50, 99])
    late = 100 * np.mean(paper_s > 10)
    left = sum(took is None for took in took_s)
    cells = [label, subnet, len(paper_s), left, f"{middle:.2f}", f"{tail:.1f}", f"{late:.2f}"]
    print("|", " | ".join(map(str, [*cells, slope(paper_s), weights])), "|", flush=True)


def slope(times_s: np.ndarray) -> str:
    """Slope of the tail of these times, from 1 to 10 s: log10 P(S > t) over log10 t, as in the
    paper's figures 3 and 4."""
    at = np.logspace(0, 1, 20)
    tail = np.array([np.mean(times_s > t) for t in at])
    at, tail = at[tail > 0], tail[tail > 0]
    return f"{np.polyfit(np.log10(at), np.log10(tail), 1)[0]:.1f}" if len(at) > 2 else "-"


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--carrier", choices=CARRIERS, action="append", help="default: both")
    parser.add_argument("--speed", type=float, default=4, help="of the clock (4)")
    parser.add_argument("--seconds", type=float, default=1200, help="of the paper's time (1200)")
    parser.add_argument("--seed", type=int, default=4)
    parser.add_argument("--samples", type=int, default=45, help="C (45; the paper has 180)")
    parser.add_argument("--variant", choices=VARIANTS, action="append", help="default: all")
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("the lab creates network namespaces: run this as root")
    print(f"# {load()}, speed {options.speed}, {options.seconds} s, seed {options.seed}")
    print("| | subnet | files | left | median, s | 99 %, s | over 10 s, % | slope | kappa/window |")
    print("|---|---|--:|--:|--:|--:|--:|--:|---|", flush=True)
    end_s = options.seconds / options.speed
    arrivals = {
        subnet: sorted((at, size) for at, (size, _) in files.items())
        for subnet, files in simulated(None, options, faster=1000).items()
    }
    for variant in options.variant or VARIANTS:
        guard = VARIANTS[variant]
        for subnet, files in simulated(guard, options).items():
            took = [files[at][1] if at in files else None for at, _ in arrivals[subnet]]
            print_row(f"simulator, {variant}", subnet, arrivals, took, end_s, options.speed, "")
        for carrier in options.carrier or CARRIERS:
            measured_files, states = measured(carrier, guard, arrivals, options)
            for subnet in SUBNETS:
                took = [s for _, _, s in measured_files[subnet]]
                label, weights = f"{carrier}, {variant}", " ".join(states[subnet])
                print_row(label, subnet, arrivals, took, end_s, options.speed, weights)
            print(f"# {load()}", flush=True)


if __name__ == "__main__":
    main()
