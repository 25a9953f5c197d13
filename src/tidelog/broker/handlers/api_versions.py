"""ApiVersions (18): what this broker speaks.

Versions: 3 is flexible, names the client's software (KIP-511) and tells of features (KIP-584); 4 tells of features whose
lowest version is 0.  A version from the future is answered by the dispatcher, in version 0.  The features are
transaction.version: 2 means that producers may leave it to their batches to join a transaction (KIP-890); and
tidelog.metadata.version: what this broker, and what all of them, can read (`cluster/versions.py`).
"""

from tidelog.broker.context import Context
from tidelog.broker.dispatch import handles
from tidelog.broker.permissions import anybody
from tidelog.cluster.metadata import METADATA_VERSION
from tidelog.cluster.versions import FEATURE
from tidelog.coordination.transactions.transaction import EPOCH_BUMPED_BY_END
from tidelog.errors import InvalidRequest
from tidelog.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

_TRANSACTION_VERSION = "transaction.version"
_SUPPORTED = SupportedFeatureKey(
    name=_TRANSACTION_VERSION, min_version=0, max_version=EPOCH_BUMPED_BY_END
)
_FINALIZED = FinalizedFeatureKey(
    name=_TRANSACTION_VERSION,
    min_version_level=EPOCH_BUMPED_BY_END,
    max_version_level=EPOCH_BUMPED_BY_END,
)

_METADATA = SupportedFeatureKey(name=FEATURE, min_version=1, max_version=METADATA_VERSION)


@handles(ApiVersionsRequest, "0-4", allow=anybody, before_login=True)
def api_versions(request: ApiVersionsRequest, ctx: Context) -> ApiVersionsResponse:
    if ctx.api_version >= 3:
        name, version = request.client_software_name, request.client_software_version
        if not (_is_word(name) and _is_word(version)):
            raise InvalidRequest("the client's software name and version must be plain words")
        ctx.peer.software = (name, version)
    return ApiVersionsResponse(
        api_keys=[
            ApiVersion(api_key=key, min_version=lowest, max_version=highest)
            for key, (lowest, highest) in ctx.broker.handlers.advertised().items()
        ],
        # Before version 4 a lowest version of 0 cannot be told, and the feature is left out.
        supported_features=[_METADATA, _SUPPORTED] if ctx.api_version >= 4 else [_METADATA],
        finalized_features_epoch=0,
        finalized_features=[_FINALIZED, _metadata(ctx.broker.image().metadata_version)],
    )


def _metadata(version: int) -> FinalizedFeatureKey:
    return FinalizedFeatureKey(name=FEATURE, min_version_level=1, max_version_level=version)


def _is_word(text: str) -> bool:
    """As KIP-511 asks: letters, digits, '-' and '.', beginning and ending with a letter or digit."""
    plain = text.replace("-", "").replace(".", "")
    return plain.isascii() and plain.isalnum() and text[0].isalnum() and text[-1].isalnum()
