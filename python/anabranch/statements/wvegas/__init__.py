"""The statements of wVegas' paper: its iterations for the optimum."""
