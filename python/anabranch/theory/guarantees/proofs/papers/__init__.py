"""Finite statements of the papers, proved or refuted by the solvers, and the list of them."""
