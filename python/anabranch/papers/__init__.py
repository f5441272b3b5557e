"""Reproduce papers: read a folder, run its experiments, judge its claims, write a report."""
