import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeSet;
import org.apache.kafka.clients.admin.AbortTransactionSpec;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.TransactionState;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Transactions with the Java client: 3.x adds partitions by hand, 4.x leaves that to its batches (KIP-890). */
public class Transactions {
    private static final int COUNT = 40;
    private static String bootstrap;

    public static void main(String[] args) throws Exception {
        bootstrap = args[0];
        String input = args[1] + "-in";
        String output = args[1] + "-out";
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", (Object) bootstrap))) {
            short one = 1;
            admin.createTopics(List.of(new NewTopic(input, 2, one), new NewTopic(output, 2, one))).all().get();
            commitAndAbort(input);
            copy(admin, input, output);
            fence(admin, input);
        }
        System.exit(0);
    }

    private static void commitAndAbort(String topic) {
        try (var producer = producer(topic)) {
            producer.initTransactions();
            for (int number = 0; number < 2 * COUNT; number++) {
                producer.beginTransaction();
                for (int partition = 0; partition < 2; partition++) {
                    producer.send(new ProducerRecord<>(topic, partition, "k", number + "-" + partition));
                }
                if (number % 2 == 0) {
                    producer.commitTransaction();
                } else {
                    producer.flush();
                    producer.abortTransaction();
                }
            }
        }
        check(read(topic, "read_committed").size() == 2 * COUNT, "committed records");
        check(read(topic, "read_uncommitted").size() == 4 * COUNT, "all records");
    }

    /** Consume, transform, produce; the first attempt is aborted and leaves nothing. */
    private static void copy(Admin admin, String input, String output) throws Exception {
        try (var producer = producer(output); var consumer = consumer(output, "read_committed")) {
            producer.initTransactions();
            consumer.subscribe(List.of(input));
            boolean aborted = false;
            for (int seen = 0; seen < 2 * COUNT; ) {
                var records = consumer.poll(Duration.ofSeconds(1));
                if (records.isEmpty()) {
                    continue;
                }
                var offsets = new HashMap<TopicPartition, OffsetAndMetadata>();
                producer.beginTransaction();
                for (var each : records) {
                    producer.send(new ProducerRecord<>(output, each.partition(), each.key(), each.value()));
                    offsets.put(new TopicPartition(input, each.partition()), new OffsetAndMetadata(each.offset() + 1));
                }
                producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
                if (!aborted) {
                    aborted = true;
                    producer.abortTransaction();
                    consumer.seekToBeginning(consumer.assignment());
                    check(committed(admin, output).isEmpty(), "no offsets after an abort");
                    continue;
                }
                producer.commitTransaction();
                seen += records.count();
            }
        }
        var copied = read(output, "read_committed");
        check(copied.equals(read(input, "read_committed")), "every record once");
        check(new TreeSet<>(copied).size() == copied.size(), "no record twice");
        check(committed(admin, output).size() == 2, "committed offsets");
    }

    private static Map<TopicPartition, OffsetAndMetadata> committed(Admin admin, String group) throws Exception {
        return admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get();
    }

    private static void fence(Admin admin, String topic) throws Exception {
        int before = read(topic, "read_committed").size();
        try (var zombie = producer(topic); var successor = producer(topic)) {
            zombie.initTransactions();
            zombie.beginTransaction();
            zombie.send(new ProducerRecord<>(topic, 0, "k", "zombie")).get();
            var described = admin.describeTransactions(List.of(topic)).description(topic).get();
            check(described.state() == TransactionState.ONGOING, "it is ongoing");
            check(described.topicPartitions().size() == 1, "its partitions");
            check(admin.listTransactions().all().get().size() >= 2, "transactions are listed");
            successor.initTransactions();
            try {
                zombie.commitTransaction();
                check(false, "the zombie is fenced");
            } catch (ProducerFencedException expected) {
                check(read(topic, "read_committed").size() == before, "nothing of the zombie");
            }
            successor.beginTransaction();
            successor.send(new ProducerRecord<>(topic, 0, "k", "hanging")).get();
            abortByHand(admin, new TopicPartition(topic, 0));
            check(read(topic, "read_committed").size() == before, "nothing of what hung");
            admin.fenceProducers(List.of(topic)).all().get();
        }
    }

    private static void abortByHand(Admin admin, TopicPartition partition) throws Exception {
        var producers = admin.describeProducers(List.of(partition)).partitionResult(partition).get();
        for (var each : producers.activeProducers()) {
            if (each.currentTransactionStartOffset().isPresent()) {
                admin.abortTransaction(new AbortTransactionSpec(partition, each.producerId(),
                        (short) each.producerEpoch(), each.coordinatorEpoch().orElse(0))).all().get();
            }
        }
    }

    /** All values that there are now, sorted; an open transaction would make this take for ever. */
    private static List<String> read(String topic, String isolation) {
        try (var consumer = consumer("readers", isolation)) {
            var partitions = List.of(new TopicPartition(topic, 0), new TopicPartition(topic, 1));
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            var ends = consumer.endOffsets(partitions);
            var values = new ArrayList<String>();
            while (partitions.stream().anyMatch(each -> consumer.position(each) < ends.get(each))) {
                consumer.poll(Duration.ofMillis(100)).forEach(each -> values.add(each.value()));
            }
            values.sort(null);
            return values;
        }
    }

    private static KafkaProducer<String, String> producer(String transactionalId) {
        var settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("transactional.id", transactionalId);
        return new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
    }

    private static KafkaConsumer<String, String> consumer(String group, String isolation) {
        var settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("group.id", group);
        settings.put("isolation.level", isolation);
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        return new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
    }

    private static void check(boolean holds, String what) {
        if (!holds) {
            throw new AssertionError(what);
        }
    }
}
