"""Theory can be imported where the programs for commands and drawing are not installed."""

import subprocess
import sys

SCRIPT = """
import pkgutil
import sys
from importlib import import_module

REFUSED = {"typer", "click", "rich", "matplotlib"}

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in REFUSED:
            raise ModuleNotFoundError(f"{name} is not installed", name=name)

sys.meta_path.insert(0, Refuse())
import anabranch.theory
for module in pkgutil.walk_packages(anabranch.theory.__path__, "anabranch.theory."):
    import_module(module.name)
    print(module.name)
"""


def test_theory_needs_neither_typer_nor_rich_nor_matplotlib() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "anabranch.theory.network" in done.stdout.split()
    assert len(done.stdout.split()) > 20
