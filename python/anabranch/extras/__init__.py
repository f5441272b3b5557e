"""Optional parts, each with an extra: `ui`, `topology`, and `dask` for the cluster."""
