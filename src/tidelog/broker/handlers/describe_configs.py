"""DescribeConfigs (32): the settings of topics and of this broker, where each value comes from and what it means.

Versions: 1 sources and synonyms (KIP-226); 3 types and documentation.  Absent: settings of loggers, client metrics and
groups.
"""

from tidelog.broker.configs import Described, check_allowed, describe
from tidelog.broker.context import Context
from tidelog.broker.dispatch import handles
from tidelog.broker.permissions import DESCRIBE_CONFIGS, by_item
from tidelog.errors import KafkaError
from tidelog.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)


@handles(DescribeConfigsRequest, "1-4", allow=by_item)
def describe_configs(request: DescribeConfigsRequest, ctx: Context) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(
        results=[_result(resource, request, ctx) for resource in request.resources]
    )


def _result(
    resource: DescribeConfigsResource, request: DescribeConfigsRequest, ctx: Context
) -> DescribeConfigsResult:
    kind, name, keys = resource.resource_type, resource.resource_name, resource.configuration_keys
    broker = ctx.broker
    try:
        check_allowed(ctx, DESCRIBE_CONFIGS, kind, name)
        found = describe(broker.image(), broker.settings, broker.broker_id, kind, name)
    except KafkaError as error:
        return DescribeConfigsResult(
            error_code=error.code,
            error_message=error.message,
            resource_type=kind,
            resource_name=name,
        )
    # KafkaJS and others send an empty list where they mean all.
    asked = [each for each in found if not keys or each.name in keys]
    return DescribeConfigsResult(
        error_message=None,
        resource_type=kind,
        resource_name=name,
        configs=[_entry(each, request) for each in asked],
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
