"""Guarantees of a rule: conditions on its law, tested on states, and proofs."""
