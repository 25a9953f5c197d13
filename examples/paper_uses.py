"""What LinkedIn's activity log was made for, on Spark: click-through rates, abuse, news feeds, items that go together.

    python examples/paper_uses.py                     # on generated data, through a broker of its own
    python examples/paper_uses.py -b localhost:9092   # through yours

Each use is a function on frames: the same on a batch and, where it says so, on a stream.
"""

import argparse
import json
import random
from collections.abc import Iterator
from contextlib import ExitStack

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from tidelog import Admin, Producer
from tidelog import spark as ts
from tidelog.testing.local_broker import LocalBroker

BEGAN_MS = 1_700_000_000_000 - 1_700_000_000_000 % 3_600_000
SCHEMAS = {
    "impressions": "impression bigint, item string",
    "clicks": "impression bigint, item string",
    "actions": "member bigint, action string, item string",
    "connections": "member bigint, friends array<bigint>",
}


def click_through(impressions: DataFrame, clicks: DataFrame, window: str) -> DataFrame:
    """Of how many impressions of an item in a window came a click within half an hour; also on streams, in append mode."""
    seen = ts.join_streams(
        impressions, clicks, "impression", within="30 minutes", late="1 minute", how="left"
    )
    marked = seen.withColumn("clicked", F.col("right_item").isNotNull().cast("int"))
    counted = ts.windowed(marked, window, by=["item"], sums=["clicked"], late="1 minute")
    return counted.withColumn("rate", F.round(F.col("sum_clicked") / F.col("count"), 4))


def abuse(actions: DataFrame, most: int) -> DataFrame:
    """Members with more than so many actions in any minute, however minutes are cut; also on streams."""
    counted = ts.windowed(actions, "1 minute", slide="10 seconds", by=["member"], late="1 minute")
    return counted.where(F.col("count") > most)


def news_feed(actions: DataFrame, connections: DataFrame, most: int) -> DataFrame:
    """For each member the newest actions of those that they are connected with."""
    friends = connections.select(
        F.col("member").alias("reader"), F.explode("friends").alias("member")
    )
    newest = Window.partitionBy("reader").orderBy(F.desc("timestamp"), F.desc("item"), "member")
    feed = actions.join(friends, "member").withColumn("place", F.row_number().over(newest))
    return feed.where(F.col("place") <= most).select(
        "reader", "place", "member", "action", "item", "timestamp"
    )


def together(actions: DataFrame, least: int) -> DataFrame:
    """Pairs of items that at least so many members have looked at within one session of theirs."""
    visits = actions.groupBy(F.session_window("timestamp", "30 minutes"), "member").agg(
        F.array_sort(F.collect_set("item")).alias("items")
    )
    one = visits.select("member", F.posexplode("items").alias("place", "item"), "items")
    pairs = one.select(
        "member", "item", F.expr("explode(slice(items, place + 2, 100))").alias("other")
    )
    counted = pairs.groupBy("item", "other").agg(F.countDistinct("member").alias("members"))
    return counted.where(F.col("members") >= least)


def generate(seed: int, events: int) -> dict[str, list[tuple[int, dict[str, object]]]]:
    """Messages of each topic with their times; one member is a robot."""
    dice = random.Random(seed)
    made: dict[str, list[tuple[int, dict[str, object]]]] = {name: [] for name in SCHEMAS}
    for number in range(events):
        at = BEGAN_MS + number * 250
        item = f"item-{min(dice.randrange(20), dice.randrange(20))}"
        made["impressions"].append((at, {"impression": number, "item": item}))
        if dice.random() < 0.1:
            later = at + dice.randrange(1_000, 60_000)
            made["clicks"].append((later, {"impression": number, "item": item}))
        member = 13 if 400 <= number < 520 and number % 2 else dice.randrange(100, 160)
        act = {"member": member, "action": dice.choice(["view", "like", "share"]), "item": item}
        made["actions"].append((at, act))
    for member in range(100, 160):
        friends = sorted(dice.sample([each for each in range(100, 160) if each != member], 5))
        made["connections"].append((BEGAN_MS, {"member": member, "friends": friends}))
    return made


def publish(bootstrap: str, made: dict[str, list[tuple[int, dict[str, object]]]]) -> None:
    with Admin(bootstrap_servers=bootstrap) as admin:
        there = set(admin.list_topics())
        admin.create_topics({name: 2 for name in made if name not in there})
    with Producer(bootstrap_servers=bootstrap) as producer:
        for topic, messages in made.items():
            for at, value in messages:
                key = str(next(iter(value.values()))).encode()
                producer.send(topic, json.dumps(value).encode(), key=key, timestamp=at)


def read(spark: SparkSession, bootstrap: str, topic: str) -> DataFrame:
    """A topic's JSON as columns."""
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic}
    return ts.fields(spark.read.format("tidelog").options(**options).load(), SCHEMAS[topic])


def uses(spark: SparkSession, bootstrap: str) -> Iterator[tuple[str, DataFrame]]:
    """All of them."""
    topics = {name: read(spark, bootstrap, name) for name in SCHEMAS}
    people = ts.latest(
        spark, "connections", {"bootstrap.servers": bootstrap}, SCHEMAS["connections"]
    )
    rates = click_through(topics["impressions"], topics["clicks"], "5 minutes")
    yield "click-through rate by item and five minutes", rates.orderBy(F.desc("rate"), "item")
    yield "more than 60 actions in a minute", abuse(topics["actions"], 60).orderBy("window_start")
    feed = news_feed(topics["actions"], people, 3)
    yield "news for the first members", feed.orderBy("reader", "place")
    pairs = together(topics["actions"], 2)
    yield "items that go together", pairs.orderBy(F.desc("members"), "item", "other")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-b", "--bootstrap", metavar="HOST:PORT", help="a broker (one is started)")
    parser.add_argument("--events", type=int, default=5_000)
    parser.add_argument("--master", default="local[2]")
    arguments = parser.parse_args()
    with ExitStack() as stack:
        bootstrap = arguments.bootstrap or stack.enter_context(LocalBroker()).bootstrap
        publish(bootstrap, generate(1, arguments.events))
        few = {"spark.sql.shuffle.partitions": "2", "spark.log.level": "ERROR"}
        spark = ts.session("uses", arguments.master, **few)
        stack.callback(spark.stop)
        for title, frame in uses(spark, bootstrap):
            print(f"\n{title}")
            frame.show(8, truncate=False)


if __name__ == "__main__":
    main()
