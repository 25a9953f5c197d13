"""Topics at the target: made like those of the source, and kept so.

A topic gets as many partitions as at the source and the settings that are not the source's defaults; both are brought
up to date when they change there.  Nothing is ever taken away: no partition, no topic, no rule.
"""

import logging
from collections.abc import Callable, Iterable
from dataclasses import replace

from tidelog.client.admin import AsyncAdmin
from tidelog.client.admin_security import AclFilter
from tidelog.errors import InvalidConfig, KafkaError, SecurityDisabled, TopicAlreadyExists

_log = logging.getLogger(__name__)

_LOCAL = frozenset(
    (
        "min.insync.replicas",  # the target may have fewer brokers
        "leader.replication.throttled.replicas",
        "follower.replication.throttled.replicas",
    )
)
"""Settings that are about the source's brokers rather than about the topic."""


class TopicKeeper:
    """Keeps the target's topics like the source's."""

    def __init__(
        self,
        source: AsyncAdmin,
        target: AsyncAdmin,
        rename: Callable[[str], str],
        *,
        copy_acls: bool = False,
    ) -> None:
        self._source = source
        self._target = target
        self._rename = rename
        self._copy_acls = copy_acls
        self._configs: dict[str, dict[str, str]] = {}
        """What the target was told last."""
        self._told_of_acls = False

    async def ensure(self, topics: Iterable[str]) -> None:
        """Make what is missing, and bring the rest up to date."""
        names = sorted(set(topics))
        if not names:
            return
        here = await self._source.describe_topics(names)
        there = set(await self._target.list_topics(internal=True))
        for name in names:
            partitions = len(here[name].partitions)
            renamed = self._rename(name)
            configs = await self._configs_of(name)
            if renamed not in there:
                await self._create(renamed, partitions, configs)
            else:
                found = await self._target.describe_topics([renamed])
                if len(found[renamed].partitions) < partitions:
                    await self._target.add_partitions(renamed, partitions)
            if configs != self._configs.get(renamed):
                await self._configure(renamed, configs)
            self._configs[renamed] = configs
        if self._copy_acls:
            await self._add_acls(names)

    async def _configs_of(self, topic: str) -> dict[str, str]:
        found = await self._source.describe_topic_configs(topic)
        return {
            name: each.value
            for name, each in found.items()
            if each.is_own and name not in _LOCAL and each.value is not None
        }

    async def _create(self, topic: str, partitions: int, configs: dict[str, str]) -> None:
        try:
            await self._target.create_topics({topic: partitions}, configs=configs)
        except TopicAlreadyExists:
            return  # another mirror was faster
        except InvalidConfig:
            # Brokers of another make or age know other settings; `_configure` finds out which.
            await self._target.create_topics({topic: partitions})
        _log.info("made topic %s with %d partitions", topic, partitions)

    async def _configure(self, topic: str, configs: dict[str, str]) -> None:
        now = await self._target.describe_topic_configs(topic)
        for name, value in configs.items():
            if name in now and now[name].value == value:
                continue
            try:
                await self._target.alter_topic_configs(topic, {name: value})
            except KafkaError as error:
                _log.warning("%s=%s was not set for topic %s: %s", name, value, topic, error)

    async def _add_acls(self, topics: list[str]) -> None:
        about_topics = AclFilter(resource_type="topic")
        try:
            here = await self._source.describe_acls(about_topics)
            there = set(await self._target.describe_acls(about_topics))
        except SecurityDisabled as error:
            if not self._told_of_acls:
                _log.warning("access rules are not copied, a side has none: %s", error)
            self._told_of_acls = True
            return
        wanted = set(topics)
        # A rule for a prefix of names would mean other topics under other names.
        copies = [
            replace(each, resource_name=self._rename(each.resource_name))
            for each in here
            if each.pattern_type == "literal" and each.resource_name in wanted
        ]
        missing = [each for each in copies if each not in there]
        if missing:
            await self._target.create_acls(missing)
            _log.info("copied %d access rules", len(missing))
