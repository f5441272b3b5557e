"""Optimal rates of a network, fixed points of loss-based rules, distance from the optimum."""
