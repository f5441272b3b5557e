"""Files of a study: table, numbers per seed, figure, its own files, and a manifest."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from anabranch.figures import style
from anabranch.files import MANIFEST
from anabranch.formats import interval, json_text, wide_csv
from anabranch.result import manifest
from anabranch.study.figures import draw
from anabranch.study.folder import open_study
from anabranch.study.outcome import Outcome

RESULTS = ("holds", "fails", "undecided")
"""The lists of rules by verdict."""


def write(outcome: Outcome, directory: Path, command: list[str] | None = None) -> None:
    """Write into an existing directory; `command` is the command line that led to it.

    `study.json` is what --json prints. `values.parquet` has a row per measure, case, rule and seed;
    `table.md`, `table.tex`, `figure.svg` and `figure.png` show them. The scenarios ran with the
    traces beside them and the values of `study.toml`.
    """
    for file in sorted(outcome.study.folder.glob("*.toml")):
        shutil.copy(file, directory / file.name)
    for name, trace in outcome.study.inputs().items():
        (directory / name).write_bytes(trace)
    outcome.rows.to_parquet(directory / "values.parquet", index=False)
    (directory / "table.md").write_text("\n".join(page(outcome)) + "\n", encoding="utf-8")
    (directory / "table.tex").write_text(outcome.latex(), encoding="utf-8")
    (directory / "study.json").write_text(json_text(outcome.as_dict()) + "\n", encoding="utf-8")
    style.save(draw(outcome), directory / "figure")
    runs = {
        "study": outcome.study.name,
        "backend": outcome.backend,
        "quick": outcome.quick,
        "rules": list(outcome.rules),
        "seeds": list(outcome.seeds),
        "failures": dict(outcome.failures),
    }
    document = {**manifest.origin(command), "study": runs, "files": manifest.hashes(directory)}
    (directory / MANIFEST).write_text(json_text(document) + "\n", encoding="utf-8")


def page(outcome: Outcome) -> list[str]:
    """The study in Markdown: what it asks, its verdict and its table."""
    entries = outcome.study.entries
    count = len(outcome.seeds)
    over = "one seed" if count == 1 else f"means and 95 % intervals over {count} seeds"
    form = ", quick form" if outcome.quick else ""
    return [
        f"### {outcome.study.name}: {entries.title}",
        "",
        f"{entries.question} On {outcome.backend}, {over}{form}.",
        "",
        f"**{outcome.verdict}**",
        "",
        *outcome.markdown(),
    ]


def record(studies: Sequence[Mapping[str, Any]]) -> str:
    """CSV of studies as `Outcome.as_dict` has them: a row per measure and case, a column per rule.

    A cell is the mean over the seeds ± half its 95 % interval, and the verdict where the study
    judges the number.
    """
    cells = []
    for one in studies:
        judged = open_study(one["study"]).entries.verdict
        for cell in one["table"]:
            measure, case, rule = cell["measure"], cell["case"], cell["rule"]
            is_judged = (measure, case) == (judged.measure, judged.case)
            results = [name for name in RESULTS if is_judged and rule in one[name]]
            text = interval(cell["value"], cell["value_ci95"], ".4g", missing="")
            cells.append(
                (
                    (one["study"], one["measures"][measure], one["cases"][case]),
                    rule,
                    " ".join([text, *results]).lstrip(),
                )
            )
    return wide_csv(("study", "measure", "case"), cells)
