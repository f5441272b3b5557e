"""Fluid models of a network and their equilibria, and how they compare with packets."""
