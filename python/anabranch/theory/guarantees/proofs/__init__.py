"""Guarantees of a rule at all states: formulas over the reals that solvers decide."""
