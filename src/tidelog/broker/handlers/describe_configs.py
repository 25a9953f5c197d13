"""DescribeConfigs (32): the settings of topics and of this broker, where each value comes from and what it means.

Versions: 1 sources and synonyms (KIP-226); 3 types and documentation.  The levels of loggers (KIP-412) are those of the
broker that is asked.  Absent: settings of client metrics and groups.
"""

from tidelog.broker import loggers
from tidelog.broker.configs import Described, ResourceType, check_allowed, check_broker, describe
from tidelog.broker.context import Context
from tidelog.broker.dispatch import handles
from tidelog.broker.permissions import DESCRIBE_CONFIGS, by_item
from tidelog.broker.turns import Turns
from tidelog.errors import KafkaError
from tidelog.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

_DYNAMIC_BROKER_LOGGER = 6
"""As Kafka numbers sources (DescribeConfigsResponse.ConfigSource)."""
_STRING = 2
_A_TURN = 10
"""Resources that are described before others have their turn."""


@handles(DescribeConfigsRequest, "1-4", allow=by_item)
async def describe_configs(
    request: DescribeConfigsRequest, ctx: Context
) -> DescribeConfigsResponse:
    # The same is told once, however often it is asked for: every resource has many settings.
    asked = {
        (each.resource_type, each.resource_name, tuple(each.configuration_keys or ())): each
        for each in request.resources
    }
    return DescribeConfigsResponse(
        results=[_result(each, request, ctx) async for each in Turns(_A_TURN).over(asked.values())]
    )


def _result(
    resource: DescribeConfigsResource, request: DescribeConfigsRequest, ctx: Context
) -> DescribeConfigsResult:
    kind, name, keys = resource.resource_type, resource.resource_name, resource.configuration_keys
    broker = ctx.broker
    try:
        check_allowed(ctx, DESCRIBE_CONFIGS, kind, name)
        if kind == ResourceType.BROKER_LOGGER:
            return _levels(name, keys, request, ctx)
        found = describe(broker.image(), broker.settings, broker.broker_id, kind, name)
    except KafkaError as error:
        return DescribeConfigsResult(
            error_code=error.code,
            error_message=error.message,
            resource_type=kind,
            resource_name=name,
        )
    # KafkaJS and others send an empty list where they mean all.
    wanted = frozenset(keys or ())
    asked = [each for each in found if not wanted or each.name in wanted]
    return DescribeConfigsResult(
        error_message=None,
        resource_type=kind,
        resource_name=name,
        configs=[_entry(each, request) for each in asked],
    )


def _levels(
    name: str, keys: list[str] | None, request: DescribeConfigsRequest, ctx: Context
) -> DescribeConfigsResult:
    check_broker(name, ctx.broker.broker_id)
    wanted = frozenset(keys or ())
    return DescribeConfigsResult(
        error_message=None,
        resource_type=ResourceType.BROKER_LOGGER,
        resource_name=name,
        configs=[
            DescribeConfigsResourceResult(
                name=logger,
                value=level,
                config_source=_DYNAMIC_BROKER_LOGGER,
                synonyms=[
                    DescribeConfigsSynonym(name=above, value=its, source=_DYNAMIC_BROKER_LOGGER)
                    for above, its in (loggers.synonyms(logger) if request.include_synonyms else ())
                ],
                config_type=_STRING,
                documentation=None,
            )
            for logger, level in loggers.levels().items()
            if not wanted or logger in wanted
        ],
    )


def _entry(each: Described, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    synonyms = each.synonyms if request.include_synonyms else ()
    return DescribeConfigsResourceResult(
        name=each.name,
        value=each.value,
        read_only=each.read_only,
        config_source=each.source,
        is_sensitive=each.is_sensitive,
        synonyms=[
            DescribeConfigsSynonym(
                name=synonym.name,
                value=None if each.is_sensitive else synonym.value,
                source=synonym.source,
            )
            for synonym in synonyms
        ],
        config_type=each.type_code,
        documentation=each.declared.spec.doc if request.include_documentation else None,
    )
