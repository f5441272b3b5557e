"""Counterexamples: a scenario in which a rule crosses a bound, and its run again."""

import re
from pathlib import Path

from anabranch.judge.entries import open_items
from anabranch.judge.networks import Network, of_file
from anabranch.judge.outcome import Judgement, numbers_at
from anabranch.judge.runs import Runs, open_store
from anabranch.judge.shorten import shortened
from anabranch.judge.subject import Subject
from anabranch.judge.verdict import Number, Verdict
from anabranch.scenario import Scenario, ScenarioError

_FIRST = re.compile(r"# anabranch judge, item ([\w-]+)\b")


def write(judgement: Judgement, directory: Path) -> list[str]:
    """Write a file for each item that fails in a run, and the traces that they name.

    The names of the files, in the order of the items.
    """
    found = {one.name: one.counterexample for one in judgement.verdicts}
    chosen = {name: number for name, number in found.items() if number is not None}
    if chosen:
        directory.mkdir()
    for name, number in chosen.items():
        text, traces = text_of(judgement, judgement[name], number)
        (directory / f"{name}.toml").write_text(text, encoding="utf-8")
        for file, content in traces.items():
            (directory / file).write_bytes(content)
    return [f"{name}.toml" for name in chosen]


def text_of(judgement: Judgement, verdict: Verdict, number: Number) -> tuple[str, dict[str, bytes]]:
    """The scenario of a counterexample as TOML, and its traces, by name.

    It has the seed that alone crosses the bound by most, and is as short as it can be.
    """
    subject, item = judgement.subject, verdict.item
    short = shortened(subject, item, number)
    scenario = short.network.scenario
    if subject.written is None:
        scenario = scenario.with_algorithm(subject.name)
    seeds = list(short.seeds)
    scenario = Scenario.parse(
        scenario.text, scenario.source, [("seeds", str(seeds))], scenario.inputs
    )
    text, traces = scenario.to_folder()
    mean = f"mean of {len(number.seeds)} seeds, {number.network.scenario.duration_s:g} s each"
    lines = [
        f"# anabranch judge, item {verdict.name}: {item.section} {item.title}",
        f"# {number.network.label}. {number.measure.label}: {number.in_words}, {mean}.",
        f"# Here, for {scenario.duration_s:g} s with seed {' and '.join(map(str, seeds))}: "
        f"{short.in_words}.",
        f"# Again: {again_command(subject, Path(f'{verdict.name}.toml'))}",
    ]
    if subject.written is not None:
        lines.append(f"# {subject.text} takes the place of the algorithm in this file.")
    return "\n".join([*lines, "", text]), traces


def again_command(subject: Subject, file: Path) -> str:
    """The command that runs a counterexample again."""
    return f"anabranch judge {subject.text} --again {file}"


def again(rule: str, file: Path) -> list[Number]:
    """Run a counterexample and what it is compared with: each measure of its item.

    Raises `ScenarioError` for a file that does not name an item in its first line.
    """
    subject = Subject.of(rule)
    entries = open_items()
    try:
        first = file.read_text(encoding="utf-8").partition("\n")[0]
    except (OSError, UnicodeError) as error:
        raise ScenarioError(f"{file}: {getattr(error, 'strerror', error)}") from None
    found = _FIRST.match(first)
    if found is None or (name := found[1]) not in entries.items:
        raise ScenarioError(
            f"{file}: expected a counterexample, whose first line is "
            '"# anabranch judge, item NAME", as --out writes it'
        )
    item = entries.items[name]
    scenario, references = of_file(str(file), item)
    network = Network(name, str(file), {}, scenario, references, {})
    runs = Runs(subject, scenario.seeds, open_store(None))
    return numbers_at(item, [network], runs)
