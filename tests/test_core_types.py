"""The types of `core_types` name what `_core` gives: every key; and a run's tables every column."""

from pathlib import Path
from typing import get_type_hints

import anabranch
from anabranch import _core, core_types
from anabranch.scenario import Toml

KINDS = {"f": "number", "i": "integer"}


def test_tables_have_the_columns_that_a_run_gives(small: Path) -> None:
    call = "workload.media = { rate_mbps = 1 }\n"
    with_media = anabranch.Scenario.parse(small.read_text() + call)
    described = _core.columns()
    tables = _core.Run(with_media, None, 1).execute()
    assert {name: list(table) for name, table in tables.items()} == {
        name: list(columns) for name, columns in described.items()
    }
    for name, table in tables.items():
        for column, values in table.items():
            kind = "string" if isinstance(values, list) else KINDS[values.dtype.kind]
            assert kind == described[name][column][0], (name, column)
    assert "media" not in _core.Run(anabranch.load(small), None, 1).execute()


def test_rules_and_their_parameters_have_the_keys_of_their_types() -> None:
    for rule in anabranch.rules():
        assert set(rule) == set(get_type_hints(core_types.RuleInfo))
        for parameter in rule["parameters"]:
            assert set(parameter) == set(get_type_hints(core_types.Parameter))


def test_networks_have_the_keys_of_their_types(small: Path) -> None:
    seen: set[str] = set()
    for workload in ['"bulk"', "{ file.bytes = 1000 }", "{ on_off = { on_s = 1, off_s = 2 } }"]:
        override = Toml(workload)
        network = anabranch.load(small, {"flows.one.workload": override}).network()
        assert set(network) == set(get_type_hints(core_types.PlainNetwork))
        assert set(network["links"][0]) == set(get_type_hints(core_types.Link))
        assert set(network["flows"][1]["paths"][0]) == set(get_type_hints(core_types.NetworkPath))
        assert core_types.Flow.__required_keys__ <= set(network["flows"][1])
        seen |= set(network["flows"][1])
    assert seen == set(get_type_hints(core_types.Flow))


def test_shared_servers_give_the_columns_of_their_type() -> None:
    served = _core.share([1.0], [(0, 0.5, 0.01, None)], 10, 1)
    assert set(served) == set(get_type_hints(core_types.Served))
    assert served["workload_s"].shape == (10, 1)
