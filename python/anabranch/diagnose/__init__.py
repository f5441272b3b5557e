"""Why several paths together carry less than they could, from the output of usual tools."""

from anabranch.diagnose.answer import Diagnosis, diagnose
from anabranch.diagnose.inputs import Evidence, gather

__all__ = ["Diagnosis", "Evidence", "diagnose", "gather"]
