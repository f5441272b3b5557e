"""Builds the documentation site: `python docs/site/build.py DIRECTORY`, or `make docs`.

With `--quick`, as in the gate, how-to pages are not run and have no figures, and the pages of rules
show one picture.

The pages of docs/ are copied, their blocks of code are run and compared with what the page prints,
figures are those that the blocks have written, and the pages of the reference are generated.
Sphinx then makes HTML of all of them; its warnings are errors.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SITE = Path(__file__).parent
ROOT = SITE.parents[1]
sys.path[:0] = [str(SITE), str(ROOT / "tests"), str(ROOT / "python")]

import api  # noqa: E402
import cause_pages  # noqa: E402
import pages  # noqa: E402
import paper_files  # noqa: E402
import rule_pages  # noqa: E402
import tables  # noqa: E402
from sphinx.cmd.build import build_main  # noqa: E402


def build(out: Path, quick: bool) -> int:
    """Write the site to a directory, of which an earlier site is replaced. Sphinx' exit code."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "source"
        pages.copy(ROOT / "docs", source)
        pages.add_figures(ROOT / "docs", source, quick)
        _generate(source / "reference", quick)
        pages.add_cells(source)
        pages.add_records(source)
        pages.add_tables_of_contents(source)
        pages.mend_links(source, ROOT / "docs")
        for name in ("conf.py", "static", "templates"):
            copy = shutil.copytree if (SITE / name).is_dir() else shutil.copy
            copy(SITE / name, source / name)
        html = Path(folder) / "html"
        # In the gate other tests have the other processors; one process takes less time of them.
        options = ["--fail-on-warning", "--keep-going", "--fresh-env", "--quiet"]
        options += ["-j", "1" if quick else "auto"]
        code = build_main([*options, "-b", "html", str(source), str(html)])
        if code == 0:
            _lighten(html)
            shutil.rmtree(out, ignore_errors=True)
            shutil.move(html, out)
        return code


MENTION = re.compile(r"`?docs/(how-to|reference|notebook)/([\w-]+)\.md`?")
"""A page as comments of the source name it."""


def _generate(folder: Path, quick: bool) -> None:
    """Write the generated pages of the reference; `quick` draws one picture for all rules."""
    texts = {
        "scenario": tables.scenario(ROOT),
        "result-tables": tables.results(),
        "metrics": tables.metrics(ROOT),
        "commands": (folder / "commands.md").read_text() + _commands(),
        "paper-files": paper_files.page(),
        "python": api.page(ROOT / "python" / "anabranch"),
    }
    for name, text in texts.items():
        linked = MENTION.sub(r"[\2](../\1/\2.md)", text)
        (folder / f"{name}.md").write_text(linked)
    rule_pages.write(ROOT, folder, quick)
    cause_pages.write(folder)


def _commands() -> str:
    """Every command with its arguments, options and examples, as Typer writes them."""
    page = [sys.executable, "-m", "typer", "anabranch.cli.main", "utils", "docs"]
    page += ["--name", "anabranch"]
    done = subprocess.run(page, cwd=ROOT / "python", check=True, capture_output=True, text=True)
    return done.stdout.partition("\n")[2]


SEARCH = re.compile(
    r'<script src="[^"]*(?:searchtools|language_data|searchindex)\.js[^>]*></script>'
)
UNUSED = (".doctrees", ".buildinfo", "objects.inv", "_static/webpack-macros.html")
"""Files that Sphinx needs and readers do not."""


def _lighten(html: Path) -> None:
    """Remove what no page shows; the index of the search is for the page of the search alone."""
    for name in UNUSED:
        leftover = html / name
        shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink(missing_ok=True)
    fonts = html.rglob("fa-[br]*.woff2")  # of brands and outlines: the site has neither
    for leftover in (*html.rglob("*.map"), *fonts):
        leftover.unlink()
    for page in html.rglob("*.html"):
        if page.name != "search.html":
            page.write_text(SEARCH.sub("", page.read_text()))


if __name__ == "__main__":
    quick = sys.argv[1] == "--quick"
    sys.exit(build(Path(sys.argv[-1]), quick))
