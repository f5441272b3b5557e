"""`anabranch theory`: what can be said of a rule without packets."""

import typer

from anabranch.theory import (
    commands_check,
    commands_fluid,
    commands_optimum,
    commands_queueing,
)

app = typer.Typer(
    no_args_is_help=True,
    help="What can be said of a rule without packets, and whether packets agree.",
)
commands_check.register(app)
commands_fluid.register(app)
commands_optimum.register(app)
commands_queueing.register(app)
