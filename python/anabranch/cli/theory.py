"""`anabranch theory`: the study of rules without packets."""

import typer

from anabranch.cli import equilibrium, guarantees, optimum, queueing

app = typer.Typer(
    no_args_is_help=True,
    help="Study rules without packets: guarantees, equilibria, optima, queueing.",
)
guarantees.register(app)
equilibrium.register(app)
optimum.register(app)
queueing.register(app)
