"""Dependencies point downward only, between crates, modules and folders (ARCHITECTURE.md)."""

import ast
import json
import re
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "python" / "anabranch"

CRATES = {
    "anabranch-control": set(),
    "anabranch-lab": {
        "anabranch-control",
        "anabranch-net",
        "anabranch-scenario",
        "anabranch-sockets",
    },
    "anabranch-net": set(),
    "anabranch-scenario": {"anabranch-control", "anabranch-net"},
    "anabranch-quic": {"anabranch-control", "anabranch-net", "anabranch-scenario"},
    "anabranch-sim": {"anabranch-control", "anabranch-net", "anabranch-scenario"},
    "anabranch-gateway": {
        "anabranch-control",
        "anabranch-quic",
        "anabranch-scenario",
        "anabranch-sockets",
    },
    "anabranch-kernel": {"anabranch-control"},
    "anabranch-sockets": {"anabranch-control"},
    "anabranch-python": {
        "anabranch-control",
        "anabranch-net",
        "anabranch-quic",
        "anabranch-scenario",
        "anabranch-sim",
    },
}

# From the bottom up: a module or folder may import what is in an earlier layer, or in its own.
LAYERS = [
    ["_core", "files", "formats", "core_types"],
    ["rule", "scenario", "asked", "caveats", "manifest", "result_schema", "result_warnings"],
    ["result"],
    ["kernel"],
    ["runner"],
    ["repetition"],
    ["theory", "harm", "sweeps"],
    ["figures"],
    ["papers"],
    ["cli"],
    ["__main__"],
]
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}

TOPICS = ["fluid", "games", "guarantees", "optimum", "queueing"]
"""Folders of `theory`, which do not import one another."""

MOST_FILES = 15
FILE_PER_ITEM = {"crates/control/src/rules"}
"""Folders with a file per algorithm, as many as there are."""

Graph = dict[str, set[str]]


def test_crates_depend_downward_only():
    command = ["cargo", "metadata", "--no-deps", "--format-version=1"]
    metadata = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    for package in json.loads(metadata.stdout)["packages"]:
        ours = {
            dependency["name"]
            for dependency in package["dependencies"]
            if dependency["name"].startswith("anabranch-") and dependency["kind"] is None
        }
        assert ours <= CRATES[package["name"]], package["name"]


def test_every_python_module_has_a_layer_and_imports_downward_only():
    for module, imported in python_imports(PACKAGE).items():
        for other in imported:
            below, above = other.split(".")[0], module.split(".")[0]
            assert above == "__init__" or RANK[below] <= RANK[above], f"{module} imports {other}"


def test_topics_of_theory_do_not_import_one_another():
    for module, imported in python_imports(PACKAGE).items():
        for topic in TOPICS:
            if module.startswith(f"theory.{topic}."):
                others = [f"theory.{other}." for other in TOPICS if other != topic]
                assert not [name for name in imported if name.startswith(tuple(others))], module


def test_no_python_modules_import_each_other_in_a_circle():
    assert circle(python_imports(PACKAGE)) is None


def test_no_rust_modules_use_each_other_in_a_circle_but_where_a_comment_says_why():
    for source in sorted(ROOT.glob("crates/*/src")):
        for folder, uses in rust_uses(source):
            assert circle(uses) is None, folder


def test_no_folder_of_code_has_more_than_fifteen_files():
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True)
    code = [Path(name) for name in listed.stdout.decode().split() if is_code(Path(name))]
    folders = Counter(str(file.parent) for file in code if (ROOT / file).exists())
    full = {folder: n for folder, n in folders.items() if n > MOST_FILES}
    assert full.keys() <= FILE_PER_ITEM, full


def test_a_circle_of_python_modules_is_found(tmp_path: Path):
    (tmp_path / "a.py").write_text("def f():\n    from anabranch.b import x\n")
    (tmp_path / "b.py").write_text("from anabranch import a\n")
    assert set(circle(python_imports(tmp_path)) or ()) == {"a", "b"}


def test_a_circle_of_rust_modules_is_found_unless_a_comment_says_why(tmp_path: Path):
    (tmp_path / "lib.rs").write_text("mod a;\nmod b;\n")
    (tmp_path / "a.rs").write_text("use crate::b::B;\n")
    (tmp_path / "b.rs").write_text("struct B(crate::a::A);\n")
    assert [circle(uses) is None for _, uses in rust_uses(tmp_path)] == [False]
    (tmp_path / "b.rs").write_text("// Import circle with `a`: both are one.\nuse crate::a::A;\n")
    assert [circle(uses) is None for _, uses in rust_uses(tmp_path)] == [True]


def circle(graph: Mapping[str, set[str]]) -> list[str] | None:
    """The modules of a circle, if there is one."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return None


def is_code(file: Path) -> bool:
    return file.suffix in {".rs", ".py", ".c", ".h"}


def python_imports(package: Path) -> Graph:
    """Every module, and those it imports anywhere: within functions and for annotations, too."""
    files = {name_of(file, package): file for file in package.rglob("*.py")}
    known = {*files, "_core"}
    return {name: set(imports(file, known)) - {name} for name, file in files.items()}


def name_of(file: Path, package: Path) -> str:
    return ".".join(file.relative_to(package).with_suffix("").parts)


def imports(file: Path, known: set[str]) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "anabranch":
            base = (node.module or "").removeprefix("anabranch").lstrip(".")
            for alias in node.names:
                inside = f"{base}.{alias.name}".lstrip(".")
                if found := next(
                    (m for m in (inside, base, f"{base}.__init__") if m in known), None
                ):
                    yield found


def rust_uses(source: Path) -> Iterator[tuple[str, Graph]]:
    """Of every folder of modules, which of them use which: a module is a file with its folder."""
    for folder in [source, *(path for path in sorted(source.rglob("*")) if path.is_dir())]:
        siblings = {path.stem for path in folder.iterdir()} - {"lib", "main", "mod"}
        uses: Graph = {name: set() for name in siblings}
        for file in folder.rglob("*.rs"):
            place = file.relative_to(folder)
            if (module := place.parts[0].removesuffix(".rs")) in siblings:
                text = file.read_text().split("#[cfg(test)]\nmod tests")[0]
                explained = set(re.findall(r"^// Import circle with `(\w+)`: \S", text, re.M))
                found = set(re.findall(prefix(folder, source, len(place.parts)), text))
                uses[module] |= (found & siblings) - explained - {module}
        yield str(folder), uses


def prefix(folder: Path, source: Path, depth: int) -> str:
    """The expression that finds the name of a sibling module in a path."""
    inside = "".join(f"{part}::" for part in folder.relative_to(source).parts)
    return rf"(?:\bcrate::{inside}|(?<![:\w]){'super::' * depth})(\w+)"
