"""Sweeps: a scenario over many values, stored point by point, on one machine or on a cluster."""
