"""RFC 9743 as a program: what a rule shows, item by item, with counterexamples that run."""
