"""The statements of the RSF paper: a game in which paths seek rent."""
