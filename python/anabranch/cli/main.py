"""The command line: `anabranch run`, `compare`, `sweep`, `list`, `schema`, `lab`, and others."""

import errno
import os
import sys
from importlib.metadata import version
from typing import Annotated, Literal

import typer
from typer.core import TyperCommand

from anabranch.cli import (
    abi,
    diagnose,
    examples,
    experiments,
    notes,
    plot,
    run,
    sweep,
    tables,
    trace,
    ui,
)
from anabranch.cli.hints import with_way
from anabranch.cli.notes import App, note, say
from anabranch.cli.options import Json
from anabranch.cli.theory import equilibrium, guarantees, optimum, proofs, queueing
from anabranch.files import in_words
from anabranch.formats import short_numbers
from anabranch.rule import blamed
from anabranch.scenario import ScenarioError, couplings, rules, schema
from anabranch.theory.errors import NotConverged

try:
    from typer import TyperException
except ImportError:  # older versions of typer raise those of click
    from click import ClickException as TyperException  # type: ignore[assignment, no-redef, unused-ignore]

NOT_CONVERGED = 1
USAGE_ERROR = 2
INTERRUPTED = 130
READER_LEFT = 141
"""Exit code in shells of a process that SIGPIPE has ended."""
WORDS = {
    "Value error, ": "",
    "Input should be a valid integer, unable to parse string as an integer": "expected an integer",
    "Input should be a valid number, unable to parse string as a number": "expected a number",
    "Input should be": "expected a value",
}
"""Words of Typer's errors, which are Pydantic's in recent versions, and plainer ones."""


def _print_version(asked: bool) -> None:
    if asked:
        print(f"anabranch {version('anabranch')}")
        raise typer.Exit


app = App(
    no_args_is_help=True,
    context_settings={"help_option_names": ["--help", "-h"]},
    rich_markup_mode="rich",
    help="Congestion control over several paths: run scenarios, compare algorithms, reproduce "
    "papers.\n\nExit codes: 0 success, 1 a claim of a paper fails, an iteration does not "
    "converge or an algorithm of a comparison fails, 2 usage or scenario error, 129 and 143 ended "
    "by SIGHUP and SIGTERM, 130 interrupted, 141 the reader of stdout has left.",
)


@app.callback()
def options(
    _version: Annotated[
        bool,
        typer.Option(
            "--version", "-V", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    pass


run.register(app)
examples.register(app)
abi.register(app)
experiments.register(app)
sweep.register(app)
diagnose.register(app)
plot.register(app)
ui.register(app)
trace.register(app)


@app.command("list")
def list_command(as_json: Json = False) -> None:
    """List the algorithms with their parameters, ranges and sources.

    With --json: the whole table. An infinite number is the text "inf", as in balia:cap=inf.

    Examples:

        anabranch list

        anabranch list --json
    """
    if as_json:
        tables.print_json([tables.rule_as_dict(rule) for rule in rules()])
    else:
        tables.rules(rules())
        tables.couplings(couplings())


@app.command("schema")
def schema_command(
    what: Annotated[
        Literal["scenario", "result"],
        typer.Argument(help="Scenario files, or what run --json and compare --json print."),
    ] = "scenario",
) -> None:
    """Print the JSON Schema of scenario files, for editors, or of results.

    Examples:

        anabranch schema > scenario.schema.json

        anabranch schema result > result.schema.json
    """
    if what == "scenario":
        print(schema())
    else:
        from anabranch.result.schema import result_schema

        tables.print_json(result_schema())


@app.command(
    "lab",
    cls=TyperCommand,
    context_settings={
        "allow_extra_args": True,
        "allow_interspersed_args": False,
        "ignore_unknown_options": True,
        "help_option_names": [],
    },
)
def lab_command(context: typer.Context) -> None:
    """Real hosts: `lab shell`, `lab exec`, `lab check` of the program anabranch-lab (as root).

    Examples:

        anabranch lab check

        anabranch lab shell examples/two_links.toml two-path

        anabranch lab exec examples/two_links.toml server -- iperf3 -s
    """
    from anabranch import kernel

    try:
        program = kernel.program()
    except ScenarioError as error:
        if not {"--help", "-h"} & set(context.args):
            raise
        print(context.get_help())
        note(f"Each of these has --help of its own, but {error}")
        return
    os.execv(program, [program, *context.args])


theory = App(
    no_args_is_help=True,
    help="Study rules without packets: guarantees, equilibria, optima, queueing.",
)
for group in (guarantees, proofs, equilibrium, optimum, queueing):
    group.register(theory)
app.add_typer(theory, name="theory")


def main() -> None:
    """Entry point: every error that the user can correct is one line on stderr."""
    notes.can_resume("")
    notes.take_over()
    try:
        code = app(prog_name="anabranch", standalone_mode=False)
        sys.stdout.flush()
    except BrokenPipeError:
        tables.STDOUT.on_broken_pipe()
        code = READER_LEFT
    except SystemExit as ended:
        # Typer then ends a command whose reader has left.
        if not isinstance(ended.__context__, BrokenPipeError):
            raise
        code = READER_LEFT
    except TyperException as error:
        code = _report_error(_plain(error.format_message()))
    except OSError as error:
        code = _report_error(with_way(in_words(error)))
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO) and not error.filename:
            tables.STDOUT.on_broken_pipe()  # else what is left is written once more, at the end
    except (ScenarioError, UnicodeError) as error:
        code = _report_error(with_way(str(error)))
    except NotConverged as error:
        code = _report_error(str(error), NOT_CONVERGED)
    except (ValueError, TypeError, ArithmeticError, LookupError, AttributeError) as error:
        if not (words := blamed(error)):
            raise
        code = _report_error(words)
    except ImportError as error:
        # Ctrl-C while an extension module was being imported.
        if not isinstance(error.__cause__, KeyboardInterrupt):
            raise
        code = INTERRUPTED
    if tables.STDOUT.reader_left:
        code = code or READER_LEFT
    if code == INTERRUPTED:  # Typer's code for Ctrl-C
        number = notes.ended_by()
        words = f"ended by {number.name}" if number else "interrupted"
        say(f"anabranch: {words}{notes.resume_hint()}")
        code = 128 + number if number else code
    sys.exit(code)


def _plain(message: str) -> str:
    """An error of Typer, without the words of the library that checks values for it."""
    for words, meant in WORDS.items():
        message = message.replace(words, meant)
    return message


def _report_error(message: str, code: int = USAGE_ERROR) -> int:
    if message:  # empty where the help was printed because no command was given
        say(short_numbers(f"anabranch: {' '.join(message.split())}"))
    return code
