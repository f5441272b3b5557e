"""Reproducing papers: read a folder, run it, judge its claims, write the report."""
