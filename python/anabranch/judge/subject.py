"""The rule that is judged: an algorithm of the table, or a class in a file of Python."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from anabranch import _core
from anabranch.rule import Rule
from anabranch.rule_file import class_of, in_file


@dataclass(frozen=True)
class Subject:
    """A rule under judgement."""

    text: str
    """As the user wrote it: a specification such as "balia:cap=inf", or FILE.py:CLASS."""
    name: str
    """The name in tables."""
    written: Rule | None = None
    """The object, of a rule in Python."""
    file: Path | None = None
    """The file of a rule in Python."""

    @classmethod
    def of(cls, text: str) -> "Subject":
        """Raises `ScenarioError` for an unknown algorithm, and for a file without that class."""
        place = in_file(text)
        if place is None:
            return cls(text, _core.algorithm(text))
        return cls(text, place[1], class_of(*place)(), place[0])

    @property
    def key(self) -> str:
        """The name by which a store keeps its runs: of a file, with a hash of its contents.

        What the file imports is not in it.
        """
        if self.file is None:
            return self.name
        return f"{self.name}@{hashlib.sha256(self.file.read_bytes()).hexdigest()[:16]}"
