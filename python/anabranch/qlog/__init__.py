"""Qlog files: what a run samples of each path as events, and events of any sender as tables."""

from anabranch.qlog.tables import read
from anabranch.qlog.writing import write

__all__ = ["read", "write"]
