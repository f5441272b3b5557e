"""Figures (Matplotlib): one style, and a module for each subject."""
