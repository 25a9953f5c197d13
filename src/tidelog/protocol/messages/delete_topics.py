"""DeleteTopics (20): delete topics with all they hold.

Versions: 1 throttles; 2 throttles after the answer; 3 says when deletion is disabled; 4 is flexible; 5 adds
messages, and may refuse by quota (KIP-599); 6 takes topic ids too (KIP-516).
"""

from ..schema import ZERO_UUID, Request, Response, Struct, field, int16, int32, string, uuid


class DeleteTopicState(Struct):
    name: string | None = field("6+", default=None)
    topic_id: uuid = field("6+", default=ZERO_UUID)


class DeleteTopicsRequest(Request, api_key=20, versions="0-6", flexible="4+", most=20_000):
    topics: list[DeleteTopicState] = field("6+", factory=list)
    topic_names: list[string] = field("0-5", factory=list)
    timeout_ms: int32 = 0


class DeletableTopicResult(Struct):
    name: string | None = field(nullable="6+", default="")
    topic_id: uuid = field("6+", default=ZERO_UUID)
    error_code: int16 = 0
    error_message: string | None = field("5+", default=None)


class DeleteTopicsResponse(Response, to=DeleteTopicsRequest):
    throttle_time_ms: int32 = field("1+", default=0)
    responses: list[DeletableTopicResult] = field(factory=list)
