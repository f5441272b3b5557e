"""Situations whose cause is known, measured on Linux 6.18."""

import re
import tarfile
import tomllib
from pathlib import Path
from typing import Any

import pytest

ARCHIVE = Path(__file__).with_name("situations.tar.gz")
with tarfile.open(ARCHIVE) as names:
    NAMES = sorted({name.split("/")[0] for name in names.getnames()})


@pytest.fixture(scope="module")
def situations(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("situations")
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    return folder


def kept(folder: Path, target: Path, pattern: str) -> Path:
    target.mkdir(exist_ok=True)
    for file in folder.iterdir():
        if re.fullmatch(pattern, file.name) and file.suffix != ".toml":
            (target / file.name).write_bytes(file.read_bytes())
    return target


def truth(folder: Path) -> dict[str, Any]:
    return tomllib.loads((folder / "truth.toml").read_text())


def links(known: dict[str, Any]) -> dict[str, float]:
    return {link["device"]: link["rate_mbps"] for link in known["link"]}
