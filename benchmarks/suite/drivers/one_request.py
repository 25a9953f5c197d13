# ruff: noqa: E402  (whose code is imported is an argument)
"""Serves small produce requests without a network, for whoever counts instructions: `one_request.py TREE SERVED RECEIVED`.

SERVED requests go to the dispatcher, RECEIVED through a whole connection over a pair of sockets; TREE is whose code is used.
Time is measured as in a broker with metrics under load, for one request in five hundred.
"""

import asyncio
import os
import socket
import sys
import tempfile
import time
from pathlib import Path

TREE, SERVED, RECEIVED = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
sys.path[:0] = [f"{TREE}/src", f"{TREE}/tests/broker"]

from hot_path import HotPath

from tidelog.clock import SystemClock
from tidelog.network.config import NetworkConfig
from tidelog.network.connection import Connection
from tidelog.network.hub import Hub
from tidelog.network.peer import Address, Peer
from tidelog.protocol.frame import encode_request
from tidelog.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tidelog.records.builder import build_batch


async def main(directory: Path) -> None:
    hot = HotPath(directory)
    hot.services.clock = SystemClock()
    if hasattr(hot.services, "requests"):  # a tree that has metrics
        hot.services.requests.measure()
        for each in hot.services.requests:
            each._every = 500
    records = build_batch([(int(time.time() * 1000), None, b"x" * 30, ())])
    data = PartitionProduceData(index=0, records=records)
    topics = [TopicProduceData(name="events", partition_data=[data])]
    frame = encode_request(ProduceRequest(acks=1, timeout_ms=1000, topic_data=topics), 9, 1, "b")
    peer = Peer(Address("127.0.0.1", 5), Address("127.0.0.1", 9092), "PLAINTEXT")
    body = memoryview(bytearray(frame))[4:]
    for _ in range(SERVED):
        hot.dispatcher.serve(peer, body)
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    hub = Hub(hot.dispatcher.serve, NetworkConfig(), asyncio.get_running_loop())
    hub.admission.admit("127.0.0.1")
    connection = Connection(theirs, peer, hub)
    for _ in range(RECEIVED):
        ours.send(frame)
        connection._on_readable()
        hub._send_all()
        ours.recv(4096)


with tempfile.TemporaryDirectory() as name:
    asyncio.run(main(Path(name)))
    sys.stdout.flush()
    os._exit(0)
