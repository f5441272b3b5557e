"""Files of an outcome: a page, table, numbers per seed, figure, counterexamples, a manifest."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from markupsafe import Markup

from anabranch.experiments import counterexample
from anabranch.experiments.decision import FAILS
from anabranch.experiments.numbers import NOT_TESTED, Answer
from anabranch.experiments.outcome import Outcome
from anabranch.experiments.pages import render
from anabranch.files import MANIFEST
from anabranch.formats import interval, json_text, wide_csv
from anabranch.result import manifest

COUNTEREXAMPLES = "counterexamples"
"""The folder of the scenarios in which a rule fails."""

SECTIONS = {
    "": "Questions",
    "0": "Before anything runs",
    "5": "Section 5: evaluation criteria",
    "6": "Section 6: general use",
    "7": "Section 7: special cases",
    "theory": "Beyond the RFC: proofs, equations, search",
}
"""Headings, by the first part of a section."""


def write(outcome: Outcome, directory: Path, command: list[str] | None = None) -> None:
    """Write into an existing directory; `command` is the command line that led to it.

    `report.json` is what --json prints, `report.html` shows it. With a suite's own cases
    `values.parquet` has a row per measure, case, rule and seed, `table.md` and `table.tex` the
    table, `figure.svg` and `figure.png` the figure; the scenarios ran with the traces beside them.
    `counterexamples` has a scenario for each item that a judged rule fails.
    """
    suite, files = outcome.suite, []
    if len(outcome.rows):
        for file in sorted(suite.folder.glob("*.toml")):
            shutil.copy(file, directory / file.name)
        for name, trace in suite.inputs.items():
            (directory / name).write_bytes(trace)
        outcome.rows.to_parquet(directory / "values.parquet", index=False)
        (directory / "table.md").write_text("\n".join(page(outcome)) + "\n", encoding="utf-8")
        (directory / "table.tex").write_text(outcome.latex(), encoding="utf-8")
    if suite.entries.figure is not None:
        from anabranch.experiments.figures import draw  # here, because Matplotlib is slow to load
        from anabranch.figures import style

        style.save(draw(outcome), directory / "figure")
    if outcome.subject is not None:
        files = counterexample.write(outcome, directory / COUNTEREXAMPLES)
    picture = directory / "figure.svg"
    svg = picture.read_text(encoding="utf-8") if picture.exists() else ""
    text = html(outcome, files, svg[max(svg.find("<svg"), 0) :])
    (directory / "report.html").write_text(text + "\n", encoding="utf-8")
    document = outcome.as_dict()
    (directory / "report.json").write_text(json_text(document) + "\n", encoding="utf-8")
    hashes = manifest.hashes(directory)
    if files:
        own = manifest.hashes(directory / COUNTEREXAMPLES)
        hashes |= {f"{COUNTEREXAMPLES}/{name}": value for name, value in own.items()}
    kept = ("suite", "backend", "quick", "rules", "seeds", "looks", "counts", "failures")
    runs = {key: document[key] for key in kept}
    if outcome.subject is not None:
        runs["rules"] = [outcome.subject.text]
    whole = {**manifest.origin(command), "suite": runs, "files": hashes}
    (directory / MANIFEST).write_text(json_text(whole) + "\n", encoding="utf-8")


def html(outcome: Outcome, files: Sequence[str] = (), figure: str = "") -> str:
    """The page: self-contained, without scripts; `files` are those of the counterexamples."""
    again = {}
    for name in files:
        assert outcome.subject is not None
        place = Path(COUNTEREXAMPLES) / name
        again[name.removesuffix(".toml")] = counterexample.again_command(outcome.subject, place)
    groups: dict[str, list[Answer]] = {}
    for one in outcome.answers:
        heading = SECTIONS.get(one.item.section.partition(".")[0], SECTIONS[""])
        groups.setdefault(heading, []).append(one)
    return render(
        "report.html.j2",
        outcome=outcome,
        groups=groups,
        again=again,
        folder=COUNTEREXAMPLES,
        figure=Markup(figure),
        colours=[],
    )


def page(outcome: Outcome) -> list[str]:
    """A study in Markdown: what it asks, its verdict and its table."""
    entries = outcome.suite.entries
    several = "means and 95 % intervals over " if len(outcome.seeds) > 1 else ""
    return [
        f"### {outcome.suite.name}: {entries.title}",
        "",
        f"{entries.question} On {outcome.backend}, {several}{outcome.over}{outcome.form}.",
        "",
        f"**{outcome.verdict}**",
        "",
        *outcome.markdown(),
    ]


def record_of_studies(found: Sequence[Outcome]) -> str:
    """CSV of studies: a row per measure and case, a column per rule.

    A cell is the mean over the seeds ± half its 95 % interval, and the verdict where the study
    judges the number.
    """
    cells = []
    for one in found:
        entries = one.suite.entries
        results = {(a.name, a.rule): a.result for a in one.answers if a.result != NOT_TESTED}
        judged = {(b.measure, b.case): name for name, i in entries.items.items() for b in i.bounds}
        for cell in one.table.to_dict("records"):
            measure, case, rule = (str(cell[key]) for key in ("measure", "case", "rule"))
            said = results.get((judged.get((measure, case), ""), rule), "")
            text = interval(cell["value"], cell["value_ci95"], ".4g", missing="")
            label = entries.cases[case].label or case
            names = (one.suite.name, entries.measures[measure].label, label)
            cells.append((names, rule, f"{text} {said}".strip()))
    return wide_csv(("study", "measure", "case"), cells)


def record_of_judgements(found: Sequence[Outcome]) -> str:
    """CSV of judgements: a row per item, a column per rule. Item zero is left out.

    The column `failures` says why each rule fails that does.
    """
    cells = []
    failures: dict[tuple[str, str], list[str]] = {}
    for outcome in found:
        for one in outcome.answers:
            names = one.item.section, one.item.title
            if names[0] != "0":
                cells.append((names, one.rule, one.result))
                fails = [f"{one.rule}: {one.says}"] if one.result == FAILS else []
                failures.setdefault(names, []).extend(fails)
    said = [(names, "failures", " | ".join(each)) for names, each in failures.items()]
    return wide_csv(("section", "item"), [*cells, *said])


def harm_table(outcome: Outcome) -> tuple[list[str], list[list[str]]]:
    """Header and rows of `anabranch harm`.

    A cell is the goodput over both paths, and relative to the best path's; with "?" undecided.
    """
    rows: list[list[str]] = []
    by_case: dict[str, list[Answer]] = {}
    for one in outcome.answers:
        for number in one.numbers or ():
            by_case.setdefault(number.network.label, []).append(one)
    late = set(outcome.late)
    for case, answers in by_case.items():
        row: dict[str, str] = {}
        best = max(answers[0].numbers[0].means.values())
        for one in answers:
            (number,) = one.numbers
            unsure = "?" if one.result not in ("holds", FAILS) else ""
            runs = {f"{number.network.case}, {one.rule}, seed {seed}" for seed in number.seeds}
            when = " (late)" if runs & late else ""
            row[one.rule] = f"{number.value:.1f}, {number.value / best:.2f}{unsure}{when}"
        rows.append([case, f"{best:.1f}", *(row[rule] for rule in outcome.rules)])
    return ["network and loss", "best path", *outcome.rules], rows
