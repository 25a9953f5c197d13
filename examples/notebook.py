# %% [markdown]
# # A topic as a table
#
# Cells are marked with `# %%`: open this file in VS Code, PyCharm or Spyder, or with Jupyter through jupytext, and run them one by
# one; or run all of it with `python examples/notebook.py`. It needs a broker (`tidelog serve`) at `TIDELOG_BOOTSTRAP`, else at
# 127.0.0.1:9092, and `pip install 'tidelog[arrow]' polars duckdb matplotlib`.

# %%
import json
import math
import os
import random
import time
from pathlib import Path

import duckdb
import matplotlib
import polars as pl

import tidelog

BOOTSTRAP = os.environ.get("TIDELOG_BOOTSTRAP", "127.0.0.1:9092")
TOPIC = os.environ.get("TOPIC", f"orders-{time.time_ns()}")
PLOT = Path(os.environ.get("PLOT", "orders.png"))

# %% [markdown]
# ## Produce
#
# An hour of orders from four shops, busier in the middle of it, each with the time at which it was made.

# %%
now_ms = int(time.time() * 1000)
chance = random.Random(7)

with tidelog.Admin(bootstrap_servers=BOOTSTRAP) as admin:
    admin.create_topics({TOPIC: 4})

with tidelog.Producer(bootstrap_servers=BOOTSTRAP, compression_type="zstd") as producer:
    for minute in range(60):
        for _ in range(int(50 + 40 * math.sin(math.pi * minute / 60))):
            shop = chance.choice(["north", "east", "south", "west"])
            order = {"shop": shop, "amount": round(chance.expovariate(1 / 40), 2)}
            at = now_ms - (60 - minute) * 60_000 + chance.randrange(60_000)
            producer.send(TOPIC, json.dumps(order).encode(), key=shop.encode(), timestamp=at)

# %% [markdown]
# ## Read the last half hour
#
# The bounds are turned into offsets by the brokers: what is older is not even fetched. Only the columns that are asked for are
# decoded, straight into Arrow's buffers.

# %%
recent = tidelog.read(
    TOPIC, since="30m", columns=["timestamp", "key", "value"], bootstrap=BOOTSTRAP
)
print(recent.schema)
print(f"{recent.num_rows:,} orders")

# %% [markdown]
# ## Polars
#
# From Arrow without a copy; the values are JSON, so they become columns.

# %%
orders = pl.from_arrow(recent).with_columns(
    pl.col("key").cast(pl.String).alias("shop"),
    pl.col("value")
    .cast(pl.String)
    .str.json_path_match("$.amount")
    .cast(pl.Float64)
    .alias("amount"),
)
by_shop = (
    orders.group_by("shop")
    .agg(pl.len().alias("orders"), pl.col("amount").sum().round(2).alias("revenue"))
    .sort("shop")
)
print(by_shop)

# %% [markdown]
# ## DuckDB
#
# SQL over the same table, by its name in Python.

# %%
by_minute = duckdb.sql(
    """
    select date_trunc('minute', timestamp) as minute,
           count(*) as orders,
           sum((decode(value)::json->>'amount')::double) as revenue
    from recent group by 1 order by 1
    """
).fetchall()
print(f"{len(by_minute)} minutes, the best brought {max(row[2] for row in by_minute):,.2f}")

# %% [markdown]
# A topic that is larger than memory goes through DuckDB as a stream of batches.

# %%
stream = tidelog.scan(TOPIC, columns=["key"], bootstrap=BOOTSTRAP)
busiest = duckdb.sql(
    "select decode(key) as shop, count(*) as orders from stream group by 1 order by 2 desc"
).fetchall()
print(f"busiest of the whole hour: {busiest[0][0]} with {busiest[0][1]} orders")

# %% [markdown]
# ## Plot

# %%
matplotlib.use("Agg")  # into a file; leave it out to see the plot in a notebook
from matplotlib import pyplot as plt  # noqa: E402

figure, axes = plt.subplots(figsize=(8, 3))
axes.bar([row[0] for row in by_minute], [row[2] for row in by_minute], width=0.0006)
axes.set_title("Revenue a minute")
axes.tick_params(axis="x", rotation=30)
figure.tight_layout()
figure.savefig(PLOT)
print(f"the plot is in {PLOT}")
