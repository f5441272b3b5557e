"""A page's blocks of root, on a small page: played to its last line, and nothing remains."""

import os
from pathlib import Path

import pytest

from repository import session
from repository.printed import Workspace
from repository.session import masked, missing, play_as_root

PAGE = """\
<!-- file: lab.toml -->
```toml
name = "A link"
algorithm = "cubic"
measure = { duration_s = 60 }
links.line = { rate_mbps = 20, delay_ms = 10 }
flows = [{ name = "user", paths = [["line"]] }]
```

<!-- as root: a lab -->
```console
# NAME=index.html
# cat > $NAME <<END
from $NAME
END
# anabranch lab exec lab.toml server -- python3 -u -m http.server 8000 &
Serving HTTP on 0.0.0.0 port 8000

# anabranch lab exec lab.toml user -- \\
    curl -s -w 'after %{time_total} s\\n' http://10.255.255.254:8000
from index.html
after 0.2 s

# kill %1
```
"""


@pytest.fixture
def page(tmp_path: Path) -> Path:
    file = tmp_path / "page.md"
    file.write_text(PAGE)
    return file


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    (tmp_path / "work").mkdir()
    return Workspace(tmp_path / "work")


def skip_without_hosts(page: Path) -> None:
    if lacks := missing(page):
        message = f"hosts can't be made here: no {', no '.join(lacks)}"
        assert "ANABRANCH_REQUIRE_KERNEL" not in os.environ, message
        pytest.skip(message)


def test_variables_here_documents_and_jobs_last_from_command_to_command(
    page: Path, workspace: Workspace
) -> None:
    skip_without_hosts(page)
    [(block, now)] = play_as_root(page, workspace)
    assert list(block.lines) == now


def test_other_words_are_shown(page: Path, workspace: Workspace) -> None:
    skip_without_hosts(page)
    page.write_text(PAGE.replace("after 0.2 s\n", "in 0.2 s\n"))
    [(block, now)] = play_as_root(page, workspace)
    assert list(block.lines) != now
    assert "after " in "\n".join(now)


def shell(page: Path, workspace: Workspace, lines: str) -> list[str]:
    page.write_text(f"<!-- as root: a shell -->\n```console\n{lines}\n```\n")
    skip_without_hosts(page)
    return play_as_root(page, workspace)[0][1]


def test_a_command_that_fails_is_named_with_its_message(page: Path, workspace: Workspace) -> None:
    with pytest.raises(AssertionError, match=r"(?s)ls none: 2.*cannot access"):
        shell(page, workspace, "# ls none")


def test_a_line_of_a_job_that_does_not_come_is_named(
    page: Path, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "APPEARS_S", 0.3)
    with pytest.raises(AssertionError, match=r"does not print \['ready'\], but\nwaiting"):
        shell(page, workspace, "# (echo waiting; sleep 60) &\nready")


def test_a_job_that_outlives_the_page_is_ended(page: Path, workspace: Workspace) -> None:
    assert shell(page, workspace, "# sleep 600 &") == ["# sleep 600 &"]


def test_a_process_that_ignores_its_end_is_named_and_killed(
    page: Path, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "LEAVES_S", 0.5)
    with pytest.raises(AssertionError, match=r"processes that did not end: .*sleep 600"):
        shell(page, workspace, "# (trap '' TERM; exec sleep 600) &")


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("lte  up  20.0 Mbps", "lte up 9 Mbps", True),
        ("4.9 MB", "13 kB", True),
        ("MCowBQYDK2VwAyEA" + "a" * 43 + "=", "MCowBQYDK2VwAyEA" + "b+/" + "c" * 40 + "=", True),
        ("lte  up", "lte  dead", False),
        ("RTT -", "RTT 20.0", False),
    ],
)
def test_only_numbers_and_widths_are_masked(one: str, other: str, same: bool) -> None:
    assert (masked(one) == masked(other)) is same
