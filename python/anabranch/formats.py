"""How numbers and tables are written: on the terminal, in Markdown and in JSON."""

import csv
import io
import json
import math
import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd


BIDI = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""Characters that turn the direction of the text around them, so that it reads as another."""

UNPRINTABLE = {"Cc", "Cs", "Zl", "Zp"}
"""Categories of characters that a terminal obeys, or that end a line."""

_LONG_NUMBER = re.compile(r"(?<![\w.])-?\d{22,}(?![\w.])")


def is_printable(letter: str) -> bool:
    """Whether a character may be printed on a terminal as it is: controls (C0, C1) may not."""
    return unicodedata.category(letter) not in UNPRINTABLE and letter not in BIDI


def printable(text: str) -> str:
    """A text with escapes in the place of characters that are not printable, such as newlines.

    >>> printable("a\\x1b[31mb"), printable("grün")
    ('a\\\\x1b[31mb', 'grün')
    """
    return "".join(
        letter if is_printable(letter) else letter.encode("unicode_escape").decode()
        for letter in text
    )


def short(text: str, most: int = 60) -> str:
    """A text of at most so many characters: the middle of a longer one is left out.

    >>> short("abcdefghij", 7), short("abc", 7)
    ('abc…hij', 'abc')
    """
    end = (most - 1) // 2
    return text if len(text) <= most else f"{text[: most - 1 - end]}…{text[-end:]}"


def short_numbers(text: str) -> str:
    """A text in which whole numbers of more digits than 64 bits need are in powers of ten.

    >>> short_numbers(f"got {10**300}, not 18446744073709551615")
    'got 1e+300, not 18446744073709551615'
    """
    return _LONG_NUMBER.sub(lambda found: _rounded(found[0]), text)


def _rounded(digits: str) -> str:
    value = float(digits)
    return f"{value:g}" if math.isfinite(value) else f"a number of {len(digits)} digits"


def number(value: float | None, form: str = "g", missing: str = "") -> str:
    """A number by a format specification such as ".3g"; `missing` for None and NaN.

    >>> number(0.25), number(None, missing="-")
    ('0.25', '-')
    """
    return missing if value is None or math.isnan(value) else f"{value:{form}}"


def numbers(values: Iterable[float], form: str = ".4g") -> str:
    """Numbers by one format specification, separated by commas.

    >>> numbers([1, 2.5])
    '1, 2.5'
    """
    return ", ".join(f"{value:{form}}" for value in values)


def interval(
    mean: float | None,
    half: float | None,
    form: str,
    half_form: str | None = None,
    missing: str = "-",
) -> str:
    """A mean and half its confidence interval; the mean alone where there is no interval.

    `half_form` is the format specification of the half-width, that of the mean by default.

    >>> interval(2.5, 0.125, ".3f"), interval(2.5, None, ".1f"), interval(None, None, ".1f")
    ('2.500 ± 0.125', '2.5', '-')
    """
    if mean is None or math.isnan(mean):
        return missing
    written = number(half, half_form or form)
    return f"{mean:{form}} ± {written}" if written else f"{mean:{form}}"


def percent(value: float | None) -> str:
    """A relative difference as a signed whole percentage; empty for None and NaN.

    >>> percent(-0.125), percent(0.5)
    ('-12%', '+50%')
    """
    return number(value, "+.0%")


def share(fraction: float, digits: int = 0) -> str:
    """A fraction as a percentage.

    >>> share(0.125), share(0.125, 1)
    ('12 %', '12.5 %')
    """
    return f"{100 * fraction:.{digits}f} %"


def csv_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """CSV with a header, lines that end with a newline alone, and quotes only where needed.

    >>> csv_table(("rule", "says"), [("lia", "0.5, of 1")])
    'rule,says\\nlia,"0.5, of 1"\\n'
    """
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([header, *rows])
    return text.getvalue()


def wide_csv(header: Sequence[str], cells: Iterable[tuple[Sequence[str], str, str]]) -> str:
    """CSV of cells (names of the row, column, text): a row per names, `header` over them.

    Rows and columns are in the order of their first cells.

    >>> print(wide_csv(["x"], [(["a"], "lia", "1"), (["a"], "olia", "2"), (["b"], "olia", "3")]))
    x,lia,olia
    a,1,2
    b,,3
    <BLANKLINE>
    """
    rows: dict[tuple[str, ...], dict[str, str]] = {}
    columns: dict[str, None] = {}
    for names, column, text in cells:
        rows.setdefault(tuple(names), {})[column] = text
        columns[column] = None
    body = [[*names, *(row.get(column, "") for column in columns)] for names, row in rows.items()]
    return csv_table([*header, *columns], body)


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """The lines of a Markdown table; columns after the first are aligned to the right.

    >>> markdown_table(["rule", "Mbps"], [["lia", "3.1"]])
    ['| rule | Mbps |', '| --- | --: |', '| lia | 3.1 |']
    """
    alignment = ["---", *["--:"] * (len(header) - 1)]
    return ["| " + " | ".join(row) + " |" for row in [header, alignment, *rows]]


def first(rows: "pd.DataFrame", kind: str, most: int) -> "tuple[pd.DataFrame, int]":
    """The rows of the first `most` flows or links of a table, and how many of them it has in all.

    >>> import pandas as pd
    >>> rows, there = first(pd.DataFrame({"flow": ["a", "a", "b", "c"]}), "flow", 2)
    >>> rows["flow"].tolist(), there
    (['a', 'a', 'b'], 3)
    """
    names = rows[kind].unique()
    return rows[rows[kind].isin(names[:most])], len(names)


def records(frame: "pd.DataFrame") -> list[dict[str, Any]]:
    """The rows of a table as plain data for JSON; NaN becomes None.

    >>> import pandas as pd
    >>> records(pd.DataFrame({"flow": ["a", "b"], "rtt_ms": [40.0, float("nan")]}))
    [{'flow': 'a', 'rtt_ms': 40.0}, {'flow': 'b', 'rtt_ms': None}]
    """
    rows = frame.astype(object).where(frame.notna(), None)
    return [dict(row) for row in rows.to_dict(orient="records")]


def columns(frame: "pd.DataFrame") -> dict[str, list[Any]]:
    """The columns of a table as plain data for JSON; NaN and infinity become None.

    >>> import pandas as pd
    >>> columns(pd.DataFrame({"flow": ["a", "b"], "rtt_ms": [40.0, float("nan")]}))
    {'flow': ['a', 'b'], 'rtt_ms': [40.0, None]}
    """
    return {str(name): [finite(value) for value in frame[name].tolist()] for name in frame}


def latex_table(frame: "pd.DataFrame") -> str:
    """A table for LaTeX's booktabs, by pandas: means with half their interval in one column.

    >>> import pandas as pd
    >>> row = {"rule": "rsf_lb", "rtt_ms": [40.04], "rtt_ms_ci95": [0.5]}
    >>> print(latex_table(pd.DataFrame(row)).splitlines()[4].strip())
    rsf\\_lb & $40.04 \\pm 0.50$ \\\\
    """
    shown = {}
    for name in frame:
        if str(name).endswith("_ci95"):
            continue
        half = frame.get(f"{name}_ci95")
        values = [
            _in_latex(value, None if half is None else half.iloc[i])
            for i, value in enumerate(frame[name])
        ]
        shown[_escaped(str(name).replace("_", " "))] = values
    plain = type(frame)(shown)
    numeric = [frame[name].dtype.kind in "if" for name in frame if not str(name).endswith("_ci95")]
    align = "".join("r" if each else "l" for each in numeric)
    text: str = plain.to_latex(index=False, escape=False, column_format=align)
    return text


def latex_rows(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """`latex_table` of rows of text."""
    import pandas as pd

    return latex_table(pd.DataFrame(rows, columns=list(header)))


LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{letter: f"\\{letter}" for letter in "&%$#_{}"},
}
"""Characters that LaTeX obeys."""


def _escaped(text: str) -> str:
    return "".join(LATEX.get(letter, letter) for letter in text)


def _in_latex(value: Any, half: float | None) -> str:
    """A cell: a mean to the second digit of half its interval, or to four digits without one."""
    if not isinstance(value, float):
        return _escaped(str(value))
    if math.isnan(value):
        return "--"
    if half is None or math.isnan(half) or half == 0:
        return f"${value:.{_decimals(value, 4)}f}$"
    decimals = _decimals(half, 2)
    return f"${value:.{decimals}f} \\pm {half:.{decimals}f}$"


def _decimals(value: float, digits: int) -> int:
    """Digits behind the point that give a value so many significant ones."""
    return max(0, digits - 1 - math.floor(math.log10(abs(value)))) if value else 0


def finite(value: Any) -> Any:
    """Plain data with None for NaN and infinity, which JSON lacks.

    >>> finite({"needed": [4, float("inf")]})
    {'needed': [4, None]}
    """
    match value:
        case dict():
            return {key: finite(entry) for key, entry in value.items()}
        case list() | tuple():
            return [finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def json_text(value: Any, indent: str = "") -> str:
    """Indented JSON in which a list of plain values takes one line. Raises ValueError for NaN.

    >>> print(json_text({"rates": [1.5, 2.0], "flows": [{"name": "a"}]}))
    {
      "rates": [1.5, 2.0],
      "flows": [
        {
          "name": "a"
        }
      ]
    }
    """
    inner = indent + "  "
    if isinstance(value, dict) and value:
        brackets = "{}"
        lines = [f"{json.dumps(key)}: {json_text(entry, inner)}" for key, entry in value.items()]
    elif isinstance(value, (list, tuple)) and any(
        isinstance(e, (dict, list, tuple)) for e in value
    ):
        brackets = "[]"
        lines = [json_text(entry, inner) for entry in value]
    else:
        return json.dumps(value, allow_nan=False)
    return f"{brackets[0]}\n{inner}" + f",\n{inner}".join(lines) + f"\n{indent}{brackets[1]}"
