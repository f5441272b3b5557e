"""Output of `--json`: complete documents that their schema describes."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import anabranch
from anabranch.cli.main import app
from anabranch.result.schema import result_schema
from conftest import SMALL

Printed = Callable[..., Any]


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> Printed:
    """Runs a command and reads what it prints: one JSON document without NaN and infinity."""

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    def call(*arguments: object) -> Any:
        app(list(map(str, arguments)), standalone_mode=False)
        out, err = capsys.readouterr()
        assert err == ""
        return json.loads(out, parse_constant=refuse)

    return call


@pytest.mark.parametrize(
    "command",
    [
        ["run"],
        ["run", "--optimum"],
        ["run", "--on", "fluid"],
        ["run", "--on", "equilibrium"],
        ["compare", "-a", "lia,olia"],
    ],
    ids=" ".join,
)
def test_results_follow_the_schema_that_is_printed(
    command: list[str], small: Path, printed: Printed
) -> None:
    document = printed(command[0], small, *command[1:], "--json", "--quiet")
    jsonschema.validate(document, printed("schema", "result"))
    for name, table in document["tables"].items():
        assert len({len(column) for column in table.values()}) == 1, name


def test_results_hold_every_row_of_all_seven_tables(tmp_path: Path, printed: Printed) -> None:
    file = tmp_path / "files.toml"
    paths = 'paths = [["R2"]]\n'
    file.write_text(SMALL.replace(paths, paths + "workload.file.bytes = 20_000\nstart_s = 3\n"))
    tables = printed("run", file, "--json")["tables"]
    assert tables["transfers"]["bytes"] == [20_000, 20_000]  # one per seed
    for name, table in anabranch.run(file).tables().items():
        assert list(tables[name]) == list(table.columns)
        for column in table:
            values = [None if value != value else value for value in table[column].tolist()]
            assert tables[name][column] == values, (name, column)


def test_the_schema_of_results_refuses_a_missing_table_and_an_unknown_column(small: Path) -> None:
    document, schema = anabranch.run(small, seeds=1).as_dict(), result_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(document, schema)
    without = {name: table for name, table in document["tables"].items() if name != "paths"}
    with pytest.raises(jsonschema.ValidationError, match="'paths' is a required property"):
        jsonschema.validate({**document, "tables": without}, schema)
    flows = {**document["tables"]["flows"], "user": ["first"]}
    with pytest.raises(
        jsonschema.ValidationError, match="'first' is not of type 'integer', 'null'"
    ):
        jsonschema.validate({**document, "tables": {**document["tables"], "flows": flows}}, schema)


def test_the_result_of_a_sweep_follows_the_schema(small: Path) -> None:
    result = anabranch.sweep(small, {"links.R1.rate_mbps": [5, 10]}, seeds=1)
    jsonschema.validate(result.as_dict(), result_schema())


def test_the_list_of_algorithms_is_the_whole_table(printed: Printed) -> None:
    rules = printed("list", "--json")
    for parameter in (parameter for rule in rules for parameter in rule["parameters"]):
        for key in ("default", "min", "max", "choices"):
            parameter[key] = as_number(parameter[key])
    assert rules == anabranch.rules()


def as_number(value: Any) -> Any:
    """A number, or a list of them, in which "inf" is infinity."""
    return [float(each) for each in value] if isinstance(value, list) else float(value)
