"""Builds the other programs of the comparison, sing-box and shadowsocks-rust, from source.

    .venv/bin/python crates/gateway/acceptance/rivals/install.py

It takes Go 1.25, Rust 1.91 and ten minutes of two processors. The programs go to the folder
`--prefix`, `ANABRANCH_RIVALS` or ~/.cache/anabranch-rivals, and to no other place.
"""

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

SING_BOX = "1.14.1"
SHADOWSOCKS = "1.25.0"
SING_BOX_MODULE = "github.com/sagernet/sing-box"
SHADOWSOCKS_FEATURES = "local,server,logging,multi-threaded,aead-cipher-2022"


def default_prefix() -> Path:
    """Where the programs are if no option says otherwise."""
    given = os.environ.get("ANABRANCH_RIVALS")
    return Path(given) if given else Path.home() / ".cache/anabranch-rivals"


def sing_box(prefix: Path) -> None:
    """Build sing-box; the protocols of the comparison need no tags."""
    go = ["go", "install", "-trimpath", "-p", "2"]
    version = f"-s -w -X {SING_BOX_MODULE}/constant.Version={SING_BOX}"
    go += ["-ldflags", version, f"{SING_BOX_MODULE}/cmd/sing-box@v{SING_BOX}"]
    run(go, {"GOBIN": str(prefix / "bin")})


def shadowsocks(prefix: Path) -> None:
    """Build sslocal and ssserver."""
    cargo = ["cargo", "install", "shadowsocks-rust", "--version", SHADOWSOCKS, "--locked"]
    cargo += ["--no-default-features", "--features", SHADOWSOCKS_FEATURES]
    cargo += ["--bin", "sslocal", "--bin", "ssserver", "--root", str(prefix)]
    with_target = {"CARGO_TARGET_DIR": str(prefix / "build")}
    run(cargo, with_target)
    shutil.rmtree(prefix / "build", ignore_errors=True)


def run(command: list[str], variables: dict[str, str]) -> None:
    """Run a build with the lowest priority."""
    print(f"# {' '.join(command)}", flush=True)
    nice = ["nice", "-n", "19", *command]
    if subprocess.run(nice, env=os.environ | variables).returncode:
        sys.exit(f"{command[0]} {command[1]} failed")


BUILDS = {"sing-box": (sing_box, "sing-box"), "shadowsocks": (shadowsocks, "ssserver")}
"""Programs: their build, and a file that it makes."""


def main() -> None:
    """Build what is missing."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--prefix", type=Path, default=default_prefix())
    prefix = parser.parse_args().prefix.absolute()
    for name, (build, file) in BUILDS.items():
        if not (prefix / "bin" / file).exists():
            build(prefix)
        print(f"{name}: {prefix / 'bin' / file}", flush=True)


if __name__ == "__main__":
    main()
