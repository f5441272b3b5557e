"""Tests of dist/ as users have it: `make matrix` and `make test-dist`.

Nothing is compiled but by the session `sdist`. Arguments after `--` go to pytest:
`nox -s "tests-3.12(oldest)" -- tests/cli`.
"""

import os
import shutil
from pathlib import Path

import nox

nox.options.error_on_missing_interpreters = True
nox.options.sessions = ["tests"]

ROOT = Path(__file__).parent

RUN = """\
import anabranch
result = anabranch.run("examples/two_links.toml", algorithm=["lia", "olia"], seeds=2)
assert set(result.summary().reset_index()["algorithm"]) == {"lia", "olia"}
"""

CONTROLLER = """\
anabranch examples newreno.c > mine.c
cc -O2 -shared -fPIC -I "$(anabranch abi --include)" mine.c -o libmine.so -lm
anabranch judge ./libmine.so:newreno --suite controller --quick --items sawtooth_reno,idle
anabranch examples lia.c > lia.c
cc -I "$(anabranch abi --include)" lia.c "$(anabranch abi --library)" -lm -lpthread -ldl -o lia
./lia | tail -1
"""


@nox.session(python=["3.11", "3.12", "3.13"])
@nox.parametrize("dependencies", ["oldest", "newest"], ids=["oldest", "newest"])
def tests(session: nox.Session, dependencies: str) -> None:
    """The Python tests with the wheel and the oldest or the newest dependencies allowed."""
    oldest = dependencies == "oldest"
    # uv knows how to take the lowest version that a project allows, for which there is a wheel.
    resolution = "lowest-direct" if oldest else "highest"
    session.install("uv")
    uv = ("uv", "pip", "install", "--quiet", "--python", session.bin + "/python")
    chosen = ("--only-binary", ":all:", "--resolution", resolution, "--upgrade")
    session.run(*uv, *chosen, "-r", "pyproject.toml", "--extra", "dev")
    session.run(*uv, "--reinstall", "--no-deps", dist("whl"))
    # Old libraries call what newer ones, which are not pinned, deprecate.
    warnings = ["-W", "ignore::DeprecationWarning"] if oldest else []
    session.run("pytest", "--quiet", *warnings, *session.posargs)


@nox.session
def wheel(session: nox.Session) -> None:
    """Outside the checkout and without Rust: command line, examples, a paper, Python."""
    session.install(dist("whl"))
    folder = session.create_tmp()
    shutil.copytree(ROOT / "examples", Path(folder, "examples"), dirs_exist_ok=True)
    session.chdir(folder)
    environment = without_cargo(session)
    for command in (
        "--help",
        "list",
        "schema result",
        "compare examples/shared_bottleneck.toml --algorithm reno,lia,olia,balia",
        "run examples/web_traffic.toml --seeds 2 --out results",
        "theory check lia",
    ):
        session.run("anabranch", *command.split(), env=environment, silent=True)
    # With 1 a claim fails with three short runs per case, which is not what is tested here.
    reproduce = ("anabranch", "reproduce", "olia", "--quick", "--out", "report")
    session.run(*reproduce, env=environment, silent=True, success_codes=[0, 1])
    assert list(Path("report").rglob("*.html"))
    session.run("python", "-c", RUN, env=environment)
    session.run("python", "examples/my_rule.py", env=environment, silent=True)
    # The commands of docs/how-to/test-a-controller.md, and a rule of ours in C.
    session.run("sh", "-ec", CONTROLLER, env=environment, external=True)


@nox.session
def sdist(session: nox.Session) -> None:
    """Without Rust one line says what to install; with it, the sdist builds a wheel that runs."""
    source = dist("tar.gz")
    answer = session.run(
        *("pip", "install", "--no-deps", source),
        env=without_cargo(session),
        success_codes=[1],
        silent=True,
    )
    lines = [line.strip() for line in str(answer).splitlines()]
    said = lines[lines.index("╰─> [1 lines of output]") + 1]
    assert said.startswith("anabranch: to build from source, install Rust"), answer
    session.install(source)
    session.chdir(session.create_tmp())
    session.run("anabranch", "run", ROOT / "examples" / "two_links.toml", "--seeds", "1")


def dist(suffix: str) -> str:
    """The newest package in dist/ with this suffix."""
    found = sorted((ROOT / "dist").glob(f"anabranch-*.{suffix}"), key=os.path.getmtime)
    if not found:
        raise SystemExit(f"no anabranch-*.{suffix} in dist/: make dist")
    return str(found[-1])


def without_cargo(session: nox.Session) -> dict[str, str]:
    """An environment whose PATH has this session's programs and no Rust."""
    folders = [session.bin, *os.environ["PATH"].split(os.pathsep)]
    path = os.pathsep.join(f for f in folders if not Path(f, "cargo").exists())
    assert shutil.which("cargo", path=path) is None
    return {"PATH": path}
