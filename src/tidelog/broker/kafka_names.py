"""Names of settings that Kafka's brokers know, from 0.8 to 4.x.

A server.properties file written for Kafka must load, so a name on this page is accepted even where tidelog has no use
for it; the broker says at start which ones it does not use.  Declaring a setting in a section is enough to
make it used: nothing has to be taken off this page.
"""

PREFIXES = (
    "confluent.",
    "config.providers",
    "kafka.metrics.",
    "log4j.",
    "metric.reporters",
    "metrics.",
    "remote.log.",
    "rlmm.",
    "rsm.",
    "strimzi.",
    "zookeeper.",
)
"""Families in which Kafka's plug-ins have names of their own.  Those of security are not here: see security_settings.py."""

_NAMES = """
    advertised.host.name advertised.port alter.config.policy.class.name
    alter.log.dirs.replication.quota.window.num alter.log.dirs.replication.quota.window.size.seconds
    authorizer.class.name auto.include.jmx.reporter background.threads
    broker.heartbeat.interval.ms broker.id.generation.enable broker.rack broker.session.timeout.ms
    client.quota.callback.class connection.failed.authentication.delay.ms connections.max.reauth.ms
    control.plane.listener.name controlled.shutdown.max.retries
    controlled.shutdown.retry.backoff.ms controller.listener.names controller.message.queue.size
    controller.performance.always.log.threshold.ms controller.performance.sample.period.ms
    controller.quorum.append.linger.ms controller.quorum.bootstrap.servers controller.quorum.election.backoff.max.ms
    controller.quorum.election.timeout.ms controller.quorum.fetch.timeout.ms controller.quorum.request.timeout.ms
    controller.quorum.retry.backoff.ms controller.quorum.voters controller.quorum.auto.join.enable
    controller.quota.window.num controller.quota.window.size.seconds controller.socket.timeout.ms
    create.topic.policy.class.name delegation.token.expiry.check.interval.ms delegation.token.expiry.time.ms
    delegation.token.master.key delegation.token.max.lifetime.ms delegation.token.secret.key
    delete.records.purgatory.purge.interval.requests early.start.listeners eligible.leader.replicas.enable
    fetch.max.bytes fetch.purgatory.purge.interval.requests follower.replication.throttled.rate
    follower.replication.throttled.replicas group.consumer.heartbeat.interval.ms
    group.consumer.max.heartbeat.interval.ms group.consumer.max.session.timeout.ms group.consumer.migration.policy
    group.consumer.min.heartbeat.interval.ms group.consumer.min.session.timeout.ms
    group.consumer.regex.refresh.interval.ms group.coordinator.append.linger.ms group.coordinator.new.enable
    group.coordinator.rebalance.protocols group.coordinator.threads group.share.assignors
    group.share.delivery.count.limit group.share.enable group.share.heartbeat.interval.ms group.share.max.groups
    group.share.max.heartbeat.interval.ms group.share.max.record.lock.duration.ms
    group.share.max.session.timeout.ms group.share.max.share.sessions group.share.max.size
    group.share.min.heartbeat.interval.ms group.share.min.record.lock.duration.ms
    group.share.min.session.timeout.ms group.share.partition.max.record.locks
    group.share.record.lock.duration.ms group.share.session.timeout.ms group.streams.heartbeat.interval.ms
    group.streams.max.size group.streams.num.standby.replicas group.streams.session.timeout.ms host.name
    initial.broker.registration.timeout.ms inter.broker.listener.name inter.broker.protocol.version
    internal.metadata.delete.delay.millis internal.metadata.log.segment.bytes
    internal.metadata.max.batch.size.in.bytes internal.metadata.max.fetch.size.in.bytes
    leader.replication.throttled.rate leader.replication.throttled.replicas listener.security.protocol.map
    log.cleaner.backoff.ms log.cleaner.dedupe.buffer.size log.cleaner.enable log.cleaner.io.buffer.load.factor
    log.cleaner.io.buffer.size log.cleaner.io.max.bytes.per.second log.cleaner.threads log.dir.failure.timeout.ms
    log.flush.offset.checkpoint.interval.ms log.flush.scheduler.interval.ms
    log.flush.start.offset.checkpoint.interval.ms log.initial.task.delay.ms log.local.retention.bytes
    log.local.retention.ms log.message.downconversion.enable log.message.format.version
    log.message.timestamp.difference.max.ms log.retention.check.interval.ms max.connection.creation.rate
    max.incremental.fetch.session.cache.slots max.request.partition.size.limit
    metadata.log.dir metadata.log.max.record.bytes.between.snapshots metadata.log.max.snapshot.interval.ms
    metadata.log.segment.bytes metadata.log.segment.min.bytes metadata.log.segment.ms
    metadata.max.idle.interval.ms metadata.max.retention.bytes metadata.max.retention.ms num.io.threads
    num.network.threads num.recovery.threads.per.data.dir num.replica.alter.log.dirs.threads num.replica.fetchers
    offsets.commit.required.acks offsets.commit.timeout.ms offsets.load.buffer.size
    offsets.retention.check.interval.ms offsets.topic.compression.codec password.encoder.cipher.algorithm
    password.encoder.iterations password.encoder.key.length password.encoder.keyfactory.algorithm
    password.encoder.old.secret password.encoder.secret port principal.builder.class process.roles
    producer.id.expiration.check.interval.ms producer.id.expiration.ms producer.purgatory.purge.interval.requests
    queued.max.requests quota.consumer.default quota.producer.default quota.window.num quota.window.size.seconds
    replica.alter.log.dirs.io.max.bytes.per.second replica.fetch.backoff.ms replica.fetch.max.bytes
    replica.fetch.min.bytes replica.fetch.response.max.bytes replica.fetch.wait.max.ms
    replica.high.watermark.checkpoint.interval.ms replica.lag.max.messages replica.lag.time.max.ms
    replica.selector.class replica.socket.receive.buffer.bytes replica.socket.timeout.ms
    replication.quota.window.num replication.quota.window.size.seconds request.timeout.ms
    reserved.broker.max.id security.inter.broker.protocol security.providers server.max.startup.time.ms
    share.coordinator.append.linger.ms share.coordinator.load.buffer.size
    share.coordinator.snapshot.update.records.per.snapshot share.coordinator.state.topic.compression.codec
    share.coordinator.state.topic.min.isr share.coordinator.state.topic.num.partitions
    share.coordinator.state.topic.replication.factor share.coordinator.state.topic.segment.bytes
    share.coordinator.threads share.coordinator.write.timeout.ms share.fetch.max.fetch.records
    share.fetch.purgatory.purge.interval.requests telemetry.max.bytes
    transaction.abort.timed.out.transaction.cleanup.interval.ms transaction.max.timeout.ms
    transaction.partition.verification.enable transaction.remove.expired.transaction.cleanup.interval.ms
    transaction.state.log.load.buffer.size transaction.state.log.min.isr transaction.state.log.num.partitions
    transaction.state.log.replication.factor transaction.state.log.segment.bytes
    transaction.two.phase.commit.enable transactional.id.expiration.ms unclean.leader.election.interval.ms
    unstable.api.versions.enable unstable.feature.versions.enable
"""

NAMES = frozenset(_NAMES.split())
