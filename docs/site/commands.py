"""The page of the command line, from the commands as Typer has them."""

import re
from collections.abc import Iterator
from typing import Any

import typer.main
from tables import cell

from anabranch.cli.main import app

INTRODUCTION = """# Commands

This page lists the commands of `anabranch` with their parameters. `anabranch COMMAND --help` prints
the same. The programs `anabranch-kernel`, `anabranch-gateway` and `anabranch-lab` have `--help`,
too. `--quiet` (`-q`) and `--verbose` (`-v`) of every command say how much goes to stderr.
"""
EVERYWHERE = ("help", "quiet", "verbose")


def page() -> str:
    """Every command with its arguments, options and examples."""
    root = typer.main.get_command(app)
    return INTRODUCTION + "".join(
        text for name, command in root.commands.items() for text in _sections(name, command)
    )


def _sections(name: str, command: Any) -> Iterator[str]:
    if command.hidden:
        return
    yield f"\n## `anabranch {name}`\n\n{_help(command.help or '')}\n"
    rows = [it for it in command.params if not it.hidden and it.name not in EVERYWHERE]
    if rows:
        yield "\n| parameter | value | meaning |\n|---|---|---|\n" + "".join(map(_row, rows))
    for below, child in getattr(command, "commands", {}).items():
        yield from _sections(f"{name} {below}", child)


def _row(parameter: Any) -> str:
    flags = [flag for flag in parameter.opts if flag.startswith("-")]
    metavar = parameter.metavar or parameter.name.upper()
    names = ", ".join(f"`{flag}`" for flag in flags) or f"`{metavar}`"
    value = "" if not flags or getattr(parameter, "is_flag", False) else f"`{cell(metavar)}`"
    required = " Required." if parameter.required else ""
    return f"| {names} | {value} | {cell(parameter.help or '')}{required} |\n"


def _help(text: str) -> str:
    """The help of a command as Markdown; the lines after `Examples:` are code."""
    parts = re.split(r"\n\s*Examples?:\n", text.replace("\b", "").strip(), maxsplit=1)
    before, examples = parts[0].strip(), "".join(parts[1:])
    code = "\n".join(line.strip() for line in examples.splitlines() if line.strip())
    return before + (f"\n\n```\n{code}\n```" if code else "")
