"""How the detector of shared bottlenecks was chosen: statistics of pairs of paths, offline.

    .venv/bin/python benches/detector_choice.py [networks]

The networks of `bottleneck_networks.py`, seeds from 1000 on, run `lia` coupled always. From the
mean one-way delays of both paths in intervals of T the correlation is computed with exponential
weights: of the delays themselves, of their changes from interval to interval, or of the signs of
these. The table has the best threshold of each statistic for this set, which flatters all alike.
"""

import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
from bottleneck_networks import steady

import anabranch

Series = np.ndarray


def collect(networks: int) -> tuple[Series, Series, Series]:
    """The delays of both paths of every pair, ms, every 50 ms; and whether they share."""
    pairs, truth = [], []
    with tempfile.TemporaryDirectory() as directory:
        for network in map(steady, range(1000, 1000 + networks)):
            file = Path(directory) / "network.toml"
            file.write_text(network.text)
            samples = anabranch.run(file, seeds=[network.seed]).path_samples
            of_user = samples[samples.flow == "user"]
            delays = of_user.pivot(index="time_s", columns="path", values="one_way_delay_ms")
            for i, j, shared in network.pairs():
                pairs.append(delays[[i, j]].to_numpy()[:1199].T)
                truth.append(shared)
    both = np.array(pairs)
    return both[:, 0], both[:, 1], np.array(truth)


def in_intervals(delays: Series, samples: int) -> Series:
    """Means over `samples` samples each; NaN where there was no packet."""
    n = delays.shape[1] // samples * samples
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return np.nanmean(delays[:, :n].reshape(len(delays), -1, samples), axis=2)


def correlation(a: Series, b: Series, intervals: float) -> Series:
    """Correlation over time, with weights that fall to 1/e in `intervals` intervals that both paths
    have."""
    count, power = np.zeros(len(a)), np.zeros((5, len(a)))
    found = np.zeros(a.shape)
    for k in range(a.shape[1]):
        valid = np.isfinite(a[:, k]) & np.isfinite(b[:, k])
        x, y = np.where(valid, a[:, k], 0), np.where(valid, b[:, k], 0)
        count += valid
        gain = valid * np.maximum(1 / np.maximum(count, 1), 1 / intervals)
        power += gain * (np.array([x, y, x * x, y * y, x * y]) - power)
        mx, my, xx, yy, xy = power
        with np.errstate(invalid="ignore", divide="ignore"):
            found[:, k] = (xy - mx * my) / np.sqrt((xx - mx * mx) * (yy - my * my))
    return np.nan_to_num(found)


def main(networks: str = "300") -> None:
    """Prints a line per statistic, interval and window."""
    a, b, shared = collect(int(networks))
    print("| statistic | T, ms | window, s | threshold | false separate, % | false shared, % |")
    print("|---|--:|--:|--:|--:|--:|")
    for samples in (2, 4, 7):
        levels = in_intervals(a, samples), in_intervals(b, samples)
        changes = tuple(np.diff(x, axis=1) for x in levels)
        signs = tuple(np.sign(x) for x in changes)
        statistics = {"delays": levels, "changes": changes, "signs of changes": signs}
        for name, (x, y) in statistics.items():
            for window in (5, 10, 20):
                found = correlation(x, y, window / (0.05 * samples))[:, 300 // samples :]
                errors = [
                    (1e2 * np.mean(found[shared] < t), 1e2 * np.mean(found[~shared] >= t), t)
                    for t in np.arange(0.1, 0.8, 0.05)
                ]
                missed, false, threshold = min(errors, key=lambda e: e[0] + e[1])
                print(
                    f"| {name} | {50 * samples} | {window} "
                    f"| {threshold:.2f} | {missed:.1f} | {false:.1f} |"
                )


if __name__ == "__main__":
    main(*sys.argv[1:])
