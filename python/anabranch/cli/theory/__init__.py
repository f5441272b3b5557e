"""`anabranch theory`: rules without packets."""
