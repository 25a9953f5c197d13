"""Writes the tables of docs/reliability.md from the results of chaos runs; what stands above them is written by hand."""

import json
from pathlib import Path
from statistics import median
from typing import Any

_BEHIND = "<!-- What follows is written by `make chaos`. -->\n"


def write_report(results: Path, page: Path) -> None:
    """Put a part for each result into the page, in the place of those of the last run."""
    above, mark, _ = page.read_text().partition(_BEHIND)
    assert mark, f"{page} does not say where the results of chaos belong: {_BEHIND!r}"
    parts = [_part(json.loads(path.read_text())) for path in sorted(results.glob("chaos-*.json"))]
    page.write_text("\n".join([above + mark, *parts]))


def _part(result: dict[str, Any]) -> str:
    names = ["acknowledged", "not acknowledged", "lost", "duplicated", "reordered"]
    names.append("unseen by its group")
    lines = [
        f"### Metadata in {'ZooKeeper (three servers)' if result['metastore'] == 'zookeeper' else 'SQLite'}",
        "",
        f"Seed {result['seed']}, {result['seconds']} s, {len(result['faults'])} faults, "
        f"broker session timeout {result['session timeout ms'] / 1000:g} s.",
        "",
        "| client | " + " | ".join(names) + " |",
        "|---" * (len(names) + 1) + "|",
    ]
    for client, book in result["clients"].items():
        lines.append(f"| {client} | " + " | ".join(f"{book[name]:,}" for name in names) + " |")
    lines += [
        "",
        "A message that was not acknowledged was given up by its client after its own time-out; it may have been written.",
        "",
        "| fault | times | acknowledged during it | lost | duplicated | reordered | served again: median | longest | all in sync: median |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    kinds: dict[str, list[dict[str, Any]]] = {}
    for fault in result["faults"]:
        kinds.setdefault(fault["kind"], []).append(fault)
    for kind, faults in sorted(kinds.items()):
        counts = [
            f"{sum(each['books'].get(name, 0) for each in faults):,}"
            for name in ("acknowledged", "lost", "duplicated", "reordered")
        ]
        served = [each["recovered_s"] for each in faults]
        whole = [each["whole_s"] for each in faults]
        lines.append(
            f"| {kind} | {len(faults)} | {' | '.join(counts)} | {median(served):.1f} s "
            f"| {max(served):.1f} s | {median(whole):.1f} s |"
        )
    lines += [
        "",
        "*Served again* is the time from the beginning of a fault until every partition has acknowledged something sent since; "
        "for a fault that stops no partition (a follower, a metastore) that is the time of one write. A broker that stands still "
        "(SIGSTOP) costs most clients up to their request time-out, 30 s by default, before they ask another; tidelog's ask after "
        "two seconds, and leave it when its session is over. A leader whom the others cannot reach, but who reaches the metastore, keeps leading, and `acks=all` waits until the network is mended, "
        "as in Kafka.",
        "",
    ]
    return "\n".join(lines)
