"""Options that several commands share."""

import tomllib
from typing import Annotated, Any

import typer

from anabranch.scenario import ScenarioError

Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Replace a value of the scenario, such as links.left.rate_mbps=30. Repeatable.",
    ),
]


def overrides(settings: list[str] | None) -> dict[str, Any]:
    """Dotted keys to values. Raises `ScenarioError` for what is not KEY=VALUE."""
    return dict(_override(setting) for setting in settings or [])


def _override(setting: str) -> tuple[str, Any]:
    key, equals, text = setting.partition("=")
    if not equals or not key:
        raise ScenarioError(f"--set {setting}: expected KEY=VALUE, as in links.left.rate_mbps=30")
    try:
        return key, tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return key, text  # a bare word is a string
