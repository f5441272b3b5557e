"""Dependencies point downward only, between crates and between Python modules (ARCHITECTURE.md)."""

import ast
import json
import subprocess
from pathlib import Path

ROOT = Path(__file__).parent.parent

CRATES = {
    "anabranch-control": set(),
    "anabranch-lab": {"anabranch-control", "anabranch-net", "anabranch-scenario"},
    "anabranch-net": set(),
    "anabranch-scenario": {"anabranch-control", "anabranch-net"},
    "anabranch-sim": {"anabranch-control", "anabranch-net", "anabranch-scenario"},
    "anabranch-kernel": {"anabranch-control"},
    "anabranch-python": {
        "anabranch-control",
        "anabranch-net",
        "anabranch-scenario",
        "anabranch-sim",
    },
}

# From the bottom up: a module or package may import what stands in an earlier layer, or
# beside it.
LAYERS = [
    ["_core", "files"],
    ["rule", "scenario", "result"],
    ["lab"],
    ["runner", "sweep"],
    ["plot", "show", "options"],
    ["quantities", "claims", "folder"],
    ["theory", "figures"],
    ["report", "summary"],
    ["draw", "judged", "page"],
    ["papers"],
    ["agreement"],
    ["cli"],
]
RANK = {module: rank for rank, layer in enumerate(LAYERS) for module in layer}


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


def test_every_module_has_its_layer_and_imports_downward_only():
    package = ROOT / "python" / "anabranch"
    for file in package.rglob("*.py"):
        module = file.relative_to(package).parts[0].removesuffix(".py")
        if module == "__init__":
            continue
        for imported in imports(file):
            assert RANK[imported] <= RANK[module], f"{module} imports {imported}"


def imports(file: Path) -> set[str]:
    """The modules of this package that a file imports, also within functions."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module != "anabranch":
            head, *rest = node.module.split(".")
            if head == "anabranch":
                found.add(rest[0])
        elif isinstance(node, ast.ImportFrom) and node.module == "anabranch":
            found.update(alias.name for alias in node.names if alias.name in RANK)
    return found
