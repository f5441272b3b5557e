"""The types of `claims.toml`: claims, and choices made after results were seen."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from anabranch.papers.entries.checks import Check
from anabranch.typed_toml import KEY, Placed


@dataclass(frozen=True)
class Stated(Placed):
    """A claim of the paper, or ours, and what decides it."""

    id: str = field(metadata=KEY)
    """Name, such as f2."""
    item: str
    """The table or figure, by its id in `published.toml`."""
    text: str
    """The claim in our words."""
    check: Check
    """Test that decides it."""
    band: str = ""
    """The reason for the width of the check's band."""
    not_reproduced: str = ""
    """Why the claim fails, found by experiment."""
    own: bool = False
    """Whether the claim is ours and not the paper's."""
    rests_on: tuple[str, ...] = ()
    """The choices without which the verdict would be another."""


@dataclass(frozen=True)
class Choice:
    """A choice made after results were seen."""

    text: str
    """The choice."""
    when: str
    """When it was made."""
    otherwise: str
    """Result of the other choice."""


@dataclass(frozen=True)
class Claims:
    """The whole of `claims.toml`."""

    claims: Mapping[str, Stated]
    """The claims by name."""
    choices: Mapping[str, Choice] = field(default_factory=dict)
    """Choices made after results were seen, by name."""


def repeated(claims: Iterable[Stated]) -> list[Stated]:
    """The claims with the reasons that "As a1." refers to: "As a1: " and the reason of claim a1.

    What follows the reference comes after "Here: ". Applies to the texts `band` and
    `not_reproduced`.
    """
    known = {claim.id: claim for claim in claims}

    def whole(key: str, text: str) -> str:
        found = re.fullmatch(r"As (\w+)(?:[.;:,]\s*(.*))?", text, re.DOTALL)
        reason = getattr(known.get(found[1]), key, "") if found else ""
        if not (found and reason):
            return text
        there = f"As {found[1]}: {whole(key, reason)}"
        return f"{there} Here: {found[2]}" if found[2] else there

    return [
        replace(
            one,
            band=whole("band", one.band),
            not_reproduced=whole("not_reproduced", one.not_reproduced),
        )
        for one in known.values()
    ]
