"""The statements of Balia's paper on conditions, equilibria and their properties."""
