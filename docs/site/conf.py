"""Sphinx' configuration of the documentation site, which `build.py` runs."""

from docutils import nodes
from latex2mathml.converter import convert

import anabranch

project = "Anabranch"
author = copyright = "The Anabranch authors"
version = release = anabranch.__version__

extensions = ["myst_parser"]
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 4
highlight_language = "none"
smartquotes = False  # `--option` stays as it is written
pygments_style = "default"

html_theme = "pydata_sphinx_theme"
html_title = f"{project} {version}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_math_renderer = "mathml"
templates_path = ["templates"]
html_sidebars = {"index": [], "search": [], "genindex": []}
html_theme_options = {
    "logo": {"text": project},
    "navbar_align": "left",
    "navbar_end": ["version", "theme-switcher"],
    "navbar_persistent": ["search-button"],
    "header_links_before_dropdown": 6,
    "secondary_sidebar_items": {"**": ["page-toc"], "index": []},
    "show_prev_next": True,
    "show_nav_level": 1,
    "navigation_depth": 2,
    "footer_start": ["copyright"],
    "footer_center": ["version"],
    "footer_end": ["sphinx-version"],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}


def mathml(display):
    """A writer of formulas, which browsers draw themselves: no scripts, no fonts."""

    def visit(writer, node):
        writer.body.append(convert(node.astext(), display=display))
        raise nodes.SkipNode

    return visit, None


def setup(app):
    """Formulas are MathML."""
    app.add_html_math_renderer("mathml", mathml("inline"), mathml("block"))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
