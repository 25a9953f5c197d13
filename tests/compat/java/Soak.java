import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringSerializer;

/** Transactional producers in threads of one process, as `tests/faults/soak_client.py` has them; see there. */
public class Soak implements Runnable {
    private static final String TOPIC = "soak";
    private static final int PARTITIONS = 12;
    private static final int RECORDS = 4;
    private static final int OFFSETS_EVERY = 3;
    private static final int ABORTED_EVERY = 7;

    private final String bootstrap;
    private final String name;
    private final int count;
    private final Random random;
    private KafkaProducer<String, String> producer;

    private Soak(String bootstrap, String name, int count, long seed) {
        this.bootstrap = bootstrap;
        this.name = name;
        this.count = count;
        this.random = new Random(seed);
    }

    public static void main(String[] args) throws Exception {
        List<Thread> threads = new ArrayList<>();
        for (int each = 0; each < Integer.parseInt(args[2]); each++) {
            long seed = Long.parseLong(args[4]) * 1000 + each;
            threads.add(new Thread(new Soak(args[0], args[1] + "-" + each, Integer.parseInt(args[3]), seed)));
        }
        threads.forEach(Thread::start);
        for (Thread each : threads) {
            each.join();
        }
        System.exit(0);
    }

    @Override
    public void run() {
        for (int number = 0; number < count; number++) {
            long began = System.nanoTime();
            String outcome = one(number);
            double takenMs = (System.nanoTime() - began) / 1e6;
            System.out.println(name + " " + number + " " + outcome + " " + Math.round(takenMs));
        }
        producer.close();
    }

    /** How the transaction ended. */
    private String one(int number) {
        boolean committing = false;
        try {
            begin();
            for (int record = 0; record < RECORDS; record++) {
                String value = name + "/" + number + "/" + record;
                producer.send(new ProducerRecord<>(TOPIC, random.nextInt(PARTITIONS), "k", value));
            }
            if (number % OFFSETS_EVERY == 0) {
                producer.sendOffsetsToTransaction(
                        Map.of(new TopicPartition(TOPIC, 0), new OffsetAndMetadata(number + 1)),
                        new ConsumerGroupMetadata(name));
            }
            if (number % ABORTED_EVERY == 0) {
                producer.flush();
                producer.abortTransaction();
                return "aborted";
            }
            committing = true;
            producer.commitTransaction();
            return "committed";
        } catch (KafkaException error) {
            System.err.println(name + " " + number + " failed " + error);
            replace();
            return committing ? "unknown" : "aborted";
        }
    }

    /** A new producer ends what the last has left. */
    private void begin() {
        if (producer == null) {
            var settings = new Properties();
            settings.put("bootstrap.servers", bootstrap);
            settings.put("transactional.id", name);
            settings.put("linger.ms", "0");
            producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
            producer.initTransactions();
        }
        producer.beginTransaction();
    }

    private void replace() {
        var old = producer;
        producer = null;
        old.close(java.time.Duration.ZERO);
    }
}
