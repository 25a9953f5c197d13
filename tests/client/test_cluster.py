"""The client's view of a cluster: whose connections are open, and until when."""

from tidelog.client.cluster import MAIN, Cluster
from tidelog.client.settings import ClientSettings, load
from tidelog.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic


async def test_a_connection_that_was_replaced_while_it_waits_is_closed_with_the_rest(
    bootstrap: str, topic: str
) -> None:
    cluster = Cluster(load(ClientSettings, None, {"bootstrap_servers": bootstrap}))
    info = await cluster.topic(topic)
    node = info.partitions[0].node
    before = await cluster.connection(node)
    wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    request = FetchRequest(
        max_wait_ms=600_000, min_bytes=1, topics=[FetchTopic(topic=topic, partitions=[wanted])]
    )
    answer = before.post(request, timeout_s=600, at_most=12)
    cluster._keep((node, MAIN), await cluster._dial(*cluster.nodes[node]))
    assert not before.closed, "somebody waits for its answer"
    await cluster.close()
    assert before.closed
    assert answer.done()
