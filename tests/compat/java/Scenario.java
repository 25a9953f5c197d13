// What every Kafka user does, with the Java client: java Scenario HOST:PORT GROUP_PROTOCOL.  Prints a line for each
// step; an exception ends it with a code other than 0.

import java.time.Duration;
import java.util.*;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.*;

public class Scenario {
    static final int COUNT = 200;
    static final long START = System.currentTimeMillis() - 3_600_000;

    public static void main(String[] arguments) throws Exception {
        String bootstrap = arguments[0], groupProtocol = arguments[1];
        String topic = "java-" + UUID.randomUUID();
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", (Object) bootstrap))) {
            admin.createTopics(List.of(new NewTopic(topic, 2, (short) 1).configs(Map.of("retention.ms", "7200000"))))
                .all().get();
            TopicDescription described = admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic);
            check(described.partitions().size() == 2, "two partitions are described");
            produce(bootstrap, topic);
            consume(bootstrap, topic, groupProtocol);
            administrate(admin, topic);
            admin.deleteTopics(List.of(topic)).all().get();
            check(!admin.listTopics().names().get().contains(topic), "the topic is deleted");
        }
    }

    static void produce(String bootstrap, String topic) throws Exception {
        for (String codec : List.of("none", "gzip", "snappy", "lz4", "zstd")) {
            Properties settings = new Properties();
            settings.put("bootstrap.servers", bootstrap);
            settings.put("compression.type", codec);
            settings.put("enable.idempotence", "true");
            settings.put("linger.ms", "5");
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            try (Producer<String, String> producer =
                    new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
                for (int n = 0; n < COUNT; n++) {
                    ProducerRecord<String, String> record =
                        new ProducerRecord<>(topic, n % 2, START + n, "key" + n, codec + " " + n);
                    record.headers().add("codec", codec.getBytes());
                    sent.add(producer.send(record));
                }
                for (Future<RecordMetadata> each : sent) each.get();
            }
            System.out.println("produced with " + codec);
        }
    }

    static void consume(String bootstrap, String topic, String groupProtocol) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("group.id", "group-" + topic);
        settings.put("group.protocol", groupProtocol);
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        List<ConsumerRecord<String, String>> read = new ArrayList<>();
        try (Consumer<String, String> consumer = open(settings)) {
            consumer.subscribe(List.of(topic));
            while (read.size() < 5 * COUNT) consumer.poll(Duration.ofSeconds(1)).forEach(read::add);
            consumer.commitSync();
            ConsumerRecord<String, String> first = read.get(0);
            check(first.headers().lastHeader("codec").value().length > 0, "headers come back");
            check(first.timestamp() >= START, "timestamps come back");
            check(read.size() == 5 * COUNT, "everything comes back once");
        }
        try (Consumer<String, String> consumer = open(settings)) {
            TopicPartition partition = new TopicPartition(topic, 0);
            check(consumer.committed(Set.of(partition)).get(partition).offset() == 5 * COUNT / 2, "offsets are committed");
            OffsetAndTimestamp found = consumer.offsetsForTimes(Map.of(partition, START + 100)).get(partition);
            check(found.offset() == 50, "an offset is found by its time");
            check(consumer.endOffsets(Set.of(partition)).get(partition) == 5 * COUNT / 2, "the end is known");
        }
    }

    static Consumer<String, String> open(Properties settings) {
        return new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
    }

    static void administrate(Admin admin, String topic) throws Exception {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        check(config(admin, resource, "retention.ms").equals("7200000"), "settings can be read");
        AlterConfigOp change = new AlterConfigOp(new ConfigEntry("retention.ms", "3600000"), AlterConfigOp.OpType.SET);
        admin.incrementalAlterConfigs(Map.of(resource, List.of(change))).all().get();
        check(config(admin, resource, "retention.ms").equals("3600000"), "settings can be changed");
        String group = "group-" + topic;
        check(admin.describeConsumerGroups(List.of(group)).all().get().containsKey(group), "groups can be described");
        check(admin.describeCluster().nodes().get().size() == 1, "the cluster can be described");
        admin.deleteConsumerGroups(List.of(group)).all().get();
    }

    static String config(Admin admin, ConfigResource resource, String name) throws Exception {
        return admin.describeConfigs(List.of(resource)).all().get().get(resource).get(name).value();
    }

    static void check(boolean holds, String what) {
        if (!holds) throw new AssertionError("not so: " + what);
        System.out.println(what);
    }
}
