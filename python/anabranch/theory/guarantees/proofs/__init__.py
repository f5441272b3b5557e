"""What a rule guarantees at all states: conditions as formulas over the reals, which are decided."""
