"""The command: its address, its end, and what it says where it cannot begin."""

import http.client
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from conftest import accept_sigint
from extras.ui.server import ENDLESS, PATIENCE_S, read_until


def test_ctrl_c_ends_the_server_and_a_run_that_computes():
    command = [sys.executable, "-m", "anabranch", "ui", "--no-browser"]
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        command, stdout=pipe, stderr=pipe, text=True, preexec_fn=accept_sigint
    )
    assert process.stdout
    address = urlsplit(process.stdout.readline().strip())
    assert address.hostname == "127.0.0.1"
    connection = http.client.HTTPConnection(address.netloc, timeout=PATIENCE_S)
    headers = {"x-anabranch-token": parse_qs(address.query)["token"][0]}
    headers["content-type"] = "application/json"
    connection.request("POST", "/api/run", json.dumps(ENDLESS), headers)
    read_until(connection.getresponse(), "samples")
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=PATIENCE_S)
    connection.close()
    assert process.returncode == 130
    assert "Traceback" not in said


def test_without_its_library_the_command_names_the_extra(
    anabranch, monkeypatch: pytest.MonkeyPatch
):
    for name in list(sys.modules):
        if name.startswith("anabranch.extras.ui.") and name.rpartition(".")[2] in ("serve", "app"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    result = anabranch("ui")
    assert result.returncode == 2
    assert result.stderr.strip() == (
        "anabranch: uvicorn is not installed: pip install 'anabranch[ui]' installs it"
    )


def test_what_cannot_be_opened_is_one_line(anabranch, tmp_path: Path):
    result = anabranch("ui", str(tmp_path))
    assert result.returncode == 2
    assert result.stderr.startswith(f"anabranch: {tmp_path}: expected manifest.json")
    assert result.stderr.count(os.linesep) == 1
