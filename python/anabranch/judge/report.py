"""Files of a judgement: a page, the data, counterexamples, a manifest."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2

from anabranch.files import MANIFEST
from anabranch.formats import json_text, wide_csv
from anabranch.judge import counterexample
from anabranch.judge.outcome import Judgement
from anabranch.judge.verdict import FAILS, Verdict
from anabranch.result import manifest

COUNTEREXAMPLES = "counterexamples"
"""The folder of the scenarios in which the rule fails."""

SECTIONS = {
    "0": "Before anything runs",
    "5": "Section 5: evaluation criteria",
    "6": "Section 6: general use",
    "7": "Section 7: special cases",
    "theory": "Beyond the RFC: proofs, equations, search",
}
"""Headings, by the first part of a section."""


def write(judgement: Judgement, directory: Path, command: list[str] | None = None) -> None:
    """Write into an existing directory; `command` is the command line that led to it."""
    files = counterexample.write(judgement, directory / COUNTEREXAMPLES)
    data = {"judge.json": json_text(judgement.as_dict()), "report.html": html(judgement, files)}
    for name, text in data.items():
        (directory / name).write_text(text + "\n", encoding="utf-8")
    hashes = manifest.hashes(directory)
    if files:
        own = manifest.hashes(directory / COUNTEREXAMPLES)
        hashes |= {f"{COUNTEREXAMPLES}/{name}": value for name, value in own.items()}
    runs = {
        "rule": judgement.subject.text,
        "quick": judgement.quick,
        "seeds": list(judgement.seeds),
        "counts": judgement.counts,
    }
    document = {**manifest.origin(command), "judge": runs, "files": hashes}
    (directory / MANIFEST).write_text(json_text(document) + "\n", encoding="utf-8")


def html(judgement: Judgement, files: Sequence[str]) -> str:
    """The page: self-contained, without scripts; `files` are those of the counterexamples."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("anabranch.judge", package_path=""),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    again = {
        name.removesuffix(".toml"): counterexample.again_command(
            judgement.subject, Path(COUNTEREXAMPLES) / name
        )
        for name in files
    }
    return environment.get_template("report.html.j2").render(
        judgement=judgement, groups=groups(judgement), again=again, folder=COUNTEREXAMPLES
    )


def groups(judgement: Judgement) -> Mapping[str, list[Verdict]]:
    """The items under their headings."""
    found: dict[str, list[Verdict]] = {}
    for one in judgement.verdicts:
        found.setdefault(SECTIONS[one.item.section.partition(".")[0]], []).append(one)
    return found


def record(judgements: Sequence[Mapping[str, Any]]) -> str:
    """CSV of judgements as `Judgement.as_dict` has them: a row per item, a column per rule.

    The column `failures` says why each rule fails that does. Item zero is left out.
    """
    cells = []
    failures: dict[tuple[str, str], list[str]] = {}
    for one in judgements:
        for item in one["items"]:
            names = item["section"], item["title"]
            if names[0] != "0":
                cells.append((names, one["rule"], item["result"]))
                fails = [f"{one['rule']}: {item['says']}"] if item["result"] == FAILS else []
                failures.setdefault(names, []).extend(fails)
    said = [(names, "failures", " | ".join(each)) for names, each in failures.items()]
    return wide_csv(("section", "item"), [*cells, *said])
