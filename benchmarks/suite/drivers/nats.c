/* Drives NATS JetStream, in NATS' own text protocol.
 *
 *   nats produce host= port= stream=S count=N size=BYTES [acks=0]     a stream kept in files, subject S
 *   nats consume host= port= stream=S count=N size=BYTES             a pull consumer without acknowledgements, 1000 a pull
 *
 * With acks the server acknowledges every message; up to ACK_WINDOW may wait for theirs.  Publishing is gathered into
 * writes of up to 64 KB, as NATS' own clients do. */

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "timeline.h"

#define ACK_WINDOW 4000
#define PULL 1000

static int server;
static char out[1 << 16], in[1 << 20];
static size_t out_bytes, in_from, in_bytes;

static void push(void) {
    for (size_t sent = 0; sent < out_bytes;) {
        ssize_t n = send(server, out + sent, out_bytes - sent, MSG_NOSIGNAL);
        if (n <= 0) fail("send", "connection lost");
        sent += n;
    }
    out_bytes = 0;
}

static void put(const void *data, size_t length) {
    if (out_bytes + length > sizeof out) push();
    memcpy(out + out_bytes, data, length);
    out_bytes += length;
}

static void say(const char *line) {
    put(line, strlen(line));
}

static void receive_more(void) {
    if (in_from) {
        memmove(in, in + in_from, in_bytes - in_from);
        in_bytes -= in_from;
        in_from = 0;
    }
    ssize_t n = recv(server, in + in_bytes, sizeof in - in_bytes, 0);
    if (n <= 0) fail("receive", "connection lost");
    in_bytes += n;
}

/* The next line, without its end; it stays valid until the next call. */
static char *next_line(void) {
    for (;;) {
        char *end = memchr(in + in_from, '\n', in_bytes - in_from);
        if (end) {
            char *line = in + in_from;
            end[end > line && end[-1] == '\r' ? -1 : 0] = 0;
            in_from = end + 1 - in;
            return line;
        }
        receive_more();
    }
}

/* The next message: its payload (with headers, if it has them) in place, and its length. */
static char *next_message(size_t *length, char *subject) {
    for (;;) {
        char *line = next_line();
        if (!strncmp(line, "PING", 4)) {
            say("PONG\r\n");
            push();
        } else if (!strncmp(line, "MSG ", 4) || !strncmp(line, "HMSG ", 5)) {
            size_t size = atol(strrchr(line, ' ') + 1);
            sscanf(strchr(line, ' ') + 1, "%127s", subject);
            while (in_bytes - in_from < size + 2) receive_more();
            char *payload = in + in_from;
            in_from += size + 2;
            *length = size;
            return payload;
        } else if (!strncmp(line, "-ERR", 4))
            fail("nats", line);
    }
}

static void ask(const char *subject, const char *json) {
    char head[512], from[128];
    size_t length;
    snprintf(head, sizeof head, "PUB %s box.api %zu\r\n%s\r\n", subject, strlen(json), json);
    say(head);
    push();
    char *answer = next_message(&length, from);
    answer[length] = 0;
    if (strstr(answer, "\"error\"")) fail(subject, answer);
}

static void open_connection(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((int)number("port", 4222))};
    inet_pton(AF_INET, text("host", "127.0.0.1"), &address.sin_addr);
    int one = 1;
    server = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(server, (struct sockaddr *)&address, sizeof address)) fail("connect", "refused");
    setsockopt(server, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    next_line(); /* INFO */
    say("CONNECT {\"verbose\":false,\"pedantic\":false,\"headers\":true,\"no_responders\":true}\r\nSUB box.api 1\r\nPING\r\n");
    push();
    if (strncmp(next_line(), "PONG", 4)) fail("connect", "no answer");
}

static int produce(const char *stream) {
    long count = number("count", 100000), size = number("size", 200), acknowledged = 0;
    int acks = number("acks", 0);
    char subject[128], json[512], head[256], from[128];
    size_t length;
    make_values(size);
    snprintf(subject, sizeof subject, "$JS.API.STREAM.CREATE.%s", stream);
    snprintf(json, sizeof json, "{\"name\":\"%s\",\"subjects\":[\"%s\"],\"storage\":\"file\",\"retention\":\"limits\"}", stream, stream);
    ask(subject, json);
    say("SUB box.ack 2\r\n");
    int head_bytes = snprintf(head, sizeof head, acks ? "PUB %s box.ack %ld\r\n" : "PUB %s %ld\r\n", stream, size);
    uint64_t start = now_ns();
    mark(0, count);
    for (long i = 0; i < count; i++) {
        put(head, head_bytes);
        put(values[i % VALUES], size);
        put("\r\n", 2);
        if (acks && i - acknowledged >= ACK_WINDOW) {
            push();
            while (i - acknowledged >= ACK_WINDOW / 2) {
                next_message(&length, from);
                acknowledged++;
            }
        }
        mark(i + 1, count);
    }
    push();
    for (; acks && acknowledged < count; acknowledged++) next_message(&length, from);
    /* the last one is stored when the stream says so */
    for (int stored = acks; !stored;) {
        snprintf(head, sizeof head, "PUB $JS.API.STREAM.INFO.%s box.api 0\r\n\r\n", stream);
        say(head);
        push();
        char *answer = next_message(&length, from), *found;
        answer[length] = 0;
        found = strstr(answer, "\"messages\":");
        stored = found && atol(found + 11) >= count;
    }
    uint64_t end = now_ns();
    print_run(count, size, start, end);
    print_timeline(count, size);
    printf("}\n");
    return 0;
}

static int consume(const char *stream) {
    long count = number("count", 100000), size = number("size", 200), asked = 0;
    char subject[128], json[256], from[128], pull[512];
    size_t length;
    snprintf(subject, sizeof subject, "$JS.API.CONSUMER.DURABLE.CREATE.%s.reader", stream);
    snprintf(json, sizeof json,
             "{\"stream_name\":\"%s\",\"config\":{\"durable_name\":\"reader\",\"ack_policy\":\"none\",\"deliver_policy\":\"all\","
             "\"max_waiting\":16}}", stream);
    ask(subject, json);
    say("SUB box.data 3\r\n");
    snprintf(json, sizeof json, "{\"batch\":%d,\"expires\":60000000000}", PULL);
    snprintf(pull, sizeof pull, "PUB $JS.API.CONSUMER.MSG.NEXT.%s.reader box.data %zu\r\n%s\r\n", stream, strlen(json), json);
    uint64_t start = 0;
    for (long i = 0; i < count;) {
        while (asked < i + 2 * PULL) { /* two pulls ahead */
            say(pull);
            push();
            asked += PULL;
        }
        next_message(&length, from);
        if (!strcmp(from, "box.data") || length < (size_t)size) continue; /* a status, not a message of the stream */
        if (!start) {
            start = now_ns();
            mark(0, count);
        }
        mark(++i, count);
    }
    uint64_t end = now_ns();
    print_run(count, size, start, end);
    print_timeline(count, size);
    printf("}\n");
    return 0;
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "";
    argument_count = argc;
    arguments = argv;
    open_connection();
    if (!strcmp(mode, "produce")) return produce(text("stream", "bench"));
    if (!strcmp(mode, "consume")) return consume(text("stream", "bench"));
    fail("nats", "produce or consume, and name=value");
    return 2;
}
