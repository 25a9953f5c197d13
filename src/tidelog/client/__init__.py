"""The clients: Producer, Consumer, SimpleConsumer and Admin, with an async core and a blocking face.

What is shared stands at the bottom (`settings`, `connection`, `cluster`, `background`); each client is an async class,
exported by `tidelog.aio`, and a blocking one of the same name, exported by `tidelog`, which runs the async one's
I/O in a thread of its own and encodes or decodes records in the caller's.  They speak to Apache Kafka as well.

Absent: TLS and SASL.
"""
