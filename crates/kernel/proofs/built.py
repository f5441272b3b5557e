"""Compiles soft.h and soft.rs, for the proofs and for this machine."""

import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).parent
SOFT = HERE.parent / "kernel" / "bpf" / "soft.h"

BPF = ["clang", "-target", "bpf", "-mcpu=v3", "-O2", "-w", "-x", "c", "-c"]
"""As build.rs compiles the programs. It also warns; a header by itself has unused functions."""

IR = [
    *("rustc", "--edition=2024", "--crate-type=lib", "--emit=llvm-ir", "--crate-name=operations"),
    *("-Copt-level=2", "-Ccodegen-units=1", "-Coverflow-checks=on", "-Cpanic=abort"),
]
"""With checks of overflow, so that a proof that Rust does not panic is one that nothing wraps."""

UNARY = ("soft_to_fixed",)


class Missing(Exception):
    """A compiler that is not installed."""


def bpf(source: Path, directory: Path) -> Path:
    """The object of a header's functions. Raises `Missing`."""
    return _compiled(BPF, source, directory / "soft.o")


def ir(directory: Path) -> str:
    """The LLVM IR of the operations of `Soft`. Raises `Missing`."""
    return _compiled(IR, HERE / "operations.rs", directory / "operations.ll").read_text()


def native(source: Path, directory: Path) -> Callable[[str, int, int], int]:
    """A function of the header on this machine: its name and two words to a word."""
    command = ["cc", "-shared", "-fPIC", "-O2", "-w", "-x", "c"]
    # A loader gives the library that it has loaded from the same path.
    to = Path(tempfile.mkdtemp(dir=directory), "soft.so")
    library = ctypes.CDLL(str(_compiled(command, source, to)))

    def call(name: str, a: int, b: int) -> int:
        function = getattr(library, name)
        function.restype = ctypes.c_uint32 if name in ("soft_less", "soft_at_least") else WORD
        second = ctypes.c_int32(b & 0xFFFF_FFFF) if name == "soft_scaled" else WORD(b)
        return int(function(WORD(a), *([] if name in UNARY else [second])))

    return call


WORD = ctypes.c_uint64


def _compiled(command: list[str], source: Path, to: Path) -> Path:
    if shutil.which(command[0]) is None:
        raise Missing(f"{command[0]} is not installed")
    arguments = [*command, str(source), "-o", str(to)]
    done = subprocess.run(arguments, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(arguments)}\n{done.stderr}")
    return to
