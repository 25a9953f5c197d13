"""What a client is told that it may ask for."""

import struct

import pytest
from hot_path import PEER

from tidelog.errors import ProtocolError
from tidelog.protocol.frame import decode_response
from tidelog.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse


@pytest.mark.parametrize("version", range(5))
async def test_ranges_are_those_of_the_handlers(hot, version):
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1.0")
    response = await hot.ask(request, version)
    told = {each.api_key: (each.min_version, each.max_version) for each in response.api_keys}
    assert told == {0: (0, 12), 1: (4, 17), 2: (1, 10), 18: (0, 4)}
    if version < 3:
        assert response.finalized_features_epoch == -1
        return
    feature, metadata = response.finalized_features
    assert (metadata.name, metadata.max_version_level) == ("tidelog.metadata.version", 1)
    assert (feature.name, feature.max_version_level) == ("transaction.version", 2)
    assert [each.min_version for each in response.supported_features] == [1, 0][: version - 2]


async def test_a_version_from_the_future_is_answered_in_version_0(hot):
    frame = struct.pack(">hhih", 18, 99, 7, 2) + b"me" + b"whatever"
    answer = hot.dispatcher.serve(PEER, memoryview(bytearray(frame)))
    correlation_id, response = decode_response(ApiVersionsResponse, answer[4:], 0)
    assert (correlation_id, response.error_code) == (7, 35)
    assert [(e.api_key, e.min_version, e.max_version) for e in response.api_keys] == [(18, 0, 4)]


@pytest.mark.parametrize("name", ["", "-x", "a b", "é"])
async def test_a_software_name_that_is_no_word(hot, name):
    request = ApiVersionsRequest(client_software_name=name, client_software_version="1")
    assert (await hot.ask(request, 3)).error_code == 42


@pytest.mark.parametrize(
    ("api_key", "version"), [(0, 2), (0, 13), (1, 3), (1, 18), (2, 0), (999, 0), (-1, 0), (3, 0)]
)
def test_other_keys_and_versions_close_the_connection(hot, api_key, version):
    frame = struct.pack(">hhih", api_key, version, 7, -1) + bytes(50)
    with pytest.raises(ProtocolError):
        hot.dispatcher.serve(PEER, memoryview(bytearray(frame)))
