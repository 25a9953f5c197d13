"""CreateAcls (30): add access rules.

Versions: 1 has pattern types (KIP-290); 2 is flexible; 3 knows the resource type user.  A rule that there is already is
no error.  Absent: nothing.
"""

from tidelog.broker.acl_messages import acl_of
from tidelog.broker.context import Context
from tidelog.broker.dispatch import handles
from tidelog.broker.permissions import ALTER, by_item
from tidelog.broker.turns import Turns
from tidelog.cluster.access import acl_record
from tidelog.cluster.image import Image
from tidelog.cluster.metadata import Record
from tidelog.errors import KafkaError
from tidelog.protocol.messages.create_acls import (
    AclCreation,
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)
from tidelog.security.acls import CLUSTER, Acl


@handles(CreateAclsRequest, "0-3", allow=by_item, controller=True)
async def create_acls(request: CreateAclsRequest, ctx: Context) -> CreateAclsResponse:
    wanted = [_made(each, ctx) async for each in Turns().over(request.creations)]

    def decide(image: Image) -> tuple[list[Record], None]:
        known = image.access.acls
        new = dict.fromkeys(each for each in wanted if isinstance(each, Acl) and each not in known)
        return [acl_record(each) for each in new], None

    await ctx.broker.controller.submit(decide)
    return CreateAclsResponse(
        results=[
            AclCreationResult(error_code=each.code, error_message=each.message)
            if isinstance(each, KafkaError)
            else AclCreationResult(error_message=None)
            for each in wanted
        ]
    )


def _made(each: AclCreation, ctx: Context) -> Acl | KafkaError:
    try:
        ctx.check(ALTER, CLUSTER)
        return acl_of(each)
    except KafkaError as error:
        return error.kept()
