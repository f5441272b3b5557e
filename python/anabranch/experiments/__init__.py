"""One engine for experiments: suites of items, their runs, decisions and reports."""
