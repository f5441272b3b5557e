"""The command line: `anabranch run`, `compare`, `reproduce`, `agree`, `theory`, ..."""
