"""A number that several pages print is the same on each."""

import re

import pytest

from repository.test_printed_outputs import PAGES

SAID = {
    "median deviation of a share from the equilibrium, %": [
        r"deviate by ([\d.]+) % \(median\)",
        r"within ([\d.]+) % \(median\)",
        r"median deviation (?:of a flow's share from its equilibrium )?(?:is )?([\d.]+) % over 13",
        r"median deviation of all 1390 shares is ([\d.]+) %",
    ],
    "goodput beside ns-2's, %": [
        r"goodput (?:is )?within ([\d.]+) % of ns-2",
        r"goodput within ([\d.]+) %, retransmissions",
    ],
    "verdicts of all papers": [r"\| \*\*all\*\* \| (\*\*\d[^\n<]*\|)"],
    "minutes to install": [
        r"Install \((\d+ to \d+) minutes",
        r"network, and (\d+ to \d+) minutes",
    ],
    "times ns-2's packets per second": [r"([\d.]+) times ns-2's packets per second"],
}
"""Numbers, and the ways of writing them; lines of prose are joined before."""


def values(text: str, ways: list[str]) -> list[str]:
    """The numbers that a text gives, in any of these ways."""
    found = [re.findall(way, text, re.I) for way in ways]
    return [one for many in found for one in many]


@pytest.mark.parametrize("what", SAID)
def test_a_number_is_the_same_wherever_it_is_printed(what: str) -> None:
    said = {}
    for page in PAGES:
        prose = re.sub(r"\n(?:> )?(?=[^|\n#-])", " ", page.read_text())
        said |= {f"{page.name}: {value}": value for value in values(prose, SAID[what])}
    assert said, "no page gives it: mend or remove its patterns"
    assert len(set(said.values())) == 1, list(said)


def test_two_values_are_seen() -> None:
    ways = SAID["goodput beside ns-2's, %"]
    assert values("Goodput is within 0.3 % of ns-2's, or goodput within 0.4 % of ns-2", ways) == [
        "0.3",
        "0.4",
    ]
