"""The page of a paper's files: every key, kind of figure, check and quantity, from their types."""

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import MISSING
from typing import Any, ClassVar, get_args, get_origin, get_type_hints

from tables import cell

from anabranch.experiments.drawings import Figure, Line
from anabranch.papers.checks import Check
from anabranch.papers.suite import (
    Agreed,
    Algorithm,
    Assumed,
    Choice,
    Drop,
    Erratum,
    Group,
    Item,
    Measure,
    Metric,
    Paper,
    Predictions,
    Quick,
    Stated,
)
from anabranch.quantities import QUANTITIES
from anabranch.typed_toml import Where, in_order

TABLES: dict[str, type] = {
    "the files": Paper,
    "[quick]": Quick,
    "[groups.NAME]": Group,
    "[groups.NAME.algorithms.LABEL]": Algorithm,
    "[items.ID]": Item,
    "[items.ID.printed.METRIC]": Metric,
    "[[items.ID.measures]]": Measure,
    "[[items.ID.drops]]": Drop,
    "[[items.ID.figures.lines]]": Line,
    "[claims.ID]": Stated,
    "[choices.NAME]": Choice,
    "[errata.ID]": Erratum,
    "[predictions]": Predictions,
    "[agreement]": Agreed,
    "[[assumed]]": Assumed,
}
"""The types of the tables of a paper's files."""

INTRODUCTION = """# A paper's files

The keys of the files in a folder of `papers/` ([how a paper is described](../../papers/README.md)),
which are read as one, from the types that read them. A key in bold is required. Studies and the
judge measure the same [quantities](#quantities).
"""


def page() -> str:
    """Every table, then figures, checks and quantities."""
    text = INTRODUCTION + "\n## Tables\n"
    for place, kind in TABLES.items():
        text += f"\n**{place}**: {cell(kind.__doc__ or '')}\n\n{_table(kind)}"
    text += (
        "\n## Figures\n\nA figure of `[[items.ID.figures]]` has a `kind`, and maybe a `title`.\n"
    )
    text += "".join(map(_kind, kinds(Figure)))
    text += (
        "\n## Checks\n\nA check names metrics and cases of its item: measured (`n1_10.lia`), "
        "theory (`n1_10.opt_probing`, `n1_10.lia.fixed_point`) or printed "
        "(`n1_10.lia.published`).\n"
    )
    text += "".join(map(_kind, kinds(Check)))
    text += (
        "\n## Quantities\n\nA quantity is a function of the result of one run. With `from_s` or "
        "`to_s` it is taken over the samples that end between them; without both, where its text "
        "says nothing else, over the measurement window.\n\n"
        "| quantity | parameters | meaning |\n|---|---|---|\n"
    )
    return text + "".join(map(_quantity, QUANTITIES.items()))


def kinds(union: Any) -> tuple[Any, ...]:
    """The types of a union that a key `kind` tells apart."""
    found: tuple[Any, ...] = get_args(get_args(union)[0])
    return found


def keys(kind: Any) -> Iterator[tuple[str, bool, str]]:
    """Each key with whether it is required, and its meaning: the string below the field."""
    hints, below = get_type_hints(kind, include_extras=True), _below(kind)
    for one in in_order(kind):
        if hints[one.name] is Where or get_origin(hints[one.name]) is ClassVar:
            continue
        if one.metadata.keys() & {"key", "given"}:
            continue
        required = one.default is MISSING and one.default_factory is MISSING
        name = "every other key" if "rest" in one.metadata else one.name.rstrip("_")
        yield name, required, below.get(one.name, "")


def _below(kind: type) -> dict[str, str]:
    """The docstrings of a type's fields."""
    found = {}
    for one in kind.__mro__[-2::-1]:  # that of `object` has no source
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(one))).body
        assert isinstance(tree, ast.ClassDef)
        for item, following in zip(tree.body, tree.body[1:], strict=False):
            if isinstance(item, ast.AnnAssign) and isinstance(following, ast.Expr):
                found[ast.unparse(item.target)] = str(ast.literal_eval(following.value))
    return found


def _table(kind: Any) -> str:
    rows = [
        f"| {_name(name, required)} | {cell(meaning)} |\n" for name, required, meaning in keys(kind)
    ]
    return "| key | meaning |\n|---|---|\n" + "".join(rows)


def _name(name: str, required: bool) -> str:
    return f"**`{name}`**" if required else f"`{name}`"


def _kind(kind: Any) -> str:
    """The keys of a figure or a check in a line; most are named in its docstring."""
    named = [
        _name(name, required) + (f" ({cell(meaning).rstrip('.')})" if meaning else "")
        for name, required, meaning in keys(kind)
        if name != "title"
    ]
    return f"\n**`{kind.kind}`**: {cell(kind.__doc__ or '')} Keys: {', '.join(named)}.\n"


def _quantity(named: tuple[str, Callable[..., float]]) -> str:
    name, function = named
    parameters = list(inspect.signature(function).parameters.values())[1:]
    names = ", ".join(_name(one.name, one.default is one.empty) for one in parameters)
    return f"| `{name}` | {names} | {cell(inspect.getdoc(function) or '')} |\n"
