"""Reports as self-contained HTML files: no scripts, fonts or other hosts."""

import jinja2

from anabranch.figures.network_svg import topology
from anabranch.formats import number, percent
from anabranch.papers.judge import Verdict
from anabranch.papers.report import Report, measured
from anabranch.papers.summary import NEAR, Summary, cells
from anabranch.papers.svg import Pictures

OPEN = 12
"""Tables with at most so many numbers are not folded."""


def html(report: Report) -> str:
    """The page of one paper; the same report gives the same bytes."""
    pictures = Pictures(report)
    figures = {item.id: pictures.item(item) for item in report.items}
    networks = {name: topology(network) for name, network in report.networks.items()}
    return _page(
        "report.html.j2",
        report=report,
        figures=figures,
        diagonal=pictures.diagonal(),
        OPEN=OPEN,
        networks=networks,
        colours=pictures.colours,
    )


def index(summary: Summary) -> str:
    """The index page with links to the pages of all papers."""
    total = sum(summary.score.counts.values())
    columns = [*Verdict, *NEAR]
    return _page("index.html.j2", summary=summary, total=total, columns=columns, colours=[])


def _page(template: str, **values: object) -> str:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("anabranch.papers", package_path=""),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {
        "number": number,
        "percent": percent,
        "measured": measured,
        "cells": cells,
    }
    return environment.get_template(template).render(**values)
