"""The statements of I-TCP's paper: tails under processor sharing, and its adaptation."""
