"""DeleteAcls (31): delete the access rules that filters find.

Versions: 1 has pattern types (KIP-290); 2 is flexible; 3 knows the resource type user.  Absent: nothing.
"""

from tidelog.broker.acl_messages import filter_of
from tidelog.broker.context import Context
from tidelog.broker.dispatch import handles
from tidelog.broker.permissions import ALTER, by_item
from tidelog.broker.turns import Turns
from tidelog.cluster.access import acl_record
from tidelog.cluster.image import Image
from tidelog.cluster.metadata import Record
from tidelog.errors import KafkaError
from tidelog.protocol.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from tidelog.security.acls import CLUSTER, Acl, Filter, Match

Outcome = list[Acl] | KafkaError


@handles(DeleteAclsRequest, "0-3", allow=by_item, controller=True)
async def delete_acls(request: DeleteAclsRequest, ctx: Context) -> DeleteAclsResponse:
    filters = [_filter(each, ctx) async for each in Turns().over(request.filters)]

    def decide(image: Image) -> tuple[list[Record], list[Outcome]]:
        found = _found({each for each in filters if isinstance(each, Filter)}, image)
        outcomes: list[Outcome] = [
            found[each] if isinstance(each, Filter) else each for each in filters
        ]
        gone = dict.fromkeys(acl for each in outcomes if isinstance(each, list) for acl in each)
        return [acl_record(each, removed=True) for each in gone], outcomes

    outcomes = await ctx.broker.controller.submit(decide)
    return DeleteAclsResponse(filter_results=[_result(each) for each in outcomes])


def _found(filters: set[Filter], image: Image) -> dict[Filter, list[Acl]]:
    """The rules that each filter finds; one that names its resource need not look at all of them."""
    acls = image.access.acls
    by_name: dict[str, list[Acl]] = {}
    for acl in acls:
        by_name.setdefault(acl.name, []).append(acl)
    found = {}
    for each in filters:
        is_named = each.name is not None and each.pattern is not Match.MATCH
        among = by_name.get(each.name or "", []) if is_named else acls
        found[each] = [acl for acl in among if each.matches(acl)]
    return found


def _filter(each: DeleteAclsFilter, ctx: Context) -> Filter | KafkaError:
    try:
        ctx.check(ALTER, CLUSTER)
        return filter_of(each)
    except KafkaError as error:
        return error.kept()


def _result(outcome: Outcome) -> DeleteAclsFilterResult:
    if isinstance(outcome, KafkaError):
        return DeleteAclsFilterResult(error_code=outcome.code, error_message=outcome.message)
    return DeleteAclsFilterResult(
        error_message=None,
        matching_acls=[
            DeleteAclsMatchingAcl(
                error_message=None,
                resource_type=int(acl.resource_type),
                resource_name=acl.name,
                pattern_type=int(acl.pattern),
                principal=acl.principal,
                host=acl.host,
                operation=int(acl.operation),
                permission_type=int(acl.permission),
            )
            for acl in outcome
        ],
    )
