"""ARCHITECTURE.md is true: crates, names of files. Rooms use rooms below them, none in a circle."""

import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
from importlinter.cli import lint_imports

ROOT = Path(__file__).parents[2]

PRODUCTS = sorted(ROOT.glob("crates/*/ARCHITECTURE.md"))

PAGES = [ROOT / "ARCHITECTURE.md", *sorted(ROOT.glob("python/*.md")), *PRODUCTS]
"""The map, and a page per product."""

PAGE = "\n".join(page.read_text() for page in PAGES)
"""Names the crates with what each may depend on."""

MOST_LINES = 60

MOST_FILES = 20
FILE_PER_ITEM = {"crates/model/control/src/rules"}
"""Folders with a file per algorithm, as many as there are."""

PARENT = "(parent)"

Graph = dict[str, set[str]]


Dependencies = dict[str, tuple[set[str], set[str]]]
"""Crates that a crate depends on, and those that only its tests do."""


def test_the_page_lists_every_crate_with_what_it_and_its_tests_depend_on():
    assert listed_crates(PAGE) == crates()


def test_each_page_can_be_read_at_once():
    assert {page.parent.name for page in PRODUCTS} == {"model", "kernel", "gateway"}
    assert [page for page in PAGES if len(page.read_text().splitlines()) > MOST_LINES] == []


def test_products_use_one_another_only_as_they_may():
    """The model uses no other product; the kernel's programs and the gateway not each other."""
    group = {file.parent.name: file.parts[-3] for file in ROOT.glob("crates/*/*/Cargo.toml")}
    allowed = {"model": {"model"}, "common": {"model", "common"}}
    for product in ("kernel", "gateway"):
        allowed[product] = {"model", "common", product}
    for crate, (uses, tests) in crates().items():
        for other in uses | tests:
            assert group[other] in allowed[group[crate]], f"{crate} uses {other}"


def test_python_modules_import_as_the_contracts_of_pyproject_say(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(sys, "path", [*sys.path])  # the linter adds to it
    kept = lint_imports(config_filename=str(ROOT / "pyproject.toml"), no_cache=True) == 0
    assert kept, capsys.readouterr().out


def test_every_file_and_folder_that_the_page_names_exists():
    named = set(
        re.findall(r"`([\w./<>-]+/[\w./<>-]*|[\w-]+(?:\.bpf)?\.(?:rs|py|c|h|md|toml))`", PAGE)
    )
    named = {name for name in named if "<" not in name and not name.startswith("/")}
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True)
    files = [f"/{name}" for name in listed.stdout.decode().split()]
    parts = {name.strip("/") for name in named}
    missing = {
        part
        for part in parts
        if not any(f"/{part}/" in f"{file}/" or f"/{part}." in file for file in files)
    }
    assert not missing


def test_no_rust_modules_use_each_other_in_a_circle_but_where_a_comment_says_why():
    for source in sorted(ROOT.glob("crates/*/*/src")):
        for folder, uses in rust_uses(source):
            assert circle(uses) is None, folder


def test_no_rust_module_used_by_its_parent_uses_the_parent_through_a_sibling_only():
    for source in sorted(ROOT.glob("crates/*/*/src")):
        for folder, uses in rust_uses(source, with_parents=True):
            assert hidden_circle(uses) is None, folder


def test_the_carrier_knows_its_quic_library_in_one_module_only():
    source = ROOT / "crates" / "gateway" / "carrier" / "src"
    (library,) = source.rglob("library")
    knows = [file for file in source.rglob("*.rs") if re.search(r"\bnoq\w*::", file.read_text())]
    outside = [file for file in knows if library not in file.parents]
    assert outside == [library.with_suffix(".rs")]


def test_no_folder_of_code_has_more_than_twenty_files():
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True)
    code = [Path(name) for name in listed.stdout.decode().split() if is_code(Path(name))]
    folders = Counter(str(file.parent) for file in code if (ROOT / file).exists())
    full = {folder: n for folder, n in folders.items() if n > MOST_FILES}
    assert full.keys() <= FILE_PER_ITEM, full


def test_a_circle_of_rust_modules_is_found_unless_a_comment_says_why(tmp_path: Path):
    (tmp_path / "lib.rs").write_text("mod a;\nmod b;\n")
    (tmp_path / "a.rs").write_text("use crate::b::B;\n")
    (tmp_path / "b.rs").write_text("struct B(crate::a::A);\n")
    assert [circle(uses) is None for _, uses in rust_uses(tmp_path)] == [False]
    (tmp_path / "b.rs").write_text("// Import circle with `a`: both are one.\nuse crate::a::A;\n")
    assert [circle(uses) is None for _, uses in rust_uses(tmp_path)] == [True]


def test_a_circle_of_rust_modules_is_found_in_nested_braces(tmp_path: Path):
    (tmp_path / "lib.rs").write_text("mod a;\nmod b;\n")
    (tmp_path / "a.rs").write_text("use crate::{\n    b::{B, c},\n};\n")
    (tmp_path / "b.rs").write_text("use super::{Shared, a};\n")
    assert [circle(uses) is None for _, uses in rust_uses(tmp_path)] == [False]


def test_a_circle_through_the_parent_is_found_unless_the_child_uses_the_parent_itself(
    tmp_path: Path,
):
    (tmp_path / "a").mkdir()
    (tmp_path / "lib.rs").write_text("mod a;\n")
    (tmp_path / "a.rs").write_text("use crate::a::low::Low;\nstruct A(Low);\nmod low;\nmod high;\n")
    (tmp_path / "a" / "high.rs").write_text("impl super::A {}\n")
    (tmp_path / "a" / "low.rs").write_text("use super::high::LIMIT;\n")

    circles = [hidden_circle(uses) for _, uses in rust_uses(tmp_path, with_parents=True)]
    assert circles == [None, [PARENT, "low", "high", PARENT]]
    (tmp_path / "a" / "low.rs").write_text("use super::{A, high::LIMIT};\n")
    circles = [hidden_circle(uses) for _, uses in rust_uses(tmp_path, with_parents=True)]
    assert circles == [None, None]


def circle(graph: Mapping[str, set[str]]) -> list[str] | None:
    """The modules of a circle, if there is one."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return None


def hidden_circle(graph: Graph) -> list[str] | None:
    """A way from the parent over a child that does not use the parent, and back to the parent.

    A child that uses its parent, as in `impl Connection`, is a part of it. Any other child that
    the parent uses is below it.
    """
    for child in graph[PARENT] - {PARENT}:
        if PARENT not in graph[child] and (way := path(graph, child, PARENT)):
            return [PARENT, *way]
    return None


def path(graph: Graph, start: str, end: str) -> list[str] | None:
    """The shortest path between two nodes."""
    paths = [[start]]
    seen = {start}
    for way in paths:
        if way[-1] == end:
            return way
        new = sorted(graph[way[-1]] - seen)
        seen.update(new)
        paths.extend([*way, node] for node in new)
    return None


def crates() -> Dependencies:
    """Crates of the workspace, without the prefix `anabranch-`."""
    command = ["cargo", "metadata", "--no-deps", "--format-version=1"]
    metadata = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    found: Dependencies = {}
    for package in json.loads(metadata.stdout)["packages"]:
        uses, tests = found[short(package["name"])] = (set(), set())
        for dependency in package["dependencies"]:
            if dependency["name"].startswith("anabranch-"):
                kind = tests if dependency["kind"] == "dev" else uses
                kind.add(short(dependency["name"]))
        tests -= uses
    return found


def short(crate: str) -> str:
    return crate.removeprefix("anabranch-")


def listed_crates(page: str) -> Dependencies:
    """The page's table of crates: name, what it depends on, what only its tests depend on."""
    rows = re.findall(r"^\| `crates/\w+/(\w+)` \|.*\|([^|]*)\|([^|]*)\|$", page, re.M)
    return {name: (words(uses), words(tests)) for name, uses, tests in rows}


def words(cell: str) -> set[str]:
    return set(re.findall(r"\w+", cell))


def is_code(file: Path) -> bool:
    return file.suffix in {".rs", ".py", ".c", ".h"}


def rust_uses(source: Path, with_parents: bool = False) -> Iterator[tuple[str, Graph]]:
    """Every folder of modules with which of them use which: a module is a file with its folder.

    With parents, the module whose folder it is belongs to them, as `PARENT`.
    """
    for folder in [source, *(path for path in sorted(source.rglob("*")) if path.is_dir())]:
        siblings = {path.stem for path in folder.iterdir()} - {"lib", "main", "mod"}
        uses: Graph = {name: set() for name in siblings}
        for file in folder.rglob("*.rs"):
            module = file.relative_to(folder).parts[0].removesuffix(".rs")
            if module in siblings:
                found = uses_of(file, source, folder)
                uses[module] |= {PARENT if name not in siblings else name for name in found}
                uses[module] -= {module} if with_parents else {module, PARENT}
        parent = folder.with_suffix(".rs")
        if with_parents:
            uses[PARENT] = uses_of(parent, source, folder) & siblings if parent.exists() else set()
        yield str(folder), uses


def uses_of(file: Path, source: Path, folder: Path) -> set[str]:
    """The first name of each path within `folder` that a file uses, but those explained in it."""
    text = file.read_text().split("#[cfg(test)]\nmod tests")[0]
    explained = set(re.findall(r"^// Import circle with `(\w+)`: \S", text, re.M))
    text = re.sub(r"//.*", "", text)
    statements = re.compile(r"\buse ([^;]+);")
    paths = [path for tree in statements.findall(text) for path in expanded(tree)]
    paths += re.findall(r"(?<![\w:])\w+(?:::\w+)+", statements.sub("", text))
    module = file.relative_to(source).with_suffix("").parts
    inside = folder.relative_to(source).parts
    absolute = [resolved(path.split("::"), module) for path in paths]
    found = {path[len(inside)] for path in absolute if path[: len(inside)] == inside != path}
    return found - explained


def resolved(path: list[str], module: tuple[str, ...]) -> tuple[str, ...]:
    """The path from the crate's root. Those into other crates become paths into the module."""
    if path[0] == "crate":
        return tuple(path[1:])
    up = path.count("super")
    return (*module[: len(module) - up], *path[up:])


def expanded(tree: str) -> list[str]:
    """The paths of a `use` with nested braces."""
    tree = re.sub(r"\s+as\s+\w+|\s", "", tree)
    while match := re.search(r"([\w:]*)\{([^{}]*)\}", tree):
        names = [name for name in match[2].split(",") if name]
        tree = (
            tree[: match.start()]
            + ",".join(match[1] + name for name in names)
            + tree[match.end() :]
        )
    return tree.split(",")
