"""Replicas of one partition under random appends, elections, crashes, late answers: nothing committed is ever lost.

The real `Partition`, `Followers` and `Log` on a simulated disk; the wire, the controller and the fetcher's loop are played
by the test, which delays, drops and reorders what passes between them.
"""

from random import Random
from uuid import UUID

import pytest

from tidelog.cluster.fetcher import cut_offset
from tidelog.cluster.image import NO_LEADER, PartitionState
from tidelog.cluster.partition import Partition
from tidelog.cluster.surroundings import Surroundings
from tidelog.errors import KafkaError, NotEnoughReplicas, OffsetOutOfRange
from tidelog.names import TopicPartition
from tidelog.records.batch import iterate_batches, parse_header, read_records
from tidelog.records.builder import build_batch
from tidelog.storage.config import LogConfig
from tidelog.storage.flusher import Flusher
from tidelog.storage.log import Log
from tidelog.testing.manual_clock import ManualClock
from tidelog.testing.simulation.disk import SimDisk

ID = UUID(int=5)
MAX_LAG_MS = 1_000

OFTEN = {
    "a_client_writes": 20,
    "a_follower_asks": 25,
    "a_fetch_arrives": 30,
    "an_image_arrives": 8,
    "a_proposal_arrives": 5,
    "an_answer_arrives": 4,
    "time_passes": 2,
    "a_leader_is_elected": 2,
    "a_broker_dies": 1.5,
    "a_broker_returns": 2.5,
}


class Replica:
    """One broker with its disk; `partition` is its present life."""

    def __init__(self, world: "World", broker_id: int) -> None:
        self.world = world
        self.id = broker_id
        self.disk = SimDisk(world.random)
        self.epoch = 0
        self.alive = False
        self.noted_high_watermark = 0
        self.images: list[PartitionState] = []
        """States that have not reached it yet, oldest first."""
        self.partition: Partition | None = None
        self.highest_seen = 0
        self.waiting: list[tuple[int, bytes]] = []
        """Last offset and value of batches that are to be acknowledged when they are committed."""
        self.start()

    def start(self) -> None:
        self.epoch += 1
        self.alive = True
        self.highest_seen = 0
        self.waiting.clear()
        log = Log.open(
            "/log/t-0",
            files=self.disk,
            config=self.world.config,
            clock=self.world.clock,
            topic_partition=TopicPartition("t", 0),
        )
        log.high_watermark = max(
            min(self.noted_high_watermark, log.log_end_offset), log.log_start_offset
        )
        self.partition = Partition(
            "t", 0, ID, log, flusher=Flusher(),
            surroundings=Surroundings(
                broker_id=self.id,
                now_ms=lambda: int(self.world.clock.monotonic() * 1000),
                max_lag_ms=lambda: MAX_LAG_MS,
                eligible=self.world.eligible,
                propose=lambda partition: self.world.proposals.append((self, self.epoch)),
                truncated=lambda log, offset: None,
            ),
        )  # fmt: skip
        self.images = [self.world.state]
        self.learn()

    def die(self) -> None:
        self.alive = False
        self.partition = None
        self.disk.process_died()

    def learn(self) -> None:
        """Take over the next state that the image shows."""
        if self.alive and self.images:
            state = self.images.pop(0)
            if state.leader == self.id:
                self.partition.become_leader(state)
            else:
                self.partition.become_follower(state)
                self.waiting.clear()  # they are told that it leads no longer

    @property
    def leads(self) -> bool:
        return self.alive and self.partition.not_leading is None

    def values(self, start: int, up_to: int) -> list[bytes]:
        log = self.partition.log
        found, offset = [], start
        while (region := log.read(offset, 1 << 20, up_to=up_to)) is not None:
            data = region.read()
            for position, _ in iterate_batches(data):
                found += [each.value for each in read_records(data, position)]
            offset = region.end_offset
        return found


class World:
    """The controller, the wire, and what is known to be committed."""

    def __init__(self, seed: int, min_isr: int) -> None:
        self.random = Random(seed)
        self.clock = ManualClock()
        self.config = LogConfig(segment_bytes=700, min_insync_replicas=min_isr)
        self.state = PartitionState(1, 0, 0, (1, 2, 3), (1, 2, 3))
        self.proposals: list[tuple[Replica, int]] = []
        self.answers: list[tuple[Replica, int, object, object]] = []
        self.fetches: list[tuple] = []
        self.committed: dict[int, bytes] = {}
        self.acknowledged: set[bytes] = set()
        self.next_value = 0
        self.weights = {
            action: often * self.random.choice([0.2, 1, 1, 4]) for action, often in OFTEN.items()
        }
        self.replicas = {}
        for broker_id in (1, 2, 3):
            self.replicas[broker_id] = Replica(self, broker_id)

    def eligible(self, broker_id: int, epoch: int) -> bool:
        replica = self.replicas.get(broker_id)
        return replica is not None and replica.alive and epoch in (-1, replica.epoch)

    # ------------------------------------------------------------------ the controller

    def decide(self, **changes: object) -> None:
        state = self.state
        self.state = PartitionState(
            leader=changes.get("leader", state.leader),
            leader_epoch=state.leader_epoch + ("leader" in changes),
            partition_epoch=state.partition_epoch + 1,
            replicas=state.replicas,
            isr=changes.get("isr", state.isr),
        )
        for replica in self.replicas.values():
            if replica.alive:
                replica.images.append(self.state)

    def elect(self) -> None:
        live = [each for each in self.state.isr if self.replicas[each].alive]
        if not live:
            if self.state.leader != NO_LEADER:
                self.decide(leader=NO_LEADER)
            return
        others = [each for each in live if each != self.state.leader]
        leader = self.random.choice(others or live)
        self.decide(leader=leader, isr=tuple(live))

    def hear_proposal(self) -> None:
        replica, epoch = self.proposals.pop(self.random.randrange(len(self.proposals)))
        if not replica.alive or replica.epoch != epoch or replica.partition.followers is None:
            return
        proposal = replica.partition.followers.proposal
        if proposal is None:
            return
        state = self.state
        outcome: object = "refused"
        if (proposal.leader_epoch, proposal.partition_epoch) == (
            state.leader_epoch,
            state.partition_epoch,
        ):
            epochs = dict(zip(proposal.isr, proposal.broker_epochs, strict=True))
            if all(self.eligible(each, epochs[each]) for each in proposal.isr):
                self.decide(isr=proposal.isr)
                outcome = self.state
        else:
            outcome = "outdated"
        if self.random.random() < 0.7:
            self.answers.append((replica, epoch, proposal, outcome))
        elif outcome == "refused":
            self.proposals.append((replica, epoch))  # the answer was lost: asked again

    def hear_answer(self) -> None:
        replica, epoch, proposal, outcome = self.answers.pop(
            self.random.randrange(len(self.answers))
        )
        if not replica.alive or replica.epoch != epoch or replica.partition.followers is None:
            return
        followers = replica.partition.followers
        if isinstance(outcome, PartitionState):
            replica.partition.settle_isr(outcome)
        elif followers.proposal is proposal and outcome == "refused":
            followers.withdraw()

    # ------------------------------------------------------------------ clients

    def append(self, replica: Replica) -> None:
        value = b"%d" % self.next_value
        self.next_value += 1
        count = self.random.randrange(1, 4)
        records = [(1_700_000_000_000, None, value + b"-%d" % i, ()) for i in range(count)]
        batch = build_batch(records)
        try:
            done = replica.partition.append(batch, parse_header(batch), acks=-1)
        except NotEnoughReplicas:
            return
        replica.waiting.append((done.last_offset, value))

    # ------------------------------------------------------------------ the wire

    def send_fetch(self, follower: Replica) -> None:
        log = follower.partition.log
        asked = (follower.partition.leader_epoch, log.log_end_offset, log.epochs.latest)
        self.fetches.append((follower, follower.epoch, follower.partition.leader, asked))

    def serve_fetch(self) -> None:
        fetch = self.fetches.pop(self.random.randrange(len(self.fetches)))
        follower, epoch, leader_id, (leader_epoch, offset, last_epoch) = fetch
        leader = self.replicas.get(leader_id)
        if leader is None or not leader.alive or self.random.random() < 0.05:
            return
        partition, log = leader.partition, leader.partition.log
        try:
            partition.check_leader_epoch(leader_epoch)
            diverging = partition.diverged(follower.id, offset, last_epoch)
            data = b""
            if diverging is None:
                if not log.log_start_offset <= offset <= log.log_end_offset:
                    raise OffsetOutOfRange
                now_ms = int(self.clock.monotonic() * 1000)
                partition.fetched_by(follower.id, epoch, offset, 0, now_ms)
                region = partition.read_to_end(offset, 300, at_least_one=True)
                data = b"" if region is None else region.read()
        except KafkaError:
            return
        self.check()
        if follower.alive and follower.epoch == epoch and self.random.random() < 0.9:
            answer = diverging, data, log.high_watermark, log.log_start_offset
            self.take(follower, fetch[3], answer)

    def take(self, follower: Replica, asked: tuple, answer: tuple) -> None:
        partition = follower.partition
        if self.random.random() < 0.1:
            follower.learn()  # the image is quicker than the answer
        log = partition.log
        if (partition.leader_epoch, log.log_end_offset, log.epochs.latest) != asked:
            return
        if partition.not_leading is None:
            return
        diverging, data, high_watermark, log_start = answer
        if diverging is not None:
            partition.truncate_to(cut_offset(partition.log, *diverging))
        else:
            partition.append_from_leader(data, high_watermark, log_start)

    # ------------------------------------------------------------------ what must hold

    def check(self) -> None:
        for replica in self.replicas.values():
            if not replica.alive:
                continue
            partition = replica.partition
            partition.log.check()
            high_watermark = partition.high_watermark
            assert high_watermark >= replica.highest_seen, "a reader sees the end go back"
            news = replica.values(replica.highest_seen, high_watermark)
            for offset, value in enumerate(news, replica.highest_seen):
                assert self.committed.setdefault(offset, value) == value, "two values at one offset"
            replica.highest_seen = high_watermark
            if partition.followers is not None:
                partition.followers.check()
            for last_offset, value in replica.waiting:
                if last_offset < high_watermark:
                    self.acknowledged.add(value)

    def step(self) -> None:
        """Something happens.  How often what happens is another matter in every world."""
        action = self.random.choices(list(self.weights), list(self.weights.values()))[0]
        getattr(self, action)()
        self.check()

    def a_client_writes(self) -> None:
        leaders = [each for each in self.living if each.leads]
        if leaders:
            self.append(self.random.choice(leaders))

    def a_follower_asks(self) -> None:
        others = [each for each in self.living if not each.leads]
        if others:
            self.send_fetch(self.random.choice(others))

    def a_fetch_arrives(self) -> None:
        if self.fetches:
            self.serve_fetch()

    def an_image_arrives(self) -> None:
        if self.living:
            self.random.choice(self.living).learn()

    def a_proposal_arrives(self) -> None:
        if self.proposals:
            self.hear_proposal()

    def an_answer_arrives(self) -> None:
        if self.answers:
            self.hear_answer()

    def time_passes(self) -> None:
        self.clock.advance(self.random.choice([1, 100, 1_500]))
        for replica in self.living:
            if replica.leads:
                replica.partition.propose_shrink()

    def a_leader_is_elected(self) -> None:
        self.elect()

    def a_broker_dies(self) -> None:
        if len(self.living) < 2:
            return
        victim = self.random.choice(self.living)
        if self.random.random() < 0.5:
            victim.noted_high_watermark = victim.partition.high_watermark
        victim.die()
        if self.state.leader == victim.id or victim.id in self.state.isr:
            self.elect()

    def a_broker_returns(self) -> None:
        dead = [each for each in self.replicas.values() if not each.alive]
        if dead:
            self.random.choice(dead).start()
            if self.state.leader == NO_LEADER:
                self.elect()

    @property
    def living(self) -> list[Replica]:
        return [each for each in self.replicas.values() if each.alive]

    def settle(self) -> None:
        """No more faults: everybody hears everything, until all are the same."""
        for replica in self.replicas.values():
            if not replica.alive:
                replica.start()
        if self.state.leader == NO_LEADER or not self.replicas[self.state.leader].leads:
            self.elect()
        for _ in range(300):
            for replica in self.replicas.values():
                while replica.images:
                    replica.learn()
                if not replica.leads:
                    self.send_fetch(replica)
            while self.fetches:
                self.serve_fetch()
            while self.proposals:
                self.hear_proposal()
            while self.answers:
                self.hear_answer()
            self.check()
            ends = {each.partition.high_watermark for each in self.replicas.values()}
            ends |= {each.partition.log_end_offset for each in self.replicas.values()}
            if len(ends) == 1 and len(self.state.isr) == 3:
                return


@pytest.mark.parametrize("min_isr", [1, 2])
@pytest.mark.parametrize("block", range(6))
def test_nothing_committed_is_lost(block, min_isr):
    for seed in range(block * 10, block * 10 + 10):
        world = World(seed, min_isr)
        for _ in range(600):
            world.step()
        world.settle()
        logs = {
            tuple(each.values(0, each.partition.log_end_offset)) for each in world.replicas.values()
        }
        assert len(logs) == 1, f"seed {seed}: the replicas differ"
        (log,) = logs
        assert [world.committed[i] for i in range(len(world.committed))] == list(log)
        firsts = {each.split(b"-")[0] for each in log}
        assert world.acknowledged <= firsts, f"seed {seed}: an acknowledged batch is lost"
        assert set(world.state.isr) == {1, 2, 3}
