"""The types of a paper's folder: one frozen dataclass per kind of entry, and their reader."""
