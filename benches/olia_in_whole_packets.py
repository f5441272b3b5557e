"""Does the arithmetic of the authors' kernel separate OLIA from LIA on the OLIA draft's testbed?

Scenario A with 10 and 30 type 1 users: what type 2 users get and the loss at the shared access
point, printed 0.70 and 0.44 Mbps beside LIA, 0.86 and 0.75 beside OLIA. The authors' kernel counts
whole packets, and increases once per ACK, of which a receiver sends one per two packets.
`python benches/olia_in_whole_packets.py`, about 3 minutes.
"""

from collections.abc import Sequence
from math import floor
from pathlib import Path

import anabranch
from anabranch import Path as Flow

FILE = Path(__file__).parents[1] / "papers" / "olia" / "scenario_a.toml"
ACKS = {"tcp.delayed_acks": True}
CUBIC = {"flows[1].algorithm": "cubic"}


class Kernel(anabranch.Rule):
    """Common part of both rules: their windows, and the increases counted per packet."""

    def __init__(self, whole: bool, per_packet: float) -> None:
        self.whole, self.per_packet = whole, per_packet

    def windows(self, paths: Sequence[Flow]) -> list[float]:
        return [max(1, floor(p.window)) if self.whole else p.window for p in paths]


class Lia(Kernel):
    """RFC 6356."""

    def increase(self, r: int, paths: Sequence[Flow]) -> float:
        w = self.windows(paths)
        total = sum(w / p.rtt for w, p in zip(w, paths, strict=True))
        best = max(w / p.rtt**2 for w, p in zip(w, paths, strict=True))
        return self.per_packet * min(best / total**2, 1 / w[r])


class Olia(Kernel):
    """The draft's, as the rule `olia`."""

    def increase(self, r: int, paths: Sequence[Flow]) -> float:
        w = self.windows(paths)
        total = sum(w / p.rtt for w, p in zip(w, paths, strict=True))
        quality = [max(p.since_loss, p.between_losses) / p.rtt**2 for p in paths]
        largest = [i for i in range(len(w)) if w[i] >= max(w)]
        better = [i for i in range(len(w)) if i not in largest and quality[i] >= max(quality)]
        alpha = 0.0
        if better and r in better:
            alpha = 1 / (len(w) * len(better))
        elif better and r in largest:
            alpha = -1 / (len(w) * len(largest))
        return self.per_packet * (w[r] / paths[r].rtt ** 2 / total**2 + alpha / w[r])


def main() -> None:
    """Print a line per form, rule and N1."""
    forms = {
        "exact": (False, 1.0, {}),
        "whole windows": (True, 1.0, {}),
        "whole windows, per delayed ACK": (True, 0.5, ACKS),
        "the same, type 2 users with CUBIC": (True, 0.5, {**ACKS, **CUBIC}),
    }
    for form, (whole, per_packet, values) in forms.items():
        for users in (10, 30):
            changed = {"flows[0].count": users, "links.R1.rate_mbps": users, **values}
            rules = [Lia(whole, per_packet), Olia(whole, per_packet)]
            result = anabranch.run(FILE, rules, seeds=3, set=changed)
            rates = result.flows[result.flows["flow"] == "type2"]
            losses = result.links[result.links["link"] == "R2"]
            for rule in ("Lia", "Olia"):
                mbps = rates[rates["algorithm"] == rule]["goodput_mbps"].mean()
                loss = losses[losses["algorithm"] == rule]["loss_probability"].mean()
                print(f"{form:36} N1 = {users}  {rule:4}  {mbps:.3f} Mbps  p2 = {loss:.4f}")


if __name__ == "__main__":
    main()
