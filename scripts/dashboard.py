"""Write docs/grafana-dashboard.json, the dashboard for Grafana, from the table below; with --check, only say whether it is old.

A panel is a title, a unit and its queries.  `{job}` is replaced by the filter on the job and the broker that are chosen at the top of
the page.
"""

import json
import sys
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[1] / "docs" / "grafana-dashboard.json"

Query = tuple[str, str]
"""PromQL, and the legend."""
Panel = tuple[str, str, list[Query]]
"""Title, unit, queries."""


def _rate(name: str, by: str, where: str = "") -> str:
    return f"sum by ({by}) (rate({name}{{{where}{{job}}}}[$__rate_interval]))"


_TIME = 'kafka_network_requestmetrics_{phase}{{request=~"Produce|FetchConsumer",quantile="0.99",{{job}}}}'
_TOPICS = 'topic!="",'

ROWS: list[tuple[str, list[Panel]]] = [
    (
        "Is it well?",
        [
            ("Controllers (should be 1)", "stat", [("sum(kafka_controller_kafkacontroller_activecontrollercount{{job}})", "")]),
            ("Partitions without a leader (0)", "stat", [("sum(kafka_controller_kafkacontroller_offlinepartitionscount{{job}})", "")]),
            ("Under-replicated partitions (0)", "stat", [("sum(kafka_server_replicamanager_underreplicatedpartitions{{job}})", "")]),
            ("Below min.insync.replicas (0)", "stat", [("sum(kafka_server_replicamanager_underminisrpartitioncount{{job}})", "")]),
            ("Log directories that failed (0)", "stat", [("sum(kafka_log_logmanager_offlinelogdirectorycount{{job}})", "")]),
            ("Brokers", "stat", [("max(kafka_controller_kafkacontroller_activebrokercount{{job}})", "")]),
        ],
    ),
    (
        "Traffic",
        [
            ("Messages in", "cps", [(_rate("kafka_server_brokertopicmetrics_messagesin_total", "topic", _TOPICS), "{{topic}}")]),
            ("Bytes in", "Bps", [(_rate("kafka_server_brokertopicmetrics_bytesin_total", "topic", _TOPICS), "{{topic}}")]),
            ("Bytes out", "Bps", [(_rate("kafka_server_brokertopicmetrics_bytesout_total", "topic", _TOPICS), "{{topic}}")]),
            (
                "Replication",
                "Bps",
                [
                    (_rate("kafka_server_brokertopicmetrics_replicationbytesin_total", "instance", 'topic="",'), "in {{instance}}"),
                    (_rate("kafka_server_brokertopicmetrics_replicationbytesout_total", "instance", 'topic="",'), "out {{instance}}"),
                ],
            ),
            (
                "Refused",
                "cps",
                [
                    (_rate("kafka_server_brokertopicmetrics_failedproducerequests_total", "topic", _TOPICS), "produce {{topic}}"),
                    (_rate("kafka_server_brokertopicmetrics_failedfetchrequests_total", "topic", _TOPICS), "fetch {{topic}}"),
                ],
            ),
            ("Errors", "cps", [(_rate("kafka_network_requestmetrics_errors_total", "request, error"), "{{request}} {{error}}")]),
        ],
    ),
    (
        "Requests",
        [
            ("Requests", "reqps", [(_rate("kafka_network_requestmetrics_requests_total", "request"), "{{request}}")]),
            ("Time of a request, p99", "ms", [('kafka_network_requestmetrics_totaltimems{quantile="0.99",{job}}', "{{instance}} {{request}}")]),
            (
                "Where the time goes, p99 of Produce and FetchConsumer",
                "ms",
                [
                    (_TIME.format(phase=phase), f"{title} {{{{request}}}}")
                    for phase, title in (
                        ("requestqueuetimems", "queue"),
                        ("localtimems", "local"),
                        ("remotetimems", "remote"),
                        ("throttletimems", "throttle"),
                        ("responsequeuetimems", "response queue"),
                        ("responsesendtimems", "send"),
                    )
                ],
            ),
            (
                "Who waits",
                "short",
                [
                    ("kafka_server_delayedoperationpurgatory_purgatorysize{{job}}", "{{instance}} {{delayedoperation}}"),
                    ("tidelog_requests_in_flight{{job}}", "{{instance}} in flight"),
                ],
            ),
            ("Idle share of the event loop", "percentunit", [("kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent{{job}}", "{{instance}}")]),
            ("Lag of the event loop, p99", "s", [("histogram_quantile(0.99, sum by (le, instance) (rate(tidelog_eventloop_lag_seconds_bucket{{job}}[$__rate_interval])))", "{{instance}}")]),
            ("Throttled", "cps", [(_rate("tidelog_requests_throttled_total", "request"), "{{request}}")]),
            ("Held back by quotas, seconds a second", "short", [(_rate("tidelog_quota_delayed_seconds_total", "quota, user, client_id"), "{{quota}} {{user}} {{client_id}}")]),
        ],
    ),
    (
        "Groups",
        [
            ("Lag in seconds", "s", [("max by (consumergroup, topic) (kafka_consumergroup_lag_seconds{{job}})", "{{consumergroup}} {{topic}}")]),
            ("Lag in messages", "short", [("sum by (consumergroup, topic) (kafka_consumergroup_lag{{job}})", "{{consumergroup}} {{topic}}")]),
            ("Data at risk: overtaken by retention in", "s", [("min by (consumergroup, topic) (tidelog_consumergroup_overtaken_in_seconds{{job}})", "{{consumergroup}} {{topic}}")]),
            ("Lost to retention", "short", [("sum by (consumergroup, topic) (tidelog_consumergroup_lost_messages{{job}})", "{{consumergroup}} {{topic}}")]),
            ("Rebalances", "cps", [(_rate("tidelog_group_rebalances_total", "instance"), "{{instance}}")]),
            ("Groups", "short", [("sum by (state) (kafka_coordinator_group_groupmetadatamanager_numgroups{{job}})", "{{state}}")]),
        ],
    ),
    (
        "Replication and elections",
        [
            (
                "Changes of in-sync replicas",
                "cps",
                [
                    (_rate("kafka_server_replicamanager_isrshrinks_total", "instance"), "shrinks {{instance}}"),
                    (_rate("kafka_server_replicamanager_isrexpands_total", "instance"), "expands {{instance}}"),
                ],
            ),
            ("Largest lag of a follower", "short", [("kafka_server_replicafetchermanager_maxlag{{job}}", "{{instance}}")]),
            (
                "Elections",
                "cps",
                [
                    (_rate("kafka_controller_controllerstats_leaderelectionrateandtimems_count", "instance"), "{{instance}}"),
                    (_rate("kafka_controller_controllerstats_uncleanleaderelections_total", "instance"), "unclean {{instance}}"),
                ],
            ),
            (
                "Partitions and leaders",
                "short",
                [
                    ("kafka_server_replicamanager_partitioncount{{job}}", "partitions {{instance}}"),
                    ("kafka_server_replicamanager_leadercount{{job}}", "leaders {{instance}}"),
                ],
            ),
        ],
    ),
    (
        "Disk and process",
        [
            ("Size of topics", "bytes", [("sum by (topic) (kafka_log_log_size{{job}})", "{{topic}}")]),
            ("Flush, p99", "ms", [('kafka_log_logflushstats_logflushrateandtimems{quantile="0.99",{job}}', "{{instance}}")]),
            (
                "Cleaner",
                "percent",
                [
                    ("kafka_log_logcleanermanager_max_dirty_percent{{job}}", "dirtiest log {{instance}}"),
                    ("kafka_log_logcleaner_cleaner_recopy_percent{{job}}", "written again {{instance}}"),
                ],
            ),
            ("Resident memory", "bytes", [("process_resident_memory_bytes{{job}}", "{{instance}}")]),
            (
                "Open files",
                "short",
                [
                    ("process_open_fds{{job}}", "{{instance}}"),
                    ("process_max_fds{{job}}", "limit {{instance}}"),
                ],
            ),
            ("Connections", "short", [("kafka_server_socket_server_metrics_connections{{job}}", "{{instance}} {{listener}}")]),
            ("Failed logins", "cps", [(_rate("kafka_server_socket_server_metrics_failed_authentication_total", "instance"), "{{instance}}")]),
        ],
    ),
]  # fmt: skip

_FILTER = 'job=~"$job",instance=~"$instance"'
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}


def main(arguments: list[str]) -> int:
    text = json.dumps(dashboard(), indent=1) + "\n"
    if "--check" in arguments:
        if PAGE.exists() and PAGE.read_text() == text:
            return 0
        print(f"docs/{PAGE.name} is behind its table; run: make docs", file=sys.stderr)
        return 1
    PAGE.write_text(text)
    return 0


def dashboard() -> dict[str, Any]:
    panels: list[dict[str, Any]] = []
    y = 0
    for title, row in ROWS:
        panels.append(
            {"type": "row", "title": title, "gridPos": {"h": 1, "w": 24, "x": 0, "y": y}, "id": len(panels) + 1, "panels": []}
        )  # fmt: skip
        y += 1
        stats = all(unit == "stat" for _, unit, _ in row)
        width, height = (4, 4) if stats else (8, 8)
        for number, (name, unit, queries) in enumerate(row):
            x = number % (24 // width) * width
            if number and x == 0:
                y += height
            where = {"h": height, "w": width, "x": x, "y": y}
            panels.append(_panel(len(panels) + 1, name, unit, queries, where))
        y += height
    return {
        "title": "tidelog",
        "uid": "tidelog",
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "tags": ["kafka", "tidelog"],
        "templating": {"list": _variables()},
        "panels": panels,
    }


def _panel(
    number: int, title: str, unit: str, queries: list[Query], where: dict[str, int]
) -> dict[str, Any]:
    stat = unit == "stat"
    return {
        "id": number,
        "type": "stat" if stat else "timeseries",
        "title": title,
        "gridPos": where,
        "datasource": _SOURCE,
        "fieldConfig": {"defaults": {"unit": "short" if stat else unit, "min": 0}, "overrides": []},
        "targets": [
            {
                "refId": chr(ord("A") + at),
                "expr": query.replace("{{job}}", "{" + _FILTER + "}").replace("{job}", _FILTER),
                "legendFormat": legend or "__auto",
                "datasource": _SOURCE,
            }
            for at, (query, legend) in enumerate(queries)
        ],
    }


def _variables() -> list[dict[str, Any]]:
    def of(name: str, label: str) -> dict[str, Any]:
        return {
            "name": name,
            "label": label,
            "type": "query",
            "datasource": _SOURCE,
            "query": f"label_values(tidelog_broker_info, {name})",
            "includeAll": True,
            "multi": True,
            "current": {"text": "All", "value": "$__all"},
            "refresh": 2,
        }

    source = {"name": "datasource", "label": "Prometheus", "type": "datasource"}
    return [source | {"query": "prometheus"}, of("job", "Job"), of("instance", "Broker")]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
