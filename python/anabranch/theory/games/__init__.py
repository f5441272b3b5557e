"""The rent-seeking game of the RSF paper."""
