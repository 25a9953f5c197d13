"""The two code samples of the Kafka paper (NetDB 2011, section 2), nearly word for word."""

from tidelog import Consumer, Producer


def test_the_samples_of_the_paper(bootstrap: str, topic: str) -> None:
    topic1 = topic

    # Sample producer code
    producer = Producer(bootstrap_servers=bootstrap)
    message = b"test message str"
    messages = [message]
    producer.send_many(topic1, messages)
    producer.close()

    # Sample consumer code
    consumer = Consumer(bootstrap_servers=bootstrap, auto_offset_reset="smallest")
    streams = consumer.streams(topic1, 1)
    for each in streams[0]:
        payload = each.payload
        assert payload == b"test message str"
        break
    consumer.close()
