"""UpdateFeatures (57): raise or lower the finalized level of features (KIP-584).

Versions: 1 can only validate, and says whether a downgrade may lose data; 2 answers for the whole, not for each
feature.
"""

from ..schema import Request, Response, Struct, boolean, field, int8, int16, int32, string


class FeatureUpdateKey(Struct):
    feature: string = ""
    max_version_level: int16 = 0
    allow_downgrade: boolean = field("0", default=False)
    upgrade_type: int8 = field("1+", default=1)


class UpdateFeaturesRequest(Request, api_key=57, versions="0-2", flexible="0+"):
    timeout_ms: int32 = 60000
    feature_updates: list[FeatureUpdateKey] = field(factory=list)
    validate_only: boolean = field("1+", default=False)


class UpdatableFeatureResult(Struct):
    feature: string = ""
    error_code: int16 = 0
    error_message: string | None = ""


class UpdateFeaturesResponse(Response, to=UpdateFeaturesRequest):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: string | None = ""
    results: list[UpdatableFeatureResult] = field("0-1", factory=list)
