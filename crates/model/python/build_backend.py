"""Builds with maturin, which would download Rust where cargo is missing: says so instead.

maturin builds one library; a wheel also has libanabranch.a, which is built here first.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import maturin
from maturin import *  # noqa: F403 - the hooks of PEP 517

NEEDS_RUST = (
    "anabranch: to build from source, install Rust 1.88 or later (https://rustup.rs); "
    "a wheel needs no Rust"
)
ROOT = Path(__file__).parents[3]
ARCHIVE = ROOT / "python" / "anabranch" / "_abi" / "libanabranch.a"


def get_requires_for_build_wheel(config_settings=None):
    """The first hook that pip calls: without cargo one line says what to install."""
    if shutil.which("cargo") is None:
        sys.exit(NEEDS_RUST)
    return maturin.get_requires_for_build_wheel(config_settings)


def get_requires_for_build_sdist(config_settings=None):
    """As for a wheel: the list of files comes from cargo."""
    get_requires_for_build_wheel()
    return maturin.get_requires_for_build_sdist(config_settings)


get_requires_for_build_editable = get_requires_for_build_wheel


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """As maturin, with libanabranch.a."""
    build_archive()
    return maturin.build_wheel(wheel_directory, config_settings, metadata_directory)


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    """As maturin, with libanabranch.a."""
    build_archive()
    return maturin.build_editable(wheel_directory, config_settings, metadata_directory)


def build_archive():
    """Rules for programs in C, without what only a debugger reads: 3 MB instead of 10."""
    command = ["cargo", "rustc", "--quiet", "--release", "--package", "anabranch-abi"]
    command += ["--crate-type", "staticlib", "--message-format", "json-render-diagnostics"]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    messages = map(json.loads, done.stdout.splitlines())
    files = [file for one in messages for file in one.get("filenames", ())]
    (archive,) = (file for file in files if file.endswith("libanabranch.a"))
    shutil.copyfile(archive, ARCHIVE)
    if strip := shutil.which("strip"):
        subprocess.run([strip, "--strip-debug", ARCHIVE], check=True)


if __name__ == "__main__":
    build_archive()
