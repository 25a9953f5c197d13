/* Drives RabbitMQ over AMQP 0-9-1, with librabbitmq.
 *
 *   amqp produce host= port= queue=Q count=N size=BYTES [confirms=0]     durable queue, persistent messages
 *   amqp consume host= port= queue=Q count=N size=BYTES                  acknowledged automatically, as in the paper
 *
 * With confirms the broker acknowledges every message; up to CONFIRM_WINDOW may wait for theirs. */

#include <amqp.h>
#include <amqp_tcp_socket.h>

#include "timeline.h"

#define CONFIRM_WINDOW 1000

static amqp_connection_state_t connection;

static void check(amqp_rpc_reply_t reply, const char *what) {
    if (reply.reply_type != AMQP_RESPONSE_NORMAL)
        fail(what, reply.reply_type == AMQP_RESPONSE_LIBRARY_EXCEPTION ? amqp_error_string2(reply.library_error) : "refused");
}

static void open_channel(void) {
    connection = amqp_new_connection();
    amqp_socket_t *sock = amqp_tcp_socket_new(connection);
    if (amqp_socket_open(sock, text("host", "127.0.0.1"), number("port", 5672))) fail("connect", "refused");
    check(amqp_login(connection, "/", 0, 131072, 0, AMQP_SASL_METHOD_PLAIN, "guest", "guest"), "login");
    amqp_channel_open(connection, 1);
    check(amqp_get_rpc_reply(connection), "channel");
    amqp_queue_declare(connection, 1, amqp_cstring_bytes(text("queue", "bench")), 0, 1, 0, 0, amqp_empty_table);
    check(amqp_get_rpc_reply(connection), "queue");
}

/* Take confirmations until at least `least` messages are confirmed. */
static void confirmed_up_to(uint64_t *confirmed, uint64_t least) {
    while (*confirmed < least) {
        amqp_frame_t frame;
        if (amqp_simple_wait_frame(connection, &frame) != AMQP_STATUS_OK) fail("confirm", "connection lost");
        if (frame.frame_type != AMQP_FRAME_METHOD) continue;
        if (frame.payload.method.id != AMQP_BASIC_ACK_METHOD) fail("confirm", "not an acknowledgement");
        amqp_basic_ack_t *ack = frame.payload.method.decoded;
        if (ack->multiple || ack->delivery_tag == *confirmed + 1) *confirmed = ack->delivery_tag;
        else (*confirmed)++;
        amqp_maybe_release_buffers(connection);
    }
}

static int produce(void) {
    long count = number("count", 100000), size = number("size", 200);
    int confirms = number("confirms", 0);
    uint64_t confirmed = 0;
    amqp_bytes_t queue = amqp_cstring_bytes(text("queue", "bench"));
    amqp_basic_properties_t properties = {._flags = AMQP_BASIC_DELIVERY_MODE_FLAG, .delivery_mode = 2};
    make_values(size);
    if (confirms) {
        amqp_confirm_select(connection, 1);
        check(amqp_get_rpc_reply(connection), "confirm");
    }
    uint64_t start = now_ns();
    mark(0, count);
    for (long i = 0; i < count; i++) {
        amqp_bytes_t body = {.len = size, .bytes = values[i % VALUES]};
        if (amqp_basic_publish(connection, 1, amqp_empty_bytes, queue, 0, 0, &properties, body) != AMQP_STATUS_OK)
            fail("publish", "connection lost");
        if (confirms && i - (long)confirmed >= CONFIRM_WINDOW) confirmed_up_to(&confirmed, i - CONFIRM_WINDOW / 2);
        mark(i + 1, count);
    }
    if (confirms) confirmed_up_to(&confirmed, count);
    /* an answer on the same channel: all before it was taken */
    amqp_queue_declare(connection, 1, queue, 1, 1, 0, 0, amqp_empty_table);
    check(amqp_get_rpc_reply(connection), "the end of the run");
    uint64_t end = now_ns();
    print_run(count, size, start, end);
    print_timeline(count, size);
    printf("}\n");
    return 0;
}

static int consume(void) {
    long count = number("count", 100000), size = number("size", 200);
    amqp_bytes_t queue = amqp_cstring_bytes(text("queue", "bench"));
    amqp_basic_qos(connection, 1, 0, 1000, 0);
    amqp_basic_consume(connection, 1, queue, amqp_empty_bytes, 0, 1, 0, amqp_empty_table);
    check(amqp_get_rpc_reply(connection), "consume");
    uint64_t start = 0;
    for (long i = 0; i < count; i++) {
        amqp_envelope_t envelope;
        struct timeval patience = {.tv_sec = 60};
        amqp_maybe_release_buffers(connection);
        check(amqp_consume_message(connection, &envelope, &patience, 0), "consume");
        if (!start) {
            start = now_ns();
            mark(0, count);
        }
        amqp_destroy_envelope(&envelope);
        mark(i + 1, count);
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
    open_channel();
    if (!strcmp(mode, "produce")) return produce();
    if (!strcmp(mode, "consume")) return consume();
    fail("amqp", "produce or consume, and name=value");
    return 2;
}
