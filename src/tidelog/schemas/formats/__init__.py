"""The schema languages: Avro, JSON Schema and Protobuf, a module each."""
