"""Does a second path harm? Every rule beside the best single path, over a grid of networks."""
