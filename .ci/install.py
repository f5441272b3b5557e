"""Installs the checkout, editable, into the virtual environment that runs this, and builds nothing.

`maturin develop` would compile the crates a second time, with the features that one of them needs.
"""

import subprocess
import sys
import tempfile
from pathlib import Path
from zipfile import ZipFile

ROOT = Path(__file__).parents[1]


def write_wheel(folder: Path) -> Path:
    """Metadata and programs as maturin writes them, and the path of the package."""
    maturin = [sys.executable, "-m", "maturin", "pep517", "write-dist-info"]
    command = [*maturin, "--metadata-directory", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (info,) = folder.glob("*.dist-info")
    wheel = folder / f"{info.stem}-py3-none-any.whl"
    with ZipFile(wheel, "w") as archive:
        for file in info.rglob("*"):
            archive.write(file, file.relative_to(folder))
        archive.writestr("anabranch.pth", f"{ROOT / 'python'}\n")
        archive.writestr(f"{info.name}/RECORD", "")
    return wheel


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--force-reinstall"]
        subprocess.run([*pip, str(write_wheel(Path(folder)))], check=True)


if __name__ == "__main__":
    main()
