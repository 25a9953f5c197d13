/* A load generator for brokers that speak Kafka's protocol: produces and fetches as fast as one core can, and
 * measures.  It knows two requests, Produce 9 and Fetch 12, and looks into an answer only for its error code.
 *
 *   raw produce HOST PORT TOPIC PARTITIONS CONNECTIONS IN_FLIGHT BATCH_BYTES SECONDS [ACKS [PRODUCER_ID]]
 *   raw fetch   HOST PORT TOPIC PARTITIONS CONNECTIONS IN_FLIGHT MAX_BYTES SECONDS LAST_OFFSET
 *   raw idle    HOST PORT - - CONNECTIONS - - SECONDS
 *
 * A connection writes to the partition that its number says.  Batches have one record, so offset n is batch n.
 * With a PRODUCER_ID every connection is an idempotent producer of its own, from that id on, and numbers its batches.
 * Prints one line of JSON. */

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define SINK_BYTES (1 << 20)
#define MAX_SAMPLES (1 << 22)

struct connection {
    int fd;
    unsigned char *requests; /* `copies` equal requests, back to back */
    size_t request_bytes, copies;
    size_t unsent, position; /* bytes to send, and from where in `requests` */
    int in_flight;
    uint64_t sent_at;
    unsigned char head[64]; /* the beginning of the answer that is being received */
    size_t head_bytes, body_left;
    int in_body, writing;
    int64_t offset;
    size_t batch_at; /* where the batch lies in a request; 0 of a producer without an id */
    size_t batch_bytes;
    int64_t producer;
    uint32_t sequence;
};

static uint32_t crc_table[256];
static uint64_t answers, received_bytes, errors;
static uint32_t *samples;
static size_t sample_count;
static unsigned char sink[SINK_BYTES];

static void die(const char *what) {
    perror(what);
    exit(1);
}

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + t.tv_nsec;
}

static uint32_t crc32c(const unsigned char *data, size_t length) {
    uint32_t crc = ~0u;
    if (!crc_table[1])
        for (uint32_t i = 0; i < 256; i++) {
            uint32_t c = i;
            for (int k = 0; k < 8; k++) c = c & 1 ? (c >> 1) ^ 0x82F63B78u : c >> 1;
            crc_table[i] = c;
        }
    while (length--) crc = crc_table[(crc ^ *data++) & 255] ^ (crc >> 8);
    return ~crc;
}

static unsigned char *put(unsigned char *p, uint64_t value, int bytes) {
    for (int i = bytes - 1; i >= 0; i--) *p++ = value >> (8 * i);
    return p;
}

static unsigned char *put_uvarint(unsigned char *p, uint64_t value) {
    while (value > 127) {
        *p++ = (value & 127) | 128;
        value >>= 7;
    }
    *p++ = value;
    return p;
}

static unsigned char *put_varint(unsigned char *p, int64_t value) {
    return put_uvarint(p, ((uint64_t)value << 1) ^ (uint64_t)(value >> 63));
}

static uint32_t get32(const unsigned char *p) {
    return (uint32_t)p[0] << 24 | p[1] << 16 | p[2] << 8 | p[3];
}

static unsigned char *put_header(unsigned char *p, int api_key, int version) {
    p = put(p, 0, 4); /* the length, filled in at the end */
    p = put(p, api_key, 2);
    p = put(p, version, 2);
    p = put(p, 1, 4);
    p = put(p, 4, 2);
    memcpy(p, "load", 4);
    p += 4;
    *p++ = 0;
    return p;
}

/* One batch of one record, about `size` bytes in all. */
static unsigned char *put_batch(unsigned char *p, size_t size) {
    size_t value = size > 61 + 16 ? size - 61 - 12 : 4;
    unsigned char *batch = p, record[32], *r = record;
    uint64_t now = (uint64_t)time(NULL) * 1000;
    *r++ = 0;
    r = put_varint(r, 0);
    r = put_varint(r, 0);
    r = put_varint(r, -1);
    r = put_varint(r, value);
    p += 61;
    p = put_varint(p, (r - record) + value + 1);
    memcpy(p, record, r - record);
    p += r - record;
    for (size_t i = 0; i < value; i++) *p++ = 'a' + i % 26;
    p = put_varint(p, 0);
    unsigned char *h = put(batch, 0, 8);
    h = put(h, p - batch - 12, 4);
    h = put(h, 0, 4);
    *h++ = 2;
    unsigned char *crc = h;
    h = put(h + 4, 0, 2);
    h = put(h, 0, 4);
    h = put(h, now, 8);
    h = put(h, now, 8);
    h = put(h, -1, 8);
    h = put(h, -1, 2);
    h = put(h, -1, 4);
    put(h, 1, 4);
    put(crc, crc32c(crc + 4, p - crc - 4), 4);
    return p;
}

static size_t build_produce(unsigned char *out, const char *topic, int partition, size_t size, int acks) {
    unsigned char *p = put_header(out, 0, 9);
    unsigned char *batch = malloc(size + 256);
    size_t batch_bytes = put_batch(batch, size) - batch;
    *p++ = 0;
    p = put(p, acks, 2);
    p = put(p, 30000, 4);
    *p++ = 2;
    p = put_uvarint(p, strlen(topic) + 1);
    p = (unsigned char *)memcpy(p, topic, strlen(topic)) + strlen(topic);
    *p++ = 2;
    p = put(p, partition, 4);
    p = put_uvarint(p, batch_bytes + 1);
    p = (unsigned char *)memcpy(p, batch, batch_bytes) + batch_bytes;
    *p++ = 0;
    *p++ = 0;
    *p++ = 0;
    free(batch);
    put(out, p - out - 4, 4);
    return p - out;
}

static size_t build_fetch(unsigned char *out, const char *topic, int partition, size_t size, int64_t offset) {
    unsigned char *p = put_header(out, 1, 12);
    p = put(p, -1, 4);
    p = put(p, 500, 4);
    p = put(p, 1, 4);
    p = put(p, size, 4);
    *p++ = 0;
    p = put(p, 0, 4);
    p = put(p, -1, 4);
    *p++ = 2;
    p = put_uvarint(p, strlen(topic) + 1);
    p = (unsigned char *)memcpy(p, topic, strlen(topic)) + strlen(topic);
    *p++ = 2;
    p = put(p, partition, 4);
    p = put(p, -1, 4);
    p = put(p, offset, 8);
    p = put(p, -1, 4);
    p = put(p, -1, 8);
    p = put(p, size, 4);
    *p++ = 0;
    *p++ = 0;
    *p++ = 1;
    *p++ = 1;
    *p++ = 0;
    put(out, p - out - 4, 4);
    return p - out;
}

static void watch(int epoll, struct connection *c, int op, int writing) {
    struct epoll_event event = {.events = EPOLLIN | (writing ? EPOLLOUT : 0), .data.ptr = c};
    if (epoll_ctl(epoll, op, c->fd, &event)) die("epoll_ctl");
    c->writing = writing;
}

static void send_more(int epoll, struct connection *c) {
    while (c->unsent) {
        ssize_t n = send(c->fd, c->requests + c->position, c->unsent, MSG_NOSIGNAL);
        if (n < 0) {
            if (errno != EAGAIN) die("send");
            if (!c->writing) watch(epoll, c, EPOLL_CTL_MOD, 1);
            return;
        }
        c->position += n;
        c->unsent -= n;
    }
    if (c->writing) watch(epoll, c, EPOLL_CTL_MOD, 0);
}

/* The next `count` requests of an idempotent producer: its id, epoch 0, the sequence, and the checksum over them. */
static void number_batches(struct connection *c, int count) {
    for (int k = 0; k < count; k++) {
        unsigned char *batch = c->requests + k * c->request_bytes + c->batch_at;
        unsigned char *p = put(batch + 43, c->producer, 8);
        p = put(p, 0, 2);
        put(p, c->sequence++ & 0x7FFFFFFFu, 4);
        put(batch + 17, crc32c(batch + 21, c->batch_bytes - 21), 4);
    }
}

/* Fill the window up to `window` requests. */
static void refill(int epoll, struct connection *c, int window, int64_t last_offset, const char *topic, int partition,
                   size_t size) {
    if (c->unsent) return;
    int wanted = window - c->in_flight;
    if (wanted <= 0) return;
    if (last_offset) { /* the next fetch begins elsewhere */
        c->offset = (c->offset + 7919) % last_offset;
        build_fetch(c->requests, topic, partition, size, c->offset);
        wanted = 1;
    }
    if ((size_t)wanted > c->copies) wanted = c->copies;
    if (c->batch_at) number_batches(c, wanted);
    c->position = 0;
    c->unsent = wanted * c->request_bytes;
    c->in_flight += wanted;
    c->sent_at = now_ns();
    send_more(epoll, c);
}

static void answered(struct connection *c, int fetching, size_t topic_bytes) {
    answers++;
    c->in_flight--;
    size_t at = fetching ? 4 + 1 + 4 + 2 + 4 + 1 + 1 + topic_bytes + 1 + 4 : 4 + 1 + 1 + 1 + topic_bytes + 1 + 4;
    if (4 + at + 2 <= c->head_bytes && (c->head[4 + at] || c->head[5 + at])) errors++;
    if (sample_count < MAX_SAMPLES) samples[sample_count++] = (now_ns() - c->sent_at) / 100;
}

static void consume(struct connection *c, const unsigned char *p, size_t n, int fetching, size_t topic_bytes) {
    while (n) {
        if (!c->in_body) {
            size_t take = 4 - c->head_bytes < n ? 4 - c->head_bytes : n;
            memcpy(c->head + c->head_bytes, p, take);
            c->head_bytes += take;
            p += take;
            n -= take;
            if (c->head_bytes < 4) return;
            c->body_left = get32(c->head);
            c->in_body = 1;
        }
        size_t take = c->body_left < n ? c->body_left : n;
        size_t room = sizeof c->head - c->head_bytes;
        size_t keep = take < room ? take : room;
        memcpy(c->head + c->head_bytes, p, keep);
        c->head_bytes += keep;
        c->body_left -= take;
        p += take;
        n -= take;
        if (!c->body_left) {
            answered(c, fetching, topic_bytes);
            c->in_body = 0;
            c->head_bytes = 0;
        }
    }
}

static int connect_to(const char *host, int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    inet_pton(AF_INET, host, &address.sin_addr);
    int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address)) die("connect");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    return fd;
}

static int by_value(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

int main(int argc, char **argv) {
    if (argc < 10) {
        fprintf(stderr, "raw produce|fetch|idle HOST PORT TOPIC PARTITIONS CONNECTIONS IN_FLIGHT BYTES SECONDS [ACKS|LAST]\n");
        return 2;
    }
    int fetching = !strcmp(argv[1], "fetch"), idle = !strcmp(argv[1], "idle");
    const char *host = argv[2], *topic = argv[4];
    int port = atoi(argv[3]), partitions = atoi(argv[5]), count = atoi(argv[6]), window = atoi(argv[7]);
    size_t size = strtoul(argv[8], NULL, 10), topic_bytes = strlen(topic);
    double seconds = atof(argv[9]);
    int acks = !fetching && argc > 10 ? atoi(argv[10]) : 1;
    int64_t producer = !fetching && argc > 11 ? atoll(argv[11]) : -1;
    int64_t last_offset = fetching && argc > 10 ? atoll(argv[10]) : 0;
    struct rlimit files = {.rlim_cur = 1 << 16, .rlim_max = 1 << 16};
    setrlimit(RLIMIT_NOFILE, &files);
    int epoll = epoll_create1(0);
    struct connection *all = calloc(count, sizeof *all);
    samples = malloc(MAX_SAMPLES * sizeof *samples);
    for (int i = 0; i < count; i++) {
        struct connection *c = &all[i];
        c->fd = connect_to(host, port);
        if (idle) continue;
        unsigned char *one = malloc(size + 1024);
        c->offset = i * 101;
        c->request_bytes = fetching ? build_fetch(one, topic, i % partitions, size, 0)
                                    : build_produce(one, topic, i % partitions, size, acks);
        c->copies = fetching ? 1 : window;
        if (c->copies > (4 << 20) / c->request_bytes + 1) c->copies = (4 << 20) / c->request_bytes + 1;
        c->requests = malloc(c->copies * c->request_bytes);
        if (producer >= 0) { /* a request ends with the batch and three empty sets of tags */
            unsigned char *scratch = malloc(size + 256);
            c->batch_bytes = put_batch(scratch, size) - scratch;
            free(scratch);
            c->batch_at = c->request_bytes - 3 - c->batch_bytes;
            c->producer = producer + i;
        }
        for (size_t k = 0; k < c->copies; k++) memcpy(c->requests + k * c->request_bytes, one, c->request_bytes);
        free(one);
        watch(epoll, c, EPOLL_CTL_ADD, 0);
    }
    uint64_t start = now_ns(), end = start + (uint64_t)(seconds * 1e9);
    if (idle) {
        printf("{\"connections\": %d}\n", count);
        fflush(stdout);
        usleep(seconds * 1e6);
        return 0;
    }
    for (int i = 0; i < count; i++) refill(epoll, &all[i], window, last_offset, topic, i % partitions, size);
    struct epoll_event events[256];
    while (now_ns() < end) {
        int n = epoll_wait(epoll, events, 256, 100);
        for (int i = 0; i < n; i++) {
            struct connection *c = events[i].data.ptr;
            if (events[i].events & EPOLLIN) {
                ssize_t got = recv(c->fd, sink, SINK_BYTES, 0);
                if (got == 0 || (got < 0 && errno != EAGAIN)) {
                    fprintf(stderr, "the broker closed a connection\n");
                    return 1;
                }
                if (got > 0) {
                    received_bytes += got;
                    consume(c, sink, got, fetching, topic_bytes);
                }
            }
            if (c->unsent) send_more(epoll, c);
            refill(epoll, c, window, last_offset, topic, (int)(c - all) % partitions, size);
        }
    }
    double took = (now_ns() - start) / 1e9;
    qsort(samples, sample_count, sizeof *samples, by_value);
    double moved = fetching ? received_bytes : (double)answers * all[0].request_bytes;
    printf("{\"requests_per_s\": %.0f, \"mb_per_s\": %.1f, \"p50_ms\": %.3f, \"p99_ms\": %.3f, \"errors\": %lu}\n",
           answers / took, moved / took / 1e6, sample_count ? samples[sample_count / 2] / 1e4 : 0.0,
           sample_count ? samples[sample_count * 99 / 100] / 1e4 : 0.0, (unsigned long)errors);
    return 0;
}
