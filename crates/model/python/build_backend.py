"""Builds with maturin, which would download Rust where cargo is missing: says so instead."""

import shutil
import sys

import maturin
from maturin import *  # noqa: F403 - the hooks of PEP 517

NEEDS_RUST = (
    "anabranch: to build from source, install Rust 1.88 or later (https://rustup.rs); "
    "a wheel needs no Rust"
)


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
