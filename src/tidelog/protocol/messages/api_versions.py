"""ApiVersions (18): which APIs and versions the broker speaks.

Versions: 1 throttles; 2 throttles after the answer; 3 is flexible, names the client's software (KIP-511) and
tells of features (KIP-584); 4 tells of features whose lowest version is 0.  The header of the answer is the old
one in all versions, and a version that the broker does not know is answered in version 0.
"""

from ..schema import Request, Response, Struct, boolean, field, int16, int32, int64, string


class ApiVersionsRequest(Request, api_key=18, versions="0-4", flexible="3+"):
    client_software_name: string = field("3+", default="")
    client_software_version: string = field("3+", default="")


class ApiVersion(Struct):
    api_key: int16 = 0
    min_version: int16 = 0
    max_version: int16 = 0


class SupportedFeatureKey(Struct):
    name: string = field("3+", default="")
    min_version: int16 = field("3+", default=0)
    max_version: int16 = field("3+", default=0)


class FinalizedFeatureKey(Struct):
    name: string = field("3+", default="")
    max_version_level: int16 = field("3+", default=0)
    min_version_level: int16 = field("3+", default=0)


class ApiVersionsResponse(Response, to=ApiVersionsRequest):
    error_code: int16 = 0
    api_keys: list[ApiVersion] = field(factory=list)
    throttle_time_ms: int32 = field("1+", default=0)
    supported_features: list[SupportedFeatureKey] = field("3+", tag=0, factory=list)
    finalized_features_epoch: int64 = field("3+", tag=1, default=-1)
    finalized_features: list[FinalizedFeatureKey] = field("3+", tag=2, factory=list)
    zk_migration_ready: boolean = field("3+", tag=3, default=False)
