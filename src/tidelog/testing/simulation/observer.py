"""Looks at the cluster from above: what the metadata says, whatever any broker believes."""

from tidelog.cluster import metadata
from tidelog.cluster.image import Image
from tidelog.metastore.memory import MemoryStore


class Observer:
    """Reads the store directly; it has no link that could be cut."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._image = Image()

    @property
    def image(self) -> Image:
        """The newest picture."""
        store = self._store
        if store.snapshot is not None and store.snapshot.number > self._image.number:
            snapshot = store.snapshot
            self._image, _ = Image().apply(metadata.decode(snapshot.data), snapshot.number)
        for entry in store.log:
            if entry.number > self._image.number:
                self._image, _ = self._image.apply(metadata.decode(entry.data), entry.number)
        return self._image

    def controller(self) -> int:
        """The member whose session leads; -1 for none."""
        leader = self._store.leader
        return -1 if leader is None else leader.member

    def behind(self) -> list[str]:
        """The partitions that lack a leader or an in-sync replica."""
        return [
            f"{topic.name}-{index} (leader {state.leader}, in sync {list(state.isr)})"
            for topic in self.image.topics.values()
            for index, state in enumerate(topic.partitions)
            if set(state.isr) != set(state.replicas) or state.leader < 0
        ]
