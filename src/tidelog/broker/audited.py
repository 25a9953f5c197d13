"""What a request has changed, as the audit trail tells it: one event for each thing that was to be changed.

    for change in changes(request, response):       # of any request; nothing for those that change nothing
        trail.tell(change.event, resource=change.resource, …)

Values of secret settings, salts and passwords are never among it.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from tidelog.security.acls import Operation, PatternType, Permission, ResourceType


class Change(NamedTuple):
    event: str
    resource: str
    error_code: int
    detail: dict[str, Any] = {}  # noqa: RUF012  (never changed)


def changes(api_key: int, request: Any, response: Any) -> Iterator[Change]:
    """What was asked for and what became of it; a request that only tries changes nothing."""
    found = _BY_API.get(api_key)
    if found is not None and not getattr(request, "validate_only", False):
        yield from found(request, response)


def _create_topics(request: Any, response: Any) -> Iterator[Change]:
    asked = {each.name: each for each in request.topics}
    for each in response.topics:
        topic = asked.get(each.name)
        detail = {"partitions": each.num_partitions, "replication": each.replication_factor}
        if topic is not None and topic.configs:
            detail["settings"] = {one.name: one.value for one in topic.configs}
        yield Change("topic.create", each.name, each.error_code, detail)


def _delete_topics(request: Any, response: Any) -> Iterator[Change]:
    for each in response.responses:
        yield Change("topic.delete", each.name or str(each.topic_id), each.error_code)


def _create_partitions(request: Any, response: Any) -> Iterator[Change]:
    counts = {each.name: each.count for each in request.topics}
    for each in response.results:
        detail = {"partitions": counts.get(each.name)}
        yield Change("topic.partitions", each.name, each.error_code, detail)


def _delete_records(request: Any, response: Any) -> Iterator[Change]:
    for topic in response.topics:
        for each in topic.partitions:
            detail = {"low_watermark": each.low_watermark}
            name = f"{topic.name}-{each.partition_index}"
            yield Change("records.delete", name, each.error_code, detail)


def _alter_configs(request: Any, response: Any) -> Iterator[Change]:
    from tidelog.broker.settings import declarations

    secret = {name for name, (_, each) in declarations().items() if each.spec.secret}
    asked = {(each.resource_type, each.resource_name): each.configs for each in request.resources}
    for each in response.responses:
        configs = asked.get((each.resource_type, each.resource_name), ())
        detail = {one.name: None if one.name in secret else one.value for one in configs}
        kind = _CONFIG_RESOURCES.get(each.resource_type, str(each.resource_type))
        resource = f"{kind}:{each.resource_name}"
        yield Change("settings.change", resource, each.error_code, {"settings": detail})


def _create_acls(request: Any, response: Any) -> Iterator[Change]:
    for asked, each in zip(request.creations, response.results, strict=False):
        rule = _rule(asked, asked.resource_pattern_type)
        yield Change("rule.add", asked.resource_name, each.error_code, rule)


def _delete_acls(request: Any, response: Any) -> Iterator[Change]:
    for asked, each in zip(request.filters, response.filter_results, strict=False):
        if each.error_code:
            resource = asked.resource_name_filter or "*"
            yield Change("rule.remove", resource, each.error_code)
        for one in each.matching_acls:
            rule = _rule(one, one.pattern_type)
            yield Change("rule.remove", one.resource_name, one.error_code, rule)


def _rule(acl: Any, pattern: int) -> dict[str, Any]:
    return {
        "principal": acl.principal,
        "host": acl.host,
        "resource_type": _name(ResourceType, acl.resource_type),
        "pattern": _name(PatternType, pattern),
        "operation": _name(Operation, acl.operation),
        "permission": _name(Permission, acl.permission_type),
    }


def _name(kind: Any, number: int) -> str:
    try:
        return str(kind(number).name).lower()
    except ValueError:
        return str(number)


def _alter_quotas(request: Any, response: Any) -> Iterator[Change]:
    for asked, each in zip(request.entries, response.entries, strict=False):
        names = (f"{one.entity_type}:{one.entity_name or '<default>'}" for one in asked.entity)
        detail = {one.key: None if one.remove else one.value for one in asked.ops}
        yield Change("quota.change", ",".join(names), each.error_code, {"quotas": detail})


def _alter_users(request: Any, response: Any) -> Iterator[Change]:
    removed = {each.name for each in request.deletions}
    added = {each.name for each in request.upsertions}
    for each in response.results:
        if each.user in added:
            yield Change("user.set", each.user, each.error_code)
        if each.user in removed:
            yield Change("user.remove", each.user, each.error_code)


def _delete_groups(request: Any, response: Any) -> Iterator[Change]:
    for each in response.results:
        yield Change("group.delete", each.group_id, each.error_code)


def _reassign(request: Any, response: Any) -> Iterator[Change]:
    if response.error_code:
        yield Change("partitions.reassign", "", response.error_code)
    wanted = {
        (topic.name, each.partition_index): each.replicas
        for topic in request.topics
        for each in topic.partitions
    }
    for topic in response.responses:
        for each in topic.partitions:
            detail = {"replicas": wanted.get((topic.name, each.partition_index))}
            name = f"{topic.name}-{each.partition_index}"
            yield Change("partitions.reassign", name, each.error_code, detail)


_CONFIG_RESOURCES = {2: "topic", 4: "broker", 8: "logger", 16: "client-metrics", 32: "group"}

_BY_API: dict[int, Callable[[Any, Any], Iterator[Change]]] = {
    19: _create_topics,
    20: _delete_topics,
    21: _delete_records,
    30: _create_acls,
    31: _delete_acls,
    33: _alter_configs,
    37: _create_partitions,
    42: _delete_groups,
    44: _alter_configs,
    45: _reassign,
    49: _alter_quotas,
    51: _alter_users,
}
"""By API key, as Kafka numbers them."""
