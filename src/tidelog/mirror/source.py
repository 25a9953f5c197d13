"""A consumer that reads one cluster and whose group another one keeps.

A mirror's group is kept by the target: there its positions can be committed in the transaction that writes the records,
and there the coordinator refuses a member that was replaced (KIP-447), so that no record is passed on by two.
"""

from collections.abc import Callable
from typing import Any

from tidelog.client.cluster import GROUP, Cluster
from tidelog.client.consumer import AsyncConsumer
from tidelog.client.fetcher import Fetcher
from tidelog.client.group_requests import CommittedOffset, GroupMetadata
from tidelog.client.metrics import ConsumerMetrics
from tidelog.client.settings import ClientSettings
from tidelog.errors import TidelogError
from tidelog.names import TopicPartition
from tidelog.protocol.schema import Request, Response

Rename = Callable[[TopicPartition], TopicPartition]


class SourceConsumer(AsyncConsumer):
    """Its positions are committed under the names of the target's partitions."""

    def __init__(self, target: Cluster, rename: Rename, config: dict[str, Any]) -> None:
        self._target = target
        self._rename = rename
        super().__init__(config)

    def member(self) -> GroupMetadata:
        """Who we are to the group now.

        Not who we were when the partitions came, as `group_metadata` says: in a cooperative rebalance those that are to go
        are ours until we have said that we are done with them, and that is said in the new generation.
        """
        mine = self.membership
        if mine is None or mine.generation < 0 or not mine.member_id:
            # Without a generation a commit in a transaction would be taken from anyone.
            raise TidelogError(f"group {self.settings.group_id!r} has gone on without this mirror")
        return GroupMetadata(
            self.settings.group_id, mine.generation, mine.member_id, mine.instance_id
        )

    def _make_cluster(self, metrics: ConsumerMetrics) -> Cluster:
        return _SourceCluster(self.settings, self._target, metrics)

    def _make_fetcher(self, metrics: ConsumerMetrics) -> Fetcher:
        fetcher = _SourceFetcher(self.cluster, self.settings, metrics)
        fetcher.rename = self._rename
        return fetcher


class _SourceCluster(Cluster):
    """Metadata and leaders are the source's, coordinators are the target's."""

    def __init__(self, settings: ClientSettings, target: Cluster, metrics: ConsumerMetrics) -> None:
        super().__init__(settings, metrics=metrics)
        self._target = target

    async def ask_coordinator(
        self,
        key: str,
        request: Request,
        *,
        kind: str = GROUP,
        timeout_s: float | None = None,
        at_most: int = 32767,
    ) -> Response:
        return await self._target.ask_coordinator(
            key, request, kind=kind, timeout_s=timeout_s, at_most=at_most
        )

    async def coordinator(self, key: str, kind: str = GROUP) -> int:
        return await self._target.coordinator(key, kind)

    def forget_coordinator(self, key: str, kind: str = GROUP) -> None:
        self._target.forget_coordinator(key, kind)


class _SourceFetcher(Fetcher):
    """Finds its positions under the names that the topics have at the target: no broker keeps others."""

    rename: Rename

    async def _committed(
        self, group: str, partitions: list[TopicPartition]
    ) -> dict[TopicPartition, CommittedOffset]:
        there = {self.rename(tp): tp for tp in partitions}
        found = await super()._committed(group, list(there))
        # An epoch there would be the target's.
        return {there[tp]: CommittedOffset(each.offset, "") for tp, each in found.items()}
