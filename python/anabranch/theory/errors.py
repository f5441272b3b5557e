"""The exception of theory, besides `ScenarioError`."""


class NotConverged(Exception):
    """An iteration stopped with a residual above its tolerance; the message names the residual."""

    def __init__(self, message: str, residual: float) -> None:
        super().__init__(message)
        self.residual = residual
