"""Answers of a comparison: in words, against a measurement, against single paths."""
