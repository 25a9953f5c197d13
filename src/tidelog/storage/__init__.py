"""The storage engine: Kafka's files on disk, one log per partition."""
