"""What a comparison answers: in words, against a measurement, against single paths."""
