"""Theory: from a rule to its equilibrium, its guarantees and the optimum."""
