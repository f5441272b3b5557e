"""Remedies where a lossy path holds up a clean one, alone and together.

`python benches/harm_remedies.py` prints goodput over two paths in Mbps with the endpoints of Linux,
and relative to the best single path, for two networks of the harm suite. About a minute.
"""

from importlib.resources import as_file, files

from anabranch import run
from anabranch.formats import markdown_table

NETWORKS = {
    "20 + 20 Mbps, 20 + 60 ms, 1 % on the slow path": ([20, 20], [20, 60], 0.01),
    "30 + 15 Mbps, 30 + 90 ms, 1.5 % on the slow path": ([30, 15], [30, 90], 0.015),
}
LINUX = {"send_buffer_windows": 2, "notsent_bytes": float("inf")}
REMEDIES = {
    "Linux": LINUX,
    "unsent data of 16 kB": {**LINUX, "notsent_bytes": 16384},
    "unsent data of 4 kB": {**LINUX, "notsent_bytes": 4096},
    "send buffer of 16 windows": {**LINUX, "send_buffer_windows": 16},
    "16 windows and 16 kB": {"send_buffer_windows": 16, "notsent_bytes": 16384},
    "8 windows and 16 kB": {"send_buffer_windows": 8, "notsent_bytes": 16384},
    "8 windows and 4 kB": {"send_buffer_windows": 8, "notsent_bytes": 4096},
    "min-RTT scheduler": {"scheduler": "min-rtt"},
}
ALGORITHMS = [
    "reno",
    "lia",
    "olia",
    "balia",
    "lia:coupling=shared",
    "lia:coupling=never",
]
SEEDS = 3


def goodput(algorithms: list[str], overrides: dict[str, object]) -> dict[str, float]:
    """Goodput by algorithm, Mbps, the mean over seeds."""
    with as_file(files("anabranch.harm") / "scenario.toml") as file:
        means = run(file, algorithms, SEEDS, set=overrides).summary()
    return dict(zip(means["algorithm"], means["goodput_mbps"], strict=True))


def main() -> None:
    """Prints a table per network."""
    for name, (rates, rtts, loss) in NETWORKS.items():
        network: dict[str, object] = {"links.b.loss.bernoulli.probability": loss}
        for link, rate, rtt in zip("ab", rates, rtts, strict=True):
            network |= {f"links.{link}.rate_mbps": rate, f"links.{link}.delay_ms": rtt / 2}
        best = max(
            goodput(["reno"], {**network, "flows.user.paths": [[link]]})["reno"] for link in "ab"
        )
        rows = []
        for remedy, values in REMEDIES.items():
            tcp = {f"tcp.{key}": value for key, value in values.items()}
            found = goodput(ALGORITHMS, {**network, **tcp})
            rows.append([remedy, *(f"{x:.1f}, {x / best:.2f}" for x in found.values())])
        print(f"\n{name}; the best path alone {best:.1f} Mbps\n")
        print(*markdown_table(["remedy", *ALGORITHMS], rows), sep="\n")


if __name__ == "__main__":
    main()
