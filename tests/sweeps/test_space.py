"""The notation of the values of a sweep, and the points that it gives."""

import numpy as np
import pytest

from anabranch.scenario import ScenarioError, Toml
from anabranch.sweeps.space import Interval, points


def values(text: str, **how: object) -> list[object]:
    return [point["key"] for point in points({"key": text}, **how)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("5,10,20", [5, 10, 20]),
        (" 5 , 1e1 ", [5, 10.0]),
        ("true,false", [True, False]),
        ("red,drop-tail", ["red", "drop-tail"]),
        ('"a,b",c', ["a,b", "c"]),
        ("[1, 2],[3]", ["[1, 2]", "[3]"]),
        (
            "{ packets = 5, bytes = 9 },{ packets = 6 }",
            ["{ packets = 5, bytes = 9 }", "{ packets = 6 }"],
        ),
        ("lin(5,50,10)", [5, 10, 15, 20, 25, 30, 35, 40, 45, 50]),
        ("lin(0,1,11)", [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]),
        ("log(1,100,5)", [1, 3.16227766017, 10, 31.6227766017, 100]),  # factors of 10 ** 0.5
        ("log(0.001,10,5)", [0.001, 0.01, 0.1, 1.0, 10.0]),
        ("int(1,8)", [1, 2, 3, 4, 5, 6, 7, 8]),
    ],
)
def test_each_notation_gives_these_values(text: str, expected: list[object]) -> None:
    found = values(text)
    assert found == expected
    assert [type(value) in (int, bool) for value in found] == [
        type(value) in (int, bool) for value in expected
    ] or text.startswith("log(1,")


def test_arrays_and_tables_stay_toml_and_words_are_strings() -> None:
    assert all(isinstance(value, Toml) for value in values("[1, 2],word"))


def test_several_keys_give_every_combination_the_last_one_fastest() -> None:
    found = points({"a": [1, 2], "b": np.array([3.0, 4.0]), "c": "x,y"})
    assert [tuple(point.values()) for point in found][:3] == [(1, 3, "x"), (1, 3, "y"), (1, 4, "x")]
    assert len(found) == 8


@pytest.mark.parametrize("method", ["lhs", "sobol"])
def test_samples_have_one_point_in_each_of_n_equal_parts_of_every_interval(method: str) -> None:
    # This defines a Latin hypercube; for a scrambled Sobol sequence of 2^m points it is the
    # property of a (0, m, 1)-net in every coordinate.
    over = {"a": "lin(10,20)", "b": "log(1,1000)", "c": "int(1,4)", "d": [7, 8]}
    found = points(over, sample=16, method=method)
    assert [list(point) for point in found] == [list("abcd")] * 32
    of_seven = [point for point in found if point["d"] == 7]
    assert sorted(int((point["a"] - 10) / 10 * 16) for point in of_seven) == list(range(16))
    assert sorted(int(np.log10(point["b"]) / 3 * 16) for point in of_seven) == list(range(16))
    assert sorted(point["c"] for point in of_seven) == [1] * 4 + [2] * 4 + [3] * 4 + [4] * 4
    assert found == points(over, sample=16, method=method)  # the same every time


def test_the_middle_is_on_the_scale_of_the_interval() -> None:
    assert Interval(1, 100, "lin").middle(1, 100) == 50.5
    assert Interval(1, 100, "log").middle(1, 100) == 10
    assert Interval(1, 100, "int").middle(1, 4) == 2
    assert Interval(1, 100, "int").middle(3, 4) is None


@pytest.mark.parametrize(
    ("text", "how", "message"),
    [
        ("", {}, "values separated by commas"),
        ("5,,6", {}, "values separated by commas"),
        ("5,6,5", {}, "the value 5 is there twice"),
        ("lin(5,50)", {}, r"key: lin\(5,50\) is an interval: give the number of values"),
        ("lin(50,5,3)", {}, "the smaller one first"),
        ("lin(5,inf,3)", {}, "two finite numbers"),
        ("lin(5)", {}, "expected numbers"),
        ("lin(a,b)", {}, "expected numbers"),
        ("lin(1,2,3,4)", {}, "too many numbers"),
        ("lin(1,2,1)", {}, "expected 2 to 100000 values"),
        ("log(0,5,3)", {}, "numbers above 0"),
        ("int(1.5,3)", {}, "expected integers"),
        ("int(1,9,3)", {}, "too many numbers"),
        ("int(1,2000000)", {}, "a sweep of 2000000 points: expected at most 100000"),
        ("5,6", {"sample": 4}, "samples need an interval"),
        ("lin(1,2)", {"sample": 0}, "sample = 0"),
        ("lin(1,2)", {"sample": 5, "method": "sobol"}, "a power of 2, 4 or 8"),
        ("lin(1,2)", {"sample": 5, "method": "halton"}, "expected lhs or sobol"),
    ],
)
def test_what_is_not_in_the_notation_is_one_clear_line(
    text: str, how: dict[str, object], message: str
) -> None:
    with pytest.raises(ScenarioError, match=message) as error:
        values(text, **how)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("over", "message"),
    [
        ({"algorithm": ["lia"]}, "use --algorithm"),
        ({"seeds": "1,2"}, "use --seeds"),
        ({"key": 5}, "expected a list of values"),
        ({"key": []}, "no value given"),
    ],
)
def test_keys_and_values_from_python_are_checked(over: dict[str, object], message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        points(over)
