"""SVG files are small and show the same."""

from pathlib import Path
from xml.etree import ElementTree

from matplotlib.figure import Figure

from anabranch.figures import style
from anabranch.figures.compact import compact

IMAGES = Path(__file__).parents[2] / "docs" / "img"


def test_the_figures_of_the_documentation_are_small() -> None:
    sizes = {file.name: file.stat().st_size for file in IMAGES.iterdir()}
    assert "two-against-one-kernel.svg" in sizes
    assert {name: size for name, size in sizes.items() if size > 180_000} == {}


def test_repeated_styles_become_classes_and_only_ids_in_use_remain() -> None:
    use = '<use href="#mark" x="1.239" style="fill: red"/>'
    group = '<g clip-path="url(#c)"/><g/>'
    svg = f'<svg><style></style><g id="a">{group}<path id="mark" d="M 0 0"/>{use * 4}</g></svg>'
    short = '<use href="#i1" x="1.24" class="s0"/>'
    path = '<g clip-path="url(#i0)"/><path id="i1" d="M 0 0"/>'
    assert compact(svg) == f"<svg><style>.s0{{fill: red}}</style>{path}{short * 4}</svg>"


def test_a_line_keeps_its_corners_and_curves_stay() -> None:
    line = '<path d="M 1 1 L 2 1 L 3 1 L 3 2 L 4 3 z"/>'
    assert compact(line) == '<path d="M 1 1 3 1 3 2 4 3 z"/>'
    repeated = '<path d="M 1 1 L 3 1 L 3.01 1 L 3 9"/>'
    assert compact(repeated) == '<path d="M 1 1 3 1 3 9"/>'
    curve = '<path d="M 1 1 Q 2 1 3 1 L 4 1"/>'
    assert compact(curve) == curve


def test_a_saved_figure_is_a_document_of_its_size(tmp_path: Path) -> None:
    figure = Figure(figsize=(2, 1))
    figure.add_subplot().contourf([[3, 1], [1, 2]]).set_rasterized(True)
    style.save(figure, tmp_path / "it")
    root = ElementTree.parse(tmp_path / "it.svg").getroot()
    assert (root.get("width"), root.get("height")) == ("144pt", "72pt")
