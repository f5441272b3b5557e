"""Work and answers of `run` and `compare`."""
