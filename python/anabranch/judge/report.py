"""Files of a judgement: a page, the data, counterexamples, a manifest."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import jinja2

from anabranch.files import MANIFEST
from anabranch.formats import json_text, markdown_table
from anabranch.judge import counterexample
from anabranch.judge.outcome import Judgement
from anabranch.judge.verdict import FAILS, HOLDS, NOT_TESTED, Verdict
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

SYMBOLS = {HOLDS: "yes", FAILS: "**no**", NOT_TESTED: "·"}
"""The cells of the table of several rules."""


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


def survey(judgements: Sequence[Judgement]) -> list[str]:
    """A table of several rules in Markdown: a row per item, a column per rule; then the counts."""
    rules = [f"`{one.subject.name}`" for one in judgements]
    rows = []
    for number, verdict in enumerate(judgements[0].verdicts):
        cells = [SYMBOLS[one.verdicts[number].result] for one in judgements]
        if verdict.item.section != "0":
            rows.append([f"{verdict.item.section} {verdict.item.title}", *cells])
    for result in (HOLDS, FAILS, NOT_TESTED):
        rows.append([f"items: {result}", *(str(one.counts[result]) for one in judgements)])
    return markdown_table(["item", *rules], rows)


def failures(judgements: Sequence[Judgement]) -> list[str]:
    """Per rule the items of the RFC that fail, with the smallest counterexample, in Markdown."""
    lines = []
    for one in judgements:
        failed = [verdict for verdict in one.of(FAILS) if verdict.item.level != "own"]
        lines += [f"**`{one.subject.name}`** {one.in_words}.", ""]
        lines += [f"- {one.item.section} {one.item.title}: {one.says}" for one in failed]
        lines += [""] if failed else []
    return lines[:-1] if lines and not lines[-1] else lines
