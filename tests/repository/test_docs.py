"""Pages and docstrings: lines, links, numbers and names of tests; examples run."""

import doctest
import pkgutil
import re
import subprocess
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

import anabranch
from repository.test_printed_outputs import PAGES

ROOT = Path(__file__).parents[2]
WIDTH = 100


def pages() -> list[str]:
    listed = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, check=True, capture_output=True)
    return [name for name in listed.stdout.decode().split() if (ROOT / name).exists()]


def prose(text: str) -> Iterator[tuple[int, str]]:
    """Numbered lines that are neither tables nor code nor comments."""
    code = False
    for number, line in enumerate(text.splitlines(), 1):
        code ^= line.startswith("```")
        if not code and not line.startswith(("|", "```", "<!--", "![", "    ")):
            yield number, line


@pytest.mark.parametrize("page", pages())
def test_lines_of_prose_are_short(page: str) -> None:
    long = [n for n, line in prose((ROOT / page).read_text()) if len(line) > WIDTH]
    assert not long, f"{page}: lines {long} are longer than {WIDTH} characters"


@pytest.mark.parametrize("page", pages())
def test_links_to_files_lead_somewhere(page: str) -> None:
    text = (ROOT / page).read_text()
    for target in re.findall(r"\]\(([^)#:]+)[^):]*\)", text):
        assert ((ROOT / page).parent / target).exists(), f"{page}: {target}"


MENTIONED = re.compile(r"(?<![\w./-])docs/[\w./-]*\.md\b")
"""A page as comments, messages and pages name it."""


def mentioned(text: str) -> set[str]:
    return set(MENTIONED.findall(text))


def test_every_page_that_a_file_names_exists() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True)
    lost = []
    for name in listed.stdout.decode().splitlines():
        file = ROOT / name
        if not file.is_file() or "fuzz/corpus" in name or file == Path(__file__):
            continue
        text = file.read_text(encoding="utf-8", errors="replace")
        lost += [f"{name}: {page}" for page in mentioned(text) if not (ROOT / page).exists()]
    assert sorted(lost) == []


def test_the_names_of_pages_are_seen() -> None:
    text = "as `docs/a.md` says (docs/how-to/b.md), see [c](docs/c.md#d), not /x/docs/d.md"
    assert mentioned(text) == {"docs/a.md", "docs/how-to/b.md", "docs/c.md"}


FILE = re.compile(r'"((?:examples|papers)/[\w./]+)"')
LECTURES = sorted((ROOT / "docs" / "how-to" / "lectures").glob("*.md"))


@pytest.mark.parametrize(
    "lecture", [file for file in LECTURES if FILE.search(file.read_text())], ids=lambda it: it.stem
)
def test_the_first_cell_of_a_lecture_leads_to_the_files_that_it_names(
    lecture: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Jupyter starts a notebook in the notebook's folder."""
    monkeypatch.chdir(lecture.parent)
    text = lecture.read_text()
    first = re.search(r"```{code-cell} python\n(.*?)```", text, re.S)
    assert first
    assert "os.chdir" in first[1]
    exec(first[1], {})
    for named in FILE.findall(text):
        assert Path(named).exists(), named


SAID = {
    "median deviation of a share from the equilibrium, %": [
        r"deviate by ([\d.]+) % \(median\)",
        r"within ([\d.]+) % \(median\)",
        r"median deviation (?:of a flow's share from its equilibrium )?(?:is )?([\d.]+) % over 13",
        r"median deviation of all 1390 shares is ([\d.]+) %",
    ],
    "goodput beside ns-2's, %": [
        r"goodput (?:is )?within ([\d.]+) % of ns-2",
        r"goodput within ([\d.]+) %, retransmissions",
    ],
    "verdicts of all papers": [r"\| \*\*all\*\* \| (\*\*\d[^\n<]*\|)"],
    "minutes to install": [
        r"Install \((\d+ to \d+) minutes",
        r"network, and (\d+ to \d+) minutes",
    ],
    "times ns-2's packets per second": [r"([\d.]+) times ns-2's packets per second"],
}
"""Numbers, and the ways of writing them; lines of prose are joined before."""


def values(text: str, ways: list[str]) -> list[str]:
    """The numbers that a text gives, in any of these ways."""
    found = [re.findall(way, text, re.I) for way in ways]
    return [one for many in found for one in many]


@pytest.mark.parametrize("what", SAID)
def test_a_number_is_the_same_wherever_it_is_printed(what: str) -> None:
    said = {}
    for page in PAGES:
        prose = re.sub(r"\n(?:> )?(?=[^|\n#-])", " ", page.read_text())
        said |= {f"{page.name}: {value}": value for value in values(prose, SAID[what])}
    assert said, "no page gives it: mend or remove its patterns"
    assert len(set(said.values())) == 1, list(said)


def test_two_values_are_seen() -> None:
    ways = SAID["goodput beside ns-2's, %"]
    assert values("Goodput is within 0.3 % of ns-2's, or goodput within 0.4 % of ns-2", ways) == [
        "0.3",
        "0.4",
    ]


TEST = re.compile(r"\b[a-z]+(?:_[a-z0-9]+){2,}\b")
FUNCTION = re.compile(r"^\s*(?:async )?fn (\w+)", re.MULTILINE)


def bounds() -> list[str]:
    """The rows of the tables: what somebody cannot do, and the tests that show it."""
    lines = (ROOT / "SECURITY.md").read_text().splitlines()
    rows = [line for line in lines if line.startswith("| ") and not line.startswith("| cannot")]
    return [row for row in rows if not row.startswith("|---")]


@pytest.mark.parametrize("row", bounds())
def test_each_bound_names_a_test_that_exists(row: str) -> None:
    functions = {
        name
        for file in (ROOT / "crates").glob("*/**/*.rs")
        for name in FUNCTION.findall(file.read_text())
    }
    named = TEST.findall(row.split("|")[2])
    assert named
    assert set(named) <= functions


OF_RUST = {"Cancelled", "Path", "Scenario", "ScenarioError", "rules", "schema"}
"""Names that are documented in `_core.pyi`."""


def examples() -> Iterator[doctest.DocTest]:
    finder = doctest.DocTestFinder(exclude_empty=True)
    for module in pkgutil.walk_packages(anabranch.__path__, "anabranch."):
        if not module.name.endswith(("__main__", "_core")):
            yield from finder.find(import_module(module.name))
    yield from finder.find(anabranch, "anabranch")


EXAMPLES = {example.name: example for example in examples() if example.examples}


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_example_in_a_docstring_runs(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)  # examples name files of the repository
    assert doctest.DocTestRunner().run(EXAMPLES[name]).failed == 0


def test_everything_public_has_an_example() -> None:
    documented = {name.rpartition(".")[2] for name in EXAMPLES}
    assert set(anabranch.__all__) - OF_RUST <= documented
    assert {f"anabranch.result.Result.{name}" for name in ("summary", "totals", "save")} <= set(
        EXAMPLES
    )
