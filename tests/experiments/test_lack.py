"""Keys and rules that suites say are missing are, by schema and table of rules."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from anabranch.experiments import folder
from anabranch.experiments.suite import Lack
from anabranch.scenario import rules, schema

SUITES = [
    *map(folder.open_study, folder.known_studies()),
    folder.open_harm(),
    *map(folder.open_judge, folder.SUITES),
]
LACKS = [lack for one in SUITES for lack in one.entries.not_modelled]
LACKS += [i.not_tested for one in SUITES for i in one.entries.items.values() if i.not_tested]


def is_key(path: str) -> bool:
    """Whether scenarios accept a dotted key; `*` is any name, or any entry of a list.

    The last word may be a value, one of those that the key accepts.
    """
    whole = json.loads(schema())
    found = [whole]
    for word in path.split("."):
        found = [below for node in found for below in parts(node, word, whole["$defs"])]
    return bool(found)


def parts(node: dict[str, Any], word: str, named: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Parts of the JSON Schema about a key or, with `*`, about an entry."""
    if "$ref" in node:
        yield from parts(named[node["$ref"].rpartition("/")[2]], word, named)
    for choice in [*node.get("oneOf", ()), *node.get("anyOf", ())]:
        yield from parts(choice, word, named)
    if word == node.get("const") or word in node.get("enum", ()):
        yield {}
    entries = [node.get("items"), node.get("additionalProperties")]
    below = entries if word == "*" else [node.get("properties", {}).get(word)]
    yield from (one for one in below if isinstance(one, dict))


def is_true(lack: Lack) -> bool:
    """Whether one of three is given, and a key or rule is not there, or is there and left out."""
    missing = lack.rule not in [rule["name"] for rule in rules()]
    ways = {lack.key: not is_key(lack.key or ""), lack.rule: missing}
    ways[lack.left_out] = is_key(lack.left_out or "")
    (given,) = [way for way in ways if way]
    return ways[given]


@pytest.mark.parametrize("lack", LACKS, ids=lambda lack: lack.text[:40])
def test_what_a_suite_lacks_is_missing_or_left_out(lack: Lack) -> None:
    assert is_true(lack)


@pytest.mark.parametrize(
    ("lack", "expected"),
    [
        (Lack("BBR", rule="bbr"), False),
        (Lack("another rule", rule="no-such-rule"), True),
        (Lack("ARQ", key="links.*.arq"), False),
        (Lack("ARQ", left_out="links.*.arq"), True),
        (Lack("a list", left_out="flows.*.paths.*.back"), True),
        (Lack("media", key="flows.*.workload.media"), False),
        (Lack("a value", key="tcp.scheduler.ecf"), False),
        (Lack("another value", key="tcp.scheduler.alcs"), True),
        (Lack("a place", key="links.arq"), True),
        (Lack("fading", left_out="links.*.fading"), False),
    ],
)
def test_a_sentence_about_what_is_there_is_not_true(lack: Lack, expected: bool) -> None:
    assert is_true(lack) == expected


def test_the_keys_that_the_page_of_limits_says_are_missing_are_missing() -> None:
    page = Path(__file__).parents[2] / "docs/reference/limits.md"
    table = page.read_text().partition("## Not in a scenario")[2].partition("\n## ")[0]
    keys = re.findall(r"\| `([\w.*]+)` \|$", table, re.M)
    assert len(keys) == table.count("\n| ") - 1, "each row but the heading names a key"
    assert not [key for key in keys if is_key(key)]
