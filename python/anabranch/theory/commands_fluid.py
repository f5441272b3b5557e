"""`anabranch theory equilibrium` and `packets`."""

import json
import shutil
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anabranch import show
from anabranch.files import staged

if TYPE_CHECKING:
    from anabranch.theory.packets import Comparison

# Theory and Matplotlib are imported where they are used: the command line starts without them.

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
