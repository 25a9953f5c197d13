import java.util.Arrays;
import javax.jms.*;
import org.apache.activemq.ActiveMQConnectionFactory;
import org.apache.activemq.ActiveMQPrefetchPolicy;

/** Drives ActiveMQ over OpenWire, its own protocol, by its own client.
 *
 *    java Jms produce URL QUEUE COUNT SIZE ASYNC     persistent messages; with ASYNC=true nobody waits for an answer
 *    java Jms consume URL QUEUE COUNT SIZE           acknowledged automatically, 1000 messages ahead, as in the paper
 */
public class Jms {
    static final int POINTS = 40, VALUES = 500;
    static final long[] marks = new long[POINTS + 1];
    static int marked;

    static void mark(long done, long all) {
        while (marked <= POINTS && done >= all * marked / POINTS) marks[marked++] = System.nanoTime();
    }

    public static void main(String[] a) throws Exception {
        long count = Long.parseLong(a[3]);
        int size = Integer.parseInt(a[4]);
        ActiveMQConnectionFactory factory = new ActiveMQConnectionFactory(a[1]);
        factory.setUseAsyncSend(a.length > 5 && a[5].equals("true"));
        factory.setAlwaysSyncSend(a.length > 5 && a[5].equals("false"));
        factory.setCopyMessageOnSend(false);
        factory.setWatchTopicAdvisories(false);
        ActiveMQPrefetchPolicy policy = new ActiveMQPrefetchPolicy();
        policy.setQueuePrefetch(1000);
        factory.setPrefetchPolicy(policy);
        Connection connection = factory.createConnection();
        connection.start();
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        Queue queue = session.createQueue(a[2]);
        Queue other = session.createQueue(a[2] + ".warm");
        boolean producing = a[0].equals("produce");
        // Half as much beforehand, into a queue of its own: this JVM compiles what is hot, too.
        if (count > 1000 && producing) produce(session, other, count / 2, size);
        if (count > 1000 && !producing) consume(session, other, count / 2);
        marked = 0;
        long took = producing ? produce(session, queue, count, size) : consume(session, queue, count);
        double seconds = took / 1e9;
        StringBuilder line = new StringBuilder(String.format(java.util.Locale.ROOT,
            "{\"messages\": %d, \"seconds\": %.4f, \"messages_per_s\": %.0f, \"mb_per_s\": %.2f, \"timeline\": [",
            count, seconds, count / seconds, count * (double) size / seconds / 1e6));
        for (int i = 1; i < marked; i++)
            line.append(String.format(java.util.Locale.ROOT, "%s[%.1f, %.0f]", i > 1 ? ", " : "", (double) count * i / POINTS * size / 1e6,
                (double) count / POINTS / Math.max(marks[i] - marks[i - 1], 1) * 1e9));
        System.out.println(line.append("]}"));
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    static long produce(Session session, Queue queue, long count, int size) throws Exception {
        MessageProducer producer = session.createProducer(queue);
        producer.setDeliveryMode(DeliveryMode.PERSISTENT);
        producer.setDisableMessageID(true);
        byte[][] values = new byte[VALUES][size];
        java.util.Random random = new java.util.Random(1);
        for (byte[] value : values) {
            Arrays.fill(value, (byte) '=');
            for (int k = 0; k < size / 2; k++) value[k] = (byte) "0123456789abcdef".charAt(random.nextInt(16));
        }
        long start = System.nanoTime();
        mark(0, count);
        for (long i = 0; i < count; i++) {
            BytesMessage message = session.createBytesMessage();
            message.writeBytes(values[(int) (i % VALUES)]);
            producer.send(message);
            mark(i + 1, count);
        }
        producer.close();
        session.createTemporaryQueue(); // answered by the broker, after all before it
        return System.nanoTime() - start;
    }

    static long consume(Session session, Queue queue, long count) throws Exception {
        MessageConsumer consumer = session.createConsumer(queue);
        if (consumer.receive(60_000) == null) throw new RuntimeException("no message came");
        long start = System.nanoTime();
        mark(0, count);
        for (long i = 1; i < count; i++) {
            if (consumer.receive(60_000) == null) throw new RuntimeException("only " + i + " messages came");
            mark(i + 1, count);
        }
        long end = System.nanoTime();
        consumer.close();
        return end - start;
    }
}
