"""Gaps of a study or of an item of the judge, tested against schema and table of rules."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from anabranch.scenario import rules, schema
from anabranch.typed_toml import Placed, Where


@dataclass(frozen=True)
class Lack(Placed):
    """A sentence about what is missing, and what would end it; exactly one of three is given."""

    text: str
    key: str | None = None
    """The key of a scenario that would model it, of which there is none: `links.*.fading`."""
    rule: str | None = None
    """The rule, of which there is none in the table."""
    left_out: str | None = None
    """The key that models it, which is not used here: `links.*.arq`."""

    def validate(self, where: Where) -> None:
        """Test that the sentence is still true."""
        ways = {"key": self.key, "rule": self.rule, "left_out": self.left_out}
        given = [name for name, way in ways.items() if way]
        if len(given) != 1:
            raise where.error("expected one of key, rule, left_out")
        if self.key and is_key(self.key):
            raise where.at("key").error(
                f"scenarios have {self.key}: name it in left_out, or use it"
            )
        if self.rule and self.rule in [rule["name"] for rule in rules()]:
            raise where.at("rule").error(f"the table has {self.rule}: it is not missing")
        if self.left_out and not is_key(self.left_out):
            raise where.at("left_out").error(f"no scenario has {self.left_out}: name it in key")


def is_key(path: str) -> bool:
    """Whether scenarios accept a dotted key; `*` is any name, or any entry of a list.

    The last word may be a value, one of those that the key accepts.

    >>> [is_key(path) for path in ("links.*.arq", "links.*.fading", "tcp.scheduler.ecf")]
    [True, False, True]
    """
    whole = json.loads(schema())
    found = [whole]
    for word in path.split("."):
        found = [below for node in found for below in _below(node, word, whole["$defs"])]
    return bool(found)


def _below(node: dict[str, Any], word: str, named: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Parts of the JSON Schema about a key or, with `*`, about an entry."""
    if "$ref" in node:
        yield from _below(named[node["$ref"].rpartition("/")[2]], word, named)
    for choice in [*node.get("oneOf", ()), *node.get("anyOf", ())]:
        yield from _below(choice, word, named)
    if word == node.get("const") or word in node.get("enum", ()):
        yield {}
    entries = [node.get("items"), node.get("additionalProperties")]
    below = entries if word == "*" else [node.get("properties", {}).get(word)]
    yield from (one for one in below if isinstance(one, dict))
