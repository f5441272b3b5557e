"""Balia's theorems 3.1 to 3.4 and its lemmas: random searches for a counterexample."""
