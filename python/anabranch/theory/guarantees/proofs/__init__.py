"""What a rule guarantees at all states: formulas over the reals that solvers decide."""
