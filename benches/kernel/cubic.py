"""CUBIC in the simulator beside Linux' CUBIC, on four links.

    .venv/bin/python benches/kernel/cubic.py [seconds]

As root, with `anabranch-lab` (docs/reference/lab.md). Prints the Markdown table of
docs/notebook/agreement.md: goodput and mean queue of one connection over a drop-tail queue of one
bandwidth-delay product, and how far the simulator is from the kernel. The simulator has the
endpoint `linux`; the kernel's hosts have socket buffers that do not limit the connection. Each run
is as long as `seconds`, of which the first third is not counted; the kernel's are in real time, one
after the other.
"""

import sys
import time

import anabranch

LINKS = ((1, 200), (10, 40), (50, 10), (200, 100))
"""Rate, Mbps, and round-trip time without queue, ms."""

BUFFER_BYTES = 300_000_000
"""A distribution's limits hold the window at 2832 packets: the fastest link needs 3333."""

BAND = 0.05


def scenario(rate_mbps: float, rtt_ms: float, seconds: float) -> str:
    packets = max(round(rate_mbps * rtt_ms * 1e3 / 8 / 1500), 10)
    return f"""
        algorithm = "cubic"
        measure = {{ duration_s = {seconds}, warmup_s = {seconds / 3}, sample_ms = 20 }}
        tcp.profile = "linux"
        tcp.rmem_max_bytes = {BUFFER_BYTES}
        tcp.wmem_max_bytes = {BUFFER_BYTES}
        [links.line]
        rate_mbps = {rate_mbps}
        delay_ms = {rtt_ms / 2}
        queue.drop_tail = {{ packets = {packets} }}
        [[flows]]
        name = "user"
        paths = [["line"]]
    """


def measured(text: str, backend: str) -> tuple[float, float]:
    """Goodput, Mbps, and the mean of the waiting packets."""
    result = anabranch.run(anabranch.Scenario.parse(text), on=backend, seeds=1)
    return float(result.flows["goodput_mbps"].iloc[0]), float(result.links["queue_packets"].iloc[0])


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 60.0
    print(
        "| Mbps | RTT, ms | goodput, kernel | sim | deviation | queue, kernel | sim | deviation |"
    )
    print("|--:|--:|--:|--:|--:|--:|--:|--:|")
    begun, within = time.monotonic(), 0
    for rate_mbps, rtt_ms in LINKS:
        text = scenario(rate_mbps, rtt_ms, seconds)
        kernel = measured(text, "kernel")
        sim = measured(text, "sim")
        off = [ours / theirs - 1 for ours, theirs in zip(sim, kernel, strict=True)]
        within += sum(abs(one) <= BAND for one in off)
        cells = [f"{rate_mbps} | {rtt_ms}"]
        cells += [f"{kernel[k]:.4g} | {sim[k]:.4g} | {off[k]:+.1%}" for k in (0, 1)]
        print(f"| {' | '.join(cells)} |", flush=True)
    print(f"\n{within} of {2 * len(LINKS)} are within {BAND:.0%}.")
    print(f"{time.monotonic() - begun:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
