"""What data libraries read a dataset of Parquet with, as one rank: run.py starts it.

    python tests/clients/readers.py CLIENT FOLDER

Every client lists and reads FOLDER with its own calls, as programs do that know nothing of
libshard. The values of column `id` that it has found are printed as JSON, in order.
"""
import json
import os
import sys

os.environ.setdefault("HF_HUB_OFFLINE", "1")
PATTERN = "**/*.parquet"


def pyarrow_dataset(folder):
    """pyarrow.dataset: Arrow's own walk, in C++."""
    import pyarrow.dataset
    return pyarrow.dataset.dataset(folder, format="parquet").to_table()["id"].to_pylist()


def pandas(folder):
    """pandas.read_parquet of a folder."""
    import pandas as pd
    return pd.read_parquet(folder)["id"].tolist()


def duckdb(folder):
    """DuckDB's read_parquet('**')."""
    import duckdb as db
    rows = db.execute("SELECT id FROM read_parquet(?)", [os.path.join(folder, PATTERN)])
    return [row[0] for row in rows.fetchall()]


def polars(folder):
    """Polars' scan_parquet: Rust's walk."""
    import polars as pl
    return pl.scan_parquet(os.path.join(folder, PATTERN)).collect()["id"].to_list()


def dask(folder):
    """Dask's read_parquet."""
    import dask.dataframe as dd
    return dd.read_parquet(os.path.join(folder, PATTERN))["id"].compute().tolist()


def datasets(folder):
    """Hugging Face datasets, which copies what it finds into a cache that all ranks share."""
    import datasets as hf
    return list(hf.load_dataset("parquet", data_dir=folder, split="train")["id"])


def datasets_streamed(folder):
    """Hugging Face datasets, streamed."""
    import datasets as hf
    rows = hf.load_dataset("parquet", data_dir=folder, split="train", streaming=True)
    return [row["id"] for row in rows]


def fsspec(folder):
    """fsspec's glob."""
    import fsspec as fs
    import pyarrow.parquet
    files = fs.filesystem("file").glob(os.path.join(folder, PATTERN))
    return [value for file in files for value in pyarrow.parquet.read_table(file)["id"].to_pylist()]


# By name: the package, and how it reads.
CLIENTS = {
    "pyarrow.dataset": ("pyarrow", pyarrow_dataset),
    "pandas": ("pandas", pandas),
    "duckdb": ("duckdb", duckdb),
    "polars": ("polars", polars),
    "dask": ("dask", dask),
    "datasets": ("datasets", datasets),
    "datasets-streamed": ("datasets", datasets_streamed),
    "fsspec": ("fsspec", fsspec),
}


def main():
    """Read with one client."""
    name, folder = sys.argv[1:]
    print(json.dumps(sorted(CLIENTS[name][1](folder))), flush=True)
    if name == "datasets-streamed":
        # Its threads are not joined: on a busy machine one of thirty processes aborts at its end
        # ("terminate called without an active exception"), bare, too, when all has been read.
        os._exit(0)


if __name__ == "__main__":
    main()
