"""The tables of a stored sweep open in pandas, polars, DuckDB and xarray."""

from pathlib import Path

import pandas as pd
import pytest

import anabranch

RATES, DELAYS = [5, 10], [1.5, 20.0]


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store of a sweep over two keys, two algorithms and two seeds."""
    from conftest import SMALL

    folder = tmp_path_factory.mktemp("stored")
    (folder / "small.toml").write_text(SMALL)
    grid = {"links.R1.rate_mbps": RATES, "links.R2.delay_ms": DELAYS}
    anabranch.sweep(folder / "small.toml", grid, ["lia", "olia"], seeds=2, out=folder / "out")
    return folder / "out"


def test_pandas(stored: Path) -> None:
    totals = pd.read_parquet(stored / "totals.parquet")
    assert len(totals) == 16
    flows = pd.read_parquet(stored / "flows.parquet")
    keys = ["links.R1.rate_mbps", "links.R2.delay_ms", "algorithm", "seed"]
    sums = flows.groupby(keys, sort=False)["goodput_mbps"].sum().to_numpy()
    assert totals["total_goodput_mbps"].to_numpy() == pytest.approx(sums)
    text = pd.Series(["lia"]).dtype  # object before pandas 3
    assert [flows[key].dtype for key in keys] == ["int64", "float64", text, "int64"]


def test_polars(stored: Path) -> None:
    polars = pytest.importorskip("polars")
    totals = polars.read_parquet(stored / "totals.parquet")
    means = totals.group_by("algorithm").agg(polars.col("total_goodput_mbps").mean())
    expected = pd.read_parquet(stored / "totals.parquet").groupby("algorithm")
    for algorithm, mean in means.iter_rows():
        assert mean == pytest.approx(expected.get_group(algorithm)["total_goodput_mbps"].mean())


def test_duckdb(stored: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as connection:
        rows = connection.execute(
            f"""select "links.R1.rate_mbps", count(*), max(utilization)
            from '{stored}/links.parquet' where link = 'R1' group by 1 order by 1"""
        ).fetchall()
    links = pd.read_parquet(stored / "links.parquet")
    most = links[links["link"] == "R1"].groupby("links.R1.rate_mbps")["utilization"].max()
    assert rows == [(5, 8, most[5]), (10, 8, most[10])]


def test_xarray(stored: Path) -> None:
    pytest.importorskip("xarray")
    totals = pd.read_parquet(stored / "totals.parquet")
    keys = ["links.R1.rate_mbps", "links.R2.delay_ms", "algorithm", "seed"]
    cube = totals.set_index(keys).to_xarray()
    assert dict(cube.sizes) == dict.fromkeys(keys, 2)
    one = cube["jain_index"].sel(
        {"links.R1.rate_mbps": 10, "links.R2.delay_ms": 1.5, "algorithm": "olia", "seed": 2}
    )
    row = totals[
        (totals["links.R1.rate_mbps"] == 10)
        & (totals["links.R2.delay_ms"] == 1.5)
        & (totals["algorithm"] == "olia")
        & (totals["seed"] == 2)
    ]
    assert float(one) == row["jain_index"].item()
