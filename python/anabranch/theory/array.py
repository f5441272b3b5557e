"""The type of the columns and matrices of theory: NumPy arrays of floats, unless noted."""

import numpy as np

Array = np.ndarray
