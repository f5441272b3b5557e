"""The command line: `anabranch run`, `compare`, `reproduce`, `agree`, `theory`, ..."""

import os
import sys

# Closed streams, as by `>&-`, are None. In their order, because a file gets the lowest descriptor
# that is free: a table would else be written where a library prints.
for _name, _mode in ("stdin", "r"), ("stdout", "w"), ("stderr", "w"):
    if getattr(sys, _name) is None:
        setattr(sys, _name, open(os.devnull, _mode, encoding="utf-8"))  # noqa: SIM115
