"""Bounds of a rule in the kernel's soft floats, for all inputs that its program can present."""
