"""TeX formulas as MathML in the pages."""

from docutils import nodes
from latex2mathml.converter import convert


def inline(writer, node):
    """A formula within a line."""
    writer.body.append(convert(node.astext()))
    raise nodes.SkipNode


def display(writer, node):
    """A formula on a line of its own."""
    writer.body.append(convert(node.astext(), display="block"))
    raise nodes.SkipNode
