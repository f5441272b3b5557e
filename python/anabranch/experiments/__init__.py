"""Pieces that the engines of experiments share: papers, studies and the judge."""
