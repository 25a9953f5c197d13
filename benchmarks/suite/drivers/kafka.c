/* Drives a broker that speaks Kafka's protocol, with librdkafka.
 *
 *   kafka produce bootstrap=HOST:PORT topic=T count=N size=BYTES [acks=1] [batch=MESSAGES] [batch_bytes=] [linger_ms=]
 *                 [codec=none] [in_flight=] [idempotence=false] [partitions=1, which it is with acks=0]
 *   kafka consume bootstrap= topic= count= size= [fetch_bytes=1048576] [partitions=1] [offset=beginning]
 *   kafka latency bootstrap= topic= rate=MESSAGES_PER_S seconds= size= [linger_ms=0] [acks=1]
 *   kafka version
 *   kafka mock                a cluster of one in this process: prints its address and stays
 *
 * Prints one line of JSON.  A message that is not delivered ends the run with an error. */

#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>
#include <pthread.h>

#include "timeline.h"

static long delivered, wanted;
static char reason[512];

static void on_delivery(rd_kafka_t *rk, const rd_kafka_message_t *message, void *opaque) {
    (void)rk, (void)opaque;
    if (message->err) fail("a message was not delivered", rd_kafka_err2str(message->err));
    mark(++delivered, wanted);
}

static void set(rd_kafka_conf_t *conf, const char *name, const char *value) {
    if (rd_kafka_conf_set(conf, name, value, reason, sizeof reason) != RD_KAFKA_CONF_OK) fail(name, reason);
}

static void set_number(rd_kafka_conf_t *conf, const char *name, double value) {
    char digits[32];
    snprintf(digits, sizeof digits, "%.0f", value);
    set(conf, name, digits);
}

static rd_kafka_conf_t *configuration(void) {
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    set(conf, "bootstrap.servers", text("bootstrap", "127.0.0.1:9092"));
    set(conf, "broker.address.family", "v4");
    return conf;
}

static rd_kafka_t *producer(void) {
    rd_kafka_conf_t *conf = configuration();
    double linger = number("linger_ms", -1);
    set(conf, "acks", text("acks", "1"));
    set(conf, "compression.type", text("codec", "none"));
    set(conf, "enable.idempotence", text("idempotence", "false"));
    set(conf, "queue.buffering.max.messages", "1000000");
    set(conf, "queue.buffering.max.kbytes", "1048576");
    if (number("batch", 0)) set_number(conf, "batch.num.messages", number("batch", 0));
    if (number("batch_bytes", 0)) set_number(conf, "batch.size", number("batch_bytes", 0));
    if (number("batch_bytes", 0) > 900000) set_number(conf, "message.max.bytes", number("batch_bytes", 0) + 100000);
    if (linger >= 0) set(conf, "linger.ms", text("linger_ms", "0"));
    if (number("in_flight", 0)) set_number(conf, "max.in.flight.requests.per.connection", number("in_flight", 0));
    rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
    rd_kafka_t *rk = rd_kafka_new(RD_KAFKA_PRODUCER, conf, reason, sizeof reason);
    if (!rk) fail("producer", reason);
    return rk;
}

static void send_one(rd_kafka_t *rk, rd_kafka_topic_t *topic, int32_t partition, const void *value, size_t size) {
    while (rd_kafka_produce(topic, partition, RD_KAFKA_MSG_F_COPY, (void *)value, size, NULL, 0, NULL)) {
        if (rd_kafka_last_error() != RD_KAFKA_RESP_ERR__QUEUE_FULL)
            fail("produce", rd_kafka_err2str(rd_kafka_last_error()));
        rd_kafka_poll(rk, 10);
    }
}

/* The connection and the topic's metadata are there before the clock runs. */
static void wait_for_topic(rd_kafka_t *rk, rd_kafka_topic_t *topic) {
    const struct rd_kafka_metadata *found;
    for (int tries = 0; tries < 300; tries++) {
        rd_kafka_resp_err_t error = rd_kafka_metadata(rk, 0, topic, &found, 10000);
        int there = !error && found->topic_cnt == 1 && !found->topics[0].err && found->topics[0].partition_cnt > 0;
        if (!error) rd_kafka_metadata_destroy(found);
        if (there) return;
        usleep(100000);
    }
    fail("topic", "it did not come");
}

static int produce(void) {
    long count = number("count", 100000), size = number("size", 200);
    int partitions = number("partitions", 1);
    rd_kafka_t *rk = producer();
    rd_kafka_topic_t *topic = rd_kafka_topic_new(rk, text("topic", "bench"), NULL);
    wait_for_topic(rk, topic);
    make_values(size);
    wanted = 1;
    send_one(rk, topic, 0, values[0], size);
    if (rd_kafka_flush(rk, 60000)) fail("flush", "the first message was not delivered");
    delivered = marked = 0;
    wanted = count;
    uint64_t start = now_ns();
    mark(0, count);
    /* A partition gets a run of messages before the next has its turn, so that batches fill as they would with keys in a queue. */
    for (long i = 0; i < count; i++) {
        send_one(rk, topic, partitions > 1 ? (int32_t)(i / 16 % partitions) : 0, values[i % VALUES], size);
        if (i % 256 == 0) rd_kafka_poll(rk, 0);
    }
    while (delivered < count) rd_kafka_poll(rk, 100);
    /* Without acknowledgements a message counts as delivered when it is sent: the end is when the broker has it. */
    if (!strcmp(text("acks", "1"), "0"))
        for (int64_t low, high = 0; high <= count;)
            if (rd_kafka_query_watermark_offsets(rk, text("topic", "bench"), 0, &low, &high, 60000)) fail("offsets", "no answer");
    uint64_t end = now_ns();
    print_run(count, size, start, end);
    print_timeline(count, size);
    printf("}\n");
    return 0;
}

static rd_kafka_t *consumer(long fetch_bytes) {
    rd_kafka_conf_t *conf = configuration();
    char group[64];
    snprintf(group, sizeof group, "bench-%d", (int)getpid());
    set(conf, "group.id", group);
    set(conf, "enable.auto.commit", "false");
    set(conf, "auto.offset.reset", "earliest");
    set_number(conf, "max.partition.fetch.bytes", fetch_bytes);
    set_number(conf, "fetch.max.bytes", fetch_bytes > 1000000 ? 50e6 : fetch_bytes);
    if (fetch_bytes <= 1000000) set_number(conf, "message.max.bytes", fetch_bytes);
    set(conf, "fetch.wait.max.ms", "100");
    set(conf, "queued.min.messages", "100000");
    rd_kafka_t *rk = rd_kafka_new(RD_KAFKA_CONSUMER, conf, reason, sizeof reason);
    if (!rk) fail("consumer", reason);
    rd_kafka_poll_set_consumer(rk);
    return rk;
}

static void assign(rd_kafka_t *rk, const char *topic, int partitions, int64_t offset) {
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(partitions);
    for (int i = 0; i < partitions; i++) rd_kafka_topic_partition_list_add(list, topic, i)->offset = offset;
    rd_kafka_resp_err_t error = rd_kafka_assign(rk, list);
    if (error) fail("assign", rd_kafka_err2str(error));
    rd_kafka_topic_partition_list_destroy(list);
}

static int consume(void) {
    long count = number("count", 100000), size = number("size", 200), done = 0;
    rd_kafka_t *rk = consumer(number("fetch_bytes", 1048576));
    rd_kafka_queue_t *queue = rd_kafka_queue_get_consumer(rk);
    rd_kafka_message_t *messages[1000];
    assign(rk, text("topic", "bench"), number("partitions", 1), RD_KAFKA_OFFSET_BEGINNING);
    uint64_t start = 0, deadline = now_ns() + 600000000000ull;
    while (done < count) {
        ssize_t got = rd_kafka_consume_batch_queue(queue, 1000, messages, 1000);
        if (now_ns() > deadline) fail("consume", "the messages did not come");
        for (ssize_t i = 0; i < got; i++) {
            if (messages[i]->err && messages[i]->err != RD_KAFKA_RESP_ERR__PARTITION_EOF)
                fail("consume", rd_kafka_message_errstr(messages[i]));
            if (!messages[i]->err) {
                if (!start) { /* what the first message waited for is connecting */
                    start = now_ns();
                    mark(0, count);
                }
                done++;
            }
            rd_kafka_message_destroy(messages[i]);
        }
        mark(done < count ? done : count, count);
    }
    uint64_t end = now_ns();
    print_run(done, size, start, end);
    print_timeline(count, size);
    printf("}\n");
    fflush(stdout);
    _exit(0); /* what was fetched ahead need not be thrown away in good order */
}

/* ---------------------------------------------------------------- latency */

static uint32_t *samples;
static long sample_count, expected;
static volatile int ready;

static int by_value(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static void *receive(void *unused) {
    (void)unused;
    rd_kafka_t *rk = consumer(1048576);
    uint64_t deadline = now_ns() + 120000000000ull;
    assign(rk, text("topic", "bench"), 1, RD_KAFKA_OFFSET_BEGINNING);
    while (sample_count < expected && now_ns() < deadline) {
        /* One by one: a call for many waits until it has as many. */
        rd_kafka_message_t *message = rd_kafka_consumer_poll(rk, 100);
        if (!message) continue;
        if (!message->err) {
            uint64_t sent;
            memcpy(&sent, message->payload, 8);
            if (!sent) ready = 1;
            else if (sample_count < expected) samples[sample_count++] = (now_ns() - sent) / 1000;
        }
        rd_kafka_message_destroy(message);
    }
    return NULL;
}

static double percentile(double share) {
    return samples[(long)((sample_count - 1) * share)] / 1000.0;
}

static int latency(void) {
    double rate = number("rate", 1000), seconds = number("seconds", 3);
    long size = number("size", 200), warm = rate * 0.5;
    char *value = calloc(1, size);
    pthread_t receiver;
    expected = rate * seconds + warm;
    wanted = expected + 1000000;
    samples = malloc((expected + 1) * sizeof *samples);
    rd_kafka_t *rk = producer();
    rd_kafka_topic_t *topic = rd_kafka_topic_new(rk, text("topic", "bench"), NULL);
    wait_for_topic(rk, topic);
    pthread_create(&receiver, NULL, receive, NULL);
    while (!ready) { /* until the consumer stands at the end of the log */
        send_one(rk, topic, 0, value, size);
        rd_kafka_poll(rk, 20);
    }
    uint64_t start = now_ns();
    /* A message is due at a tick, of a millisecond or more, and counts from then: a sender that comes late does not hide it. */
    double tick_s = 1 / rate > 0.001 ? 1 / rate : 0.001;
    for (long sent = 0, tick = 1; sent < expected; tick++) {
        uint64_t due_at = start + (uint64_t)(tick * tick_s * 1e9);
        long due = tick * tick_s * rate + 0.5;
        struct timespec until = {.tv_sec = due_at / 1000000000u, .tv_nsec = due_at % 1000000000u};
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
        for (; sent < due && sent < expected; sent++) {
            memcpy(value, &due_at, 8);
            send_one(rk, topic, 0, value, size);
        }
        rd_kafka_poll(rk, 0);
    }
    double took = (now_ns() - start) / 1e9;
    rd_kafka_flush(rk, 60000);
    pthread_join(receiver, NULL);
    if (sample_count < expected) fail("latency", "messages did not come back");
    samples += warm; /* the first half second is warming up */
    sample_count -= warm;
    qsort(samples, sample_count, sizeof *samples, by_value);
    printf("{\"messages\": %ld, \"rate\": %.0f, \"p50_ms\": %.3f, \"p90_ms\": %.3f, \"p99_ms\": %.3f, \"p999_ms\": %.3f}\n",
           sample_count, expected / took, percentile(0.5), percentile(0.9), percentile(0.99), percentile(0.999));
    fflush(stdout);
    _exit(0);
}

static int mock(void) {
    rd_kafka_t *rk = rd_kafka_new(RD_KAFKA_PRODUCER, rd_kafka_conf_new(), reason, sizeof reason);
    rd_kafka_mock_cluster_t *cluster = rd_kafka_mock_cluster_new(rk, 1);
    if (!cluster) fail("mock", "it did not start");
    printf("%s\n", rd_kafka_mock_cluster_bootstraps(cluster));
    fflush(stdout);
    pause(); /* until it is killed */
    return 0;
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "";
    argument_count = argc;
    arguments = argv;
    if (!strcmp(mode, "produce")) return produce();
    if (!strcmp(mode, "consume")) return consume();
    if (!strcmp(mode, "latency")) return latency();
    if (!strcmp(mode, "mock")) return mock();
    if (!strcmp(mode, "version")) return !printf("%s\n", rd_kafka_version_str());
    fail("kafka", "produce, consume, latency, mock or version, and name=value");
    return 2;
}
