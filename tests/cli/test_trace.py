"""`anabranch trace`: formats and conversion."""

from pathlib import Path

from conftest import Anabranch


def test_a_trace_is_converted_and_says_what_it_lacks(tmp_path: Path, anabranch: Anabranch) -> None:
    source, target = tmp_path / "in.csv", tmp_path / "out.csv"
    source.write_text("1,250000\n2,125000\n")
    done = anabranch("trace", "convert", source, target, "--from", "multipath-wireless")
    assert done.returncode == 0
    assert target.read_text() == "time_s,rate_mbps\n0.0,2.0\n1.0,1.0\n"
    assert "It lacks delay_ms, loss: the keys of the link say them." in done.stderr
    scenario = tmp_path / "one.toml"
    scenario.write_text(
        'algorithm = "reno"\nmeasure.duration_s = 2\n'
        'links.a = { trace_file = "out.csv", delay_ms = 5 }\n'
        'flows = [{ name = "u", paths = [["a"]] }]\n'
    )
    assert anabranch("run", scenario).returncode == 0

    again = anabranch("trace", "convert", source, target, "--from", "multipath-wireless")
    assert (again.returncode, "give another name, or --force" in again.stderr) == (2, True)
    options = ["--from", "csv", "--to", "mahimahi", "--force"]
    assert anabranch("trace", "convert", target, target, *options).returncode == 0
    # 2 Mbps are an opportunity every 6 ms, 1 Mbps one every 12 ms.
    assert len(target.read_text().split()) == 166 + 84


def test_a_fault_names_the_file_and_the_line(tmp_path: Path, anabranch: Anabranch) -> None:
    source = tmp_path / "in.csv"
    source.write_text("1,250000\nx\n")
    done = anabranch("trace", "convert", source, tmp_path / "o", "--from", "multipath-wireless")
    assert done.returncode == 2
    assert done.stderr.startswith(f"anabranch: {source}: line 2: expected a second and bytes")
    assert not (tmp_path / "o").exists()


def test_formats_are_listed(anabranch: Anabranch) -> None:
    assert "satellite-vs-cellular" in anabranch("trace", "formats").stdout
