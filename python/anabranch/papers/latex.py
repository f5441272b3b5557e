"""The tables of a report for LaTeX."""

import pandas as pd

from anabranch.formats import latex_table, number, percent
from anabranch.papers.report import Item, Report, measured


def latex(report: Report) -> str:
    """A table of booktabs for each table and figure of the paper, below a comment with its title.

    The numbers are those of the page: published, measured with half the 95 % interval, difference,
    theory.
    """
    items = [item for item in report.in_order if item.tables]
    return "\n".join(f"% {item.title} ({item.place})\n{_table(report, item)}" for item in items)


def _table(report: Report, item: Item) -> str:
    theories = report.theories(item)
    header = ["metric", "case", "published", "measured", "difference", *map(report.label, theories)]
    rows = [
        [
            report.label(table.metric),
            report.label(row.case),
            number(row.published),
            measured(row),
            percent(row.difference),
            *(number(row.theory.get(name)) for name in theories),
        ]
        for table in item.tables
        for row in table.rows
    ]
    return latex_table(pd.DataFrame(rows, columns=header))
