"""Contents of a store, and the removal of entries that its sweep does not need."""

import os
import shutil
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from anabranch.scenario import ScenarioError
from anabranch.sweeps.point import build
from anabranch.sweeps.store import Damaged, Directory, about


@dataclass(frozen=True)
class Status:
    """The points of a sweep, and the files of its store."""

    points: int
    """In the definition."""
    done: int
    failed: int
    damaged: int
    missing: int
    others: int
    """Entries that the definition does not list: of another version or other values."""
    leftovers: int
    """Temporary files: of processes that write now, or were killed while they wrote."""
    bytes: int
    """Size of all entries, bytes."""
    this_version: bool
    """Whether this version and build of Anabranch defined the sweep; if not, it runs anew."""
    reasons: dict[str, int]
    """Why points failed, and how many."""

    def as_dict(self) -> dict[str, Any]:
        """As plain data for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Removed:
    """Entries that `gc` removed, or would remove."""

    entries: int
    leftovers: int
    bytes: int


def status(path: str | os.PathLike[str]) -> Status:
    """Contents of a store. Raises `ScenarioError` where there is none."""
    store = Directory.existing(path)
    try:
        definitions = store.definitions()
        listed = _listed(store)
        kinds: Counter[str] = Counter()
        reasons: Counter[str] = Counter()
        for key in listed:
            kind, reason = _kind(store, key)
            kinds[kind] += 1
            if kind == "failed":
                reasons[reason] += 1
        entries = list(store.stored())
        return Status(
            points=len(listed),
            done=kinds["done"],
            failed=kinds["failed"],
            damaged=kinds["damaged"],
            missing=kinds["missing"],
            others=len({*entries} - {*listed}),
            leftovers=len(store.leftovers()),
            bytes=sum(_size(store.place(key)) for key in entries),
            this_version=all(one.get("anabranch") == build() for one in definitions),
            reasons=dict(reasons),
        )
    finally:
        store.close()


def gc(path: str | os.PathLike[str], dry_run: bool = False) -> Removed:
    """Remove the entries that the sweep's definition does not list, damaged ones, and leftovers.

    After an update of Anabranch run the sweep before: until then the definition lists the entries
    of the old version. Raises `ScenarioError` where another process works on the store.
    """
    store = Directory.existing(path)
    try:
        if not store.alone():
            raise ScenarioError(f"{path}: another process works on this store: wait for its end")
        listed = _listed(store)
        entries = [
            store.place(key)
            for key in store.stored()
            if key not in listed or _kind(store, key)[0] == "damaged"
        ]
        leftovers = store.leftovers()
        removed = Removed(len(entries), len(leftovers), sum(map(_size, entries + leftovers)))
        if not dry_run:
            for file in entries + leftovers:
                shutil.rmtree(file) if file.is_dir() else file.unlink(missing_ok=True)
        return removed
    finally:
        store.close()


def _listed(store: Directory) -> list[str]:
    """The points of all definitions, each once."""
    return list(dict.fromkeys(key for one in store.definitions() for key in one.get("points", [])))


def _kind(store: Directory, key: str) -> tuple[str, str]:
    """done, failed (with the reason), damaged or missing."""
    data = store.read(key)
    if data is None:
        return "missing", ""
    try:
        found = about(data, key)
    except Damaged:
        return "damaged", ""
    return ("failed", str(found["failure"])) if "failure" in found else ("done", "")


def _size(file: Path) -> int:
    if file.is_dir():
        return sum(map(_size, file.iterdir()))
    return file.stat().st_size if file.exists() else 0
