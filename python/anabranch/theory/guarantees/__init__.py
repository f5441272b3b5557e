"""What a rule guarantees: conditions on its law, tested on states; statements and limits."""
