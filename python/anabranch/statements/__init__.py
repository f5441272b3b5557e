"""The statements of single papers, tested, and the finite ones proved."""
