"""Proofs on the terminal."""

from rich.text import Text

from anabranch.cli.tables import STDOUT, new_table
from anabranch.statements.proofs import PaperProofs, words
from anabranch.theory.guarantees.proofs.queries import REQUIREMENTS
from anabranch.theory.guarantees.proofs.verdicts import PROVED, REFUTED, Proofs, Survey, Verdict

COLOURS = {PROVED: "green", REFUTED: "red"}


def all_proofs(found: Survey) -> None:
    """Each rule in turn."""
    for number, one in enumerate(found.rules):
        if number:
            STDOUT.print("")
        proofs(one)


def proofs(found: Proofs) -> None:
    """A row for each requirement, a column for each setting; refutations below."""
    if found.note:
        _print(f"{found.rule}: not applicable. It {found.note}.")
        return
    _print(f"{found.rule}, for each solver and formula at most {found.timeout_s:g} s\n")
    by = {(v.requirement, v.setting): v for v in found.verdicts}
    settings = list(dict.fromkeys(v.setting for v in found.verdicts))
    chosen = list(dict.fromkeys(v.requirement for v in found.verdicts))
    grid = new_table("", *settings)
    for name in chosen:
        grid.add_row(name, *(_cell(by[name, setting]) for setting in settings))
    STDOUT.print(grid)
    _print("")
    for name in chosen:
        _print(f"{name:4} {REQUIREMENTS[name][0]}")
    for verdict in found.verdicts:
        if verdict.result != PROVED:
            _print("")
            for line in lines(verdict):
                _print(line)


def papers(found: PaperProofs) -> None:
    """Each statement as printed, with its formulas below it."""
    for one in found.proofs:
        _print(f'{one.paper}, {one.place}: "{one.printed}"')
        for part in one.parts:
            _print(f"  {words(part)} ({part.seconds:.2f} s)")
            _print(f"    {part.formula}")
        if one.left:
            _print(f"  Not in the formulas: {one.left}.")
        _print("")


def lines(verdict: Verdict) -> list[str]:
    """Requirements that are not proved, and at which numbers."""
    found = [f"{verdict.requirement}, {verdict.setting}: {verdict.result}. {verdict.why}"]
    if verdict.state:
        found.append(f"  {verdict.state}")
    if verdict.confirmation:
        seen = "" if verdict.confirmation.seen else "NOT confirmed: "
        found.append(f"  numerically: {seen}{verdict.confirmation.words}")
        if trajectory := verdict.confirmation.trajectory:
            found.append(f"  fluid model: {trajectory.says}")
            for time, rates in zip(trajectory.time_s, trajectory.rate, strict=True):
                numbers = ", ".join(f"{rate:.5g}" for rate in rates)
                found.append(f"    {time:10.4g} s  [{numbers}], in total {sum(rates):.5g}")
    return found


def _print(line: str) -> None:
    STDOUT.print(line, soft_wrap=True)


def _cell(verdict: Verdict) -> Text:
    alone = "".join(f", {n} by {name} only" for name, n in verdict.alone.items())
    words = f"{verdict.result} ({verdict.seconds:.2f} s{alone})"
    return Text(words, COLOURS.get(verdict.result, ""))
