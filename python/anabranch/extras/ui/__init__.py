"""The local page: `anabranch ui` (docs/how-to/ui.md). Needs the extra `ui`."""
