"""The OLIA draft's report of its own printed numbers, for several files of tests."""

from functools import cache

import pandas as pd

from anabranch.papers import folder, html
from anabranch.papers.report import Report, report_of
from anabranch.statements.papers import statements_of
from anabranch.statements.statement import Statement


def olia_frame(factor: float = 1.0, spread: float = 1e-4) -> pd.DataFrame:
    """The numbers printed in the OLIA draft times a factor, as if measured with two seeds.

    They are the fraction `spread` above and below.
    """
    rows = [
        {"item": id, "metric": metric, "case": case, "seed": seed, "value": value * factor * by}
        for id, item in folder.open_paper("olia").items.items()
        for metric, printed in item.printed.items()
        for case, value in printed.published.items()
        for seed, by in ((1, 1 - spread), (2, 1 + spread))
    ]
    return pd.DataFrame(rows)


@cache
def olia_statements() -> list[Statement]:
    return statements_of("olia", quick=True)


def olia(factor: float = 1.0, spread: float = 1e-4) -> Report:
    paper, frame = folder.open_paper("olia"), olia_frame(factor, spread)
    return report_of(paper, frame, {}, quick=True, statements=olia_statements())


@cache
def olia_page() -> str:
    return html.html(olia(1.1, spread=0.01))
