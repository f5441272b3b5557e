"""Networks and traces in the forms of other programs and of public data sets."""
