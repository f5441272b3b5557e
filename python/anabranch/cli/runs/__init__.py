"""What `run` and `compare` do and print."""
