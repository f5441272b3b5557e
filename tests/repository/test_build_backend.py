"""Message of a build from source where there is no Rust."""

import subprocess
import sys
from pathlib import Path

import pytest

BACKEND = Path(__file__).parents[2] / "crates" / "model" / "python"
HOOKS = ["get_requires_for_build_wheel", "get_requires_for_build_sdist"]


@pytest.mark.parametrize("hook", [*HOOKS, "get_requires_for_build_editable"])
def test_without_cargo_one_line_says_to_install_rust(hook: str, tmp_path: Path) -> None:
    (tmp_path / "maturin.py").write_text(
        f"def {HOOKS[0]}(settings=None):\n    return ['rust from the network']\n"
        f"def {HOOKS[1]}(settings=None):\n    return ['rust from the network']\n"
    )
    code = f"import build_backend; print(build_backend.{hook}())"
    call = subprocess.run(
        [sys.executable, "-c", code],
        env={"PATH": str(tmp_path), "PYTHONPATH": f"{BACKEND}:{tmp_path}"},
        capture_output=True,
        text=True,
    )
    assert (call.returncode, call.stdout) == (1, "")
    assert call.stderr == (
        "anabranch: to build from source, install Rust 1.88 or later (https://rustup.rs); "
        "a wheel needs no Rust\n"
    )
