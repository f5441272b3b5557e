"""What theory raises, besides `ScenarioError`."""


class NotConverged(Exception):
    """An iteration stopped before its residual was small; the message says both."""

    def __init__(self, message: str, residual: float) -> None:
        super().__init__(message)
        self.residual = residual
