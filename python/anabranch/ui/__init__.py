"""The local page: `anabranch ui` (docs/ui.md). Needs the extra `ui`."""
