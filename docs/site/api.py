"""The page of the Python API, from the source: signatures with types, and docstrings.

Sphinx' autodoc has no types of the compiled extension, of which it does not read the stub.
"""

import ast
import re
from pathlib import Path

from tables import cell

import anabranch

INTRODUCTION = """# Python API

This page lists what `import anabranch` offers, with types and units. Windows are in packets, times
in the unit that ends a name (`rtt_ms`, `duration_s`). The [first
tutorial](../tutorials/first-ten-minutes.md) and [a rule of your own in
Python](../tutorials/rule-in-python.md) show it in use.
"""


def page(package: Path) -> str:
    """Every public name, in the order of the alphabet."""
    text = INTRODUCTION
    for name in anabranch.__all__:
        node = _definition(package, name)
        text += _class(node) if isinstance(node, ast.ClassDef) else _function(node, "##")
    return text


def _definition(package: Path, name: str) -> ast.ClassDef | ast.FunctionDef:
    """Where the source, or the stub of the extension, defines a public name."""
    module = getattr(anabranch, name).__module__.removeprefix("anabranch.").replace(".", "/")
    own = (package / f"{module}.py", package / module / "__init__.py")
    for file in (*own, package / "_core.pyi"):
        tree = ast.parse(file.read_text()) if file.exists() else ast.Module([], [])
        for node in tree.body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == name:
                return node
    raise LookupError(name)


def _function(node: ast.FunctionDef, heading: str, owner: str = "") -> str:
    arguments = ast.unparse(node.args)
    name = f"{owner}{node.name}"
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    signature = f"{name}({arguments}){returns}"
    if len(signature) > 78:
        inner = ",\n    ".join(_parameters(node.args))
        signature = f"{name}(\n    {inner},\n){returns}"
    return f"\n{heading} `{name}`\n\n```python\n{signature}\n```\n\n{_markdown(node)}\n"


def _parameters(arguments: ast.arguments) -> list[str]:
    """The parameters one by one, as the source has them."""
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(positional) - len(arguments.defaults)) + list(arguments.defaults)
    found = [_parameter(*it) for it in zip(positional, defaults, strict=True)]
    if arguments.vararg:
        found.append(f"*{ast.unparse(arguments.vararg)}")
    elif arguments.kwonlyargs:
        found.append("*")
    keywords = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    return found + [_parameter(*it) for it in keywords]


def _parameter(argument: ast.arg, default: ast.expr | None) -> str:
    return ast.unparse(argument) + (f" = {ast.unparse(default)}" if default else "")


def _class(node: ast.ClassDef) -> str:
    text = f"\n## `{node.name}`\n\n{_markdown(node)}\n"
    rows = []
    for item, following in zip(node.body, [*node.body[1:], None], strict=True):
        if isinstance(item, ast.AnnAssign) and not ast.unparse(item.target).startswith("_"):
            meaning = ""
            if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
                meaning = str(following.value.value)
            rows.append((ast.unparse(item.target), ast.unparse(item.annotation), meaning))
        elif isinstance(item, ast.FunctionDef) and _is_property(item):
            meaning = ast.get_docstring(item) or ""
            rows.append((item.name, ast.unparse(item.returns) if item.returns else "", meaning))
    if rows:
        text += "\n| attribute | type | meaning |\n|---|---|---|\n"
        text += "".join(f"| `{name}` | `{cell(kind)}` | {cell(it)} |\n" for name, kind, it in rows)
    for item in node.body:
        if isinstance(item, ast.FunctionDef) and not item.name.startswith("_"):
            text += "" if _is_property(item) else _function(item, "###", f"{node.name}.")
    return text


def _is_property(node: ast.FunctionDef) -> bool:
    return any(ast.unparse(it).endswith("property") for it in node.decorator_list)


def _markdown(node: ast.FunctionDef | ast.ClassDef) -> str:
    """A docstring whose doctests are blocks of code."""
    text = ast.get_docstring(node) or ""
    return re.sub(
        r"(?:^>>> .*\n?(?:^(?!\s*$|>>> ).*\n?)*)+",
        lambda found: f"```pycon\n{found[0].rstrip()}\n```\n",
        text,
        flags=re.M,
    )
