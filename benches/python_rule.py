"""How much slower a rule written in Python runs than the same rule built in.

Both run `examples/two_links.toml` in turn; the ratio of the medians is printed for the file as it
is, where only the two-path users run the rule, and with every user running it.
"""

import statistics
import time
from pathlib import Path

import anabranch

SCENARIO = Path(__file__).parent.parent / "examples" / "two_links.toml"
RUNS = 9


class Lia(anabranch.Rule):
    """LIA (RFC 6356), as crates/model/control/src/rules/lia.rs has it."""

    def increase(self, r: int, paths: list[anabranch.Path]) -> float:
        """Increase per acknowledged packet."""
        best = max(path.window / path.rtt**2 for path in paths)
        total = sum(path.rate for path in paths)
        return min(best / total**2, 1 / paths[r].window)

    def decrease(self, r: int, paths: list[anabranch.Path]) -> float:
        """Decrease at a loss."""
        return paths[r].window / 2


def seconds(scenario: anabranch.Scenario, algorithm: str | anabranch.Rule) -> float:
    """Wall time of one run."""
    start = time.perf_counter()
    anabranch.run(scenario, algorithm, seeds=1)
    return time.perf_counter() - start


def main() -> None:
    """Prints both ratios."""
    text = SCENARIO.read_text()
    everybody = "\n".join(line for line in text.splitlines() if not is_own_algorithm(line, text))
    for name, source in {"as it is": text, "every user runs the rule": everybody}.items():
        scenario = anabranch.Scenario.parse(source, str(SCENARIO))
        pairs = [(seconds(scenario, "lia"), seconds(scenario, Lia())) for _ in range(RUNS)]
        built_in, python = (statistics.median(column) for column in zip(*pairs, strict=True))
        print(
            f"{SCENARIO.name}, {name}: built in {built_in * 1e3:.1f} ms, "
            f"Python {python * 1e3:.1f} ms, ratio {python / built_in:.1f}"
        )


def is_own_algorithm(line: str, text: str) -> bool:
    """Whether `line` gives one flow an algorithm of its own: it is below the first flow."""
    return line.startswith("algorithm") and text.index(line) > text.index("[[flows]]")


if __name__ == "__main__":
    main()
