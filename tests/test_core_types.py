"""The types of `core_types` name what `_core` gives: every key and column, in the same order."""

from pathlib import Path
from typing import get_type_hints

import anabranch
from anabranch import _core, core_types
from anabranch.scenario import Toml

PYTHON_TYPES = {"string": list[str], "number": core_types.Floats, "integer": core_types.Integers}


def test_tables_have_the_columns_that_a_run_gives(small: Path) -> None:
    described = {
        table: {column: PYTHON_TYPES[kind] for column, (kind, _) in columns.items()}
        for table, columns in _core.columns().items()
    }
    typed = {
        table: get_type_hints(kind) for table, kind in get_type_hints(core_types.Tables).items()
    }
    assert typed == described
    tables = _core.Run(anabranch.load(small), None, 1).execute()
    assert {name: list(table) for name, table in tables.items()} == {
        name: list(columns) for name, columns in described.items() if name != "media"
    }
    call = "workload.media = { rate_mbps = 1 }\n"
    with_media = anabranch.Scenario.parse(small.read_text() + call)
    media = _core.Run(with_media, None, 1).execute()["media"]
    assert list(media) == list(described["media"])


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
