"""`anabranch theory`: what can be said of a rule without packets."""

import typer

from anabranch.cli import equilibrium, guarantees, optimum, queueing

app = typer.Typer(
    no_args_is_help=True,
    help="What can be said of a rule without packets, and whether packets agree.",
)
guarantees.register(app)
equilibrium.register(app)
optimum.register(app)
queueing.register(app)
