/* A load generator for AMQP 0-9-1 brokers: it sends frames that were built before, so that what is measured is the broker.
 *
 *     generator HOST PORT VHOST WORKLOAD COUNT
 *
 * It prints the seconds that the workload took, and the median time of one operation in seconds where it does one at a
 * time (else 0). Bodies have 1 kB, queues are durable, messages transient. It stops with a message when the broker
 * refuses something, or is silent for a minute.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "octets.h"

enum { BODY_BYTES = 1000, WINDOW = 100, PREFETCH = 100, IN_FLIGHT = 4096, BURST = 50, OUT_BYTES = 262144 };
typedef struct {
    int socket;
    Buffer in, out;
    /* What the broker has told: deliveries that are complete, the last delivery tag, publishes confirmed. */
    long delivered, confirmed;
    uint64_t delivery_tag;
    /* By tag, whether a publish was confirmed, and the first that was not: a broker confirms in any order. */
    uint8_t *is_confirmed;
    uint64_t oldest_unconfirmed;
    int64_t body_left;
} Connection;

static const char *host, *vhost;
static int port;
static char queue[64];

static void fail(const char *what) {
    fprintf(stderr, "generator: %s\n", what);
    exit(1);
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

static void put_ack(Connection *connection) {
    uint8_t ack[21] = {METHOD, 0, 1, 0, 0, 0, 13, 0, BASIC, 0, 80};
    for (int octet = 0; octet < 8; octet++)
        ack[11 + octet] = connection->delivery_tag >> (56 - 8 * octet);
    ack[20] = FRAME_END;
    put(&connection->out, ack, sizeof ack);
}

/* A whole publish, to be sent again and again. */
static Buffer publish_to(const char *exchange, const char *key) {
    static const uint8_t body[BODY_BYTES];
    Buffer publish = {0};
    put_method(&publish, 1, BASIC, 40, "hssb", 0, exchange, key, 0);
    put_number(&publish, HEADER, 1);
    put_number(&publish, 1, 2);
    /* Class, weight, body size, flags, and two properties: content type and delivery mode. */
    put_number(&publish, 2 + 2 + 8 + 2 + 11 + 1, 4);
    put_number(&publish, BASIC, 2);
    put_number(&publish, 0, 2);
    put_number(&publish, BODY_BYTES, 8);
    put_number(&publish, 0x9000, 2);
    put_name(&publish, "text/plain");
    put_number(&publish, 1, 1);
    put_number(&publish, FRAME_END, 1);
    put_number(&publish, BODY, 1);
    put_number(&publish, 1, 2);
    put_number(&publish, BODY_BYTES, 4);
    put(&publish, body, BODY_BYTES);
    put_number(&publish, FRAME_END, 1);
    return publish;
}

static void flush(Connection *connection) {
    while (waiting(&connection->out)) {
        ssize_t sent = send(connection->socket, connection->out.data + connection->out.at, waiting(&connection->out), MSG_NOSIGNAL);
        if (sent < 0 && errno == EAGAIN)
            return;
        if (sent < 0)
            fail("the broker has closed the socket");
        connection->out.at += sent;
    }
}

static void receive(Connection *connection) {
    reserve(&connection->in, READ_BYTES);
    ssize_t got = recv(connection->socket, connection->in.data + connection->in.end, READ_BYTES, 0);
    if (got < 0 && errno == EAGAIN)
        return;
    if (got <= 0)
        fail("the broker has closed the socket");
    connection->in.end += got;
}

/* Waits until something can be read or, where something waits to be written, be written. The second may be NULL. */
static void wait_for(Connection *first, Connection *second) {
    Connection *both[2] = {first, second};
    struct pollfd polled[2];
    int count = second ? 2 : 1;
    for (int i = 0; i < count; i++)
        polled[i] = (struct pollfd){both[i]->socket, POLLIN | (waiting(&both[i]->out) ? POLLOUT : 0), 0};
    if (poll(polled, count, 60000) <= 0)
        fail("the broker was silent for a minute");
    for (int i = 0; i < count; i++) {
        if (polled[i].revents & POLLOUT)
            flush(both[i]);
        if (polled[i].revents & ~POLLOUT)
            receive(both[i]);
    }
}

static int is_method(const uint8_t *frame, int class_id, int method_id) {
    return frame[0] == METHOD && number(frame + 7, 2) == (uint64_t)class_id && number(frame + 9, 2) == (uint64_t)method_id;
}

static void confirm(Connection *connection, uint64_t tag, int is_multiple) {
    for (uint64_t each = is_multiple ? connection->oldest_unconfirmed : tag; each <= tag; each++)
        if (!connection->is_confirmed[each]) {
            connection->is_confirmed[each] = 1;
            connection->confirmed++;
        }
    if (is_multiple && tag >= connection->oldest_unconfirmed)
        connection->oldest_unconfirmed = tag + 1;
}

/* Takes note of what comes unasked; 1 when a delivery is complete. */
static int take_note(Connection *connection, const uint8_t *frame) {
    if (frame[0] == HEADER) {
        connection->body_left = number(frame + 11, 8);
    } else if (frame[0] == BODY) {
        connection->body_left -= number(frame + 3, 4);
        if (!connection->body_left) {
            connection->delivered++;
            return 1;
        }
    } else if (is_method(frame, BASIC, 60)) {
        connection->delivery_tag = number(frame + 12 + frame[11], 8);
    } else if (is_method(frame, BASIC, 80)) {
        confirm(connection, number(frame + 11, 8), frame[19]);
    } else if (is_method(frame, CONNECTION, 50) || is_method(frame, CHANNEL, 40)) {
        fprintf(stderr, "%.*s\n", frame[13], frame + 14);
        fail("the broker has refused");
    }
    return 0;
}

static const uint8_t *expect(Connection *connection, int class_id, int method_id) {
    flush(connection);
    for (;;) {
        const uint8_t *frame = next_frame(&connection->in);
        if (!frame)
            wait_for(connection, NULL);
        else if (is_method(frame, class_id, method_id))
            return frame;
        else
            take_note(connection, frame);
    }
}

static Connection *open_connection(void) {
    static const char login[] = "\0guest\0guest";
    Connection *connection = calloc(1, sizeof *connection);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    int one = 1;
    inet_pton(AF_INET, host, &address.sin_addr);
    connection->socket = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(connection->socket, (void *)&address, sizeof address))
        fail("nobody listens there");
    setsockopt(connection->socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    fcntl(connection->socket, F_SETFL, O_NONBLOCK);
    put(&connection->out, "AMQP\0\0\x09\x01", 8);
    expect(connection, CONNECTION, 10);
    Buffer *out = &connection->out;
    begin_method(out, 0, CONNECTION, 11, 4 + 6 + 4 + sizeof login - 1 + 6);
    put_number(out, 0, 4);
    put_name(out, "PLAIN");
    put_number(out, sizeof login - 1, 4);
    put(out, login, sizeof login - 1);
    put_name(out, "en_US");
    put_number(out, FRAME_END, 1);
    expect(connection, CONNECTION, 30);
    put_method(out, 0, CONNECTION, 31, "hlh", 2047, 131072, 0);
    put_method(out, 0, CONNECTION, 40, "sbb", vhost, 0, 0);
    expect(connection, CONNECTION, 41);
    put_method(out, 1, CHANNEL, 10, "b", 0);
    expect(connection, CHANNEL, 11);
    return connection;
}

static void close_connection(Connection *connection) {
    put_method(&connection->out, 0, CONNECTION, 50, "hshh", 200, "", 0, 0);
    expect(connection, CONNECTION, 51);
    close(connection->socket);
    free(connection->in.data);
    free(connection->out.data);
    free(connection->is_confirmed);
    free(connection);
}

/* How many messages there are in the queue. */
static long declare(Connection *connection, int is_passive) {
    put_method(&connection->out, 1, QUEUE, 10, "hsbl", 0, queue, is_passive ? 3 : 2, 0);
    const uint8_t *frame = expect(connection, QUEUE, 11);
    return number(frame + 12 + frame[11], 4);
}

static void delete(Connection *connection) {
    put_method(&connection->out, 1, QUEUE, 40, "hsb", 0, queue, 0);
    expect(connection, QUEUE, 41);
}

static void consume(Connection *connection, int is_acking) {
    if (is_acking) {
        put_method(&connection->out, 1, BASIC, 10, "lhb", 0, PREFETCH, 0);
        expect(connection, BASIC, 11);
    }
    put_method(&connection->out, 1, BASIC, 20, "hssbl", 0, queue, "c", is_acking ? 0 : 2, 0);
}

/* Publishes as fast as the socket takes it. */
static void publish(Connection *connection, const Buffer *octets, long count) {
    const uint8_t *frame;
    for (long sent = 0; sent < count || waiting(&connection->out);) {
        for (; sent < count && waiting(&connection->out) < OUT_BYTES; sent++)
            put(&connection->out, octets->data, octets->end);
        flush(connection);
        if (waiting(&connection->out))
            wait_for(connection, NULL);
        while ((frame = next_frame(&connection->in)))
            take_note(connection, frame);
    }
}

static void fill(Connection *connection, const Buffer *octets, long count) {
    publish(connection, octets, count);
    double limit = now() + 60;
    while (declare(connection, 1) < count)
        if (now() > limit)
            fail("the queue was not filled within a minute");
}

/* Publishes with so many outstanding confirms at most. */
static void publish_confirmed(Connection *connection, const Buffer *octets, long count) {
    const uint8_t *frame;
    connection->is_confirmed = calloc(count + 1, 1);
    for (long sent = 0; connection->confirmed < count;) {
        for (; sent < count && sent - connection->confirmed < WINDOW; sent++)
            put(&connection->out, octets->data, octets->end);
        flush(connection);
        wait_for(connection, NULL);
        while ((frame = next_frame(&connection->in)))
            take_note(connection, frame);
    }
}

/* Takes deliveries from the one connection, while the other, if there is one, publishes. */
static void take(Connection *consumer, long count, int is_acking, Connection *publisher, const Buffer *octets) {
    const uint8_t *frame;
    long sent = 0, first = consumer->delivered;
    while (consumer->delivered - first < count) {
        while (publisher && !waiting(&publisher->out) && sent < count && sent - consumer->delivered < IN_FLIGHT) {
            for (int i = 0; i < BURST && sent < count; i++, sent++)
                put(&publisher->out, octets->data, octets->end);
            flush(publisher);
        }
        flush(consumer);
        wait_for(consumer, publisher);
        while ((frame = next_frame(&consumer->in)))
            if (take_note(consumer, frame) && is_acking)
                put_ack(consumer);
        while (publisher && (frame = next_frame(&publisher->in)))
            take_note(publisher, frame);
    }
    flush(consumer);
}

/* What a small test does: connect, declare, bind, ten messages there and back, delete, close. */
static void small_test(void) {
    Buffer octets = publish_to("benchmark", "k");
    Connection *connection = open_connection();
    put_method(&connection->out, 1, EXCHANGE, 10, "hssbl", 0, "benchmark", "direct", 0, 0);
    expect(connection, EXCHANGE, 11);
    declare(connection, 0);
    put_method(&connection->out, 1, QUEUE, 20, "hsssbl", 0, queue, "benchmark", "k", 0, 0);
    expect(connection, QUEUE, 21);
    for (int i = 0; i < 10; i++)
        put(&connection->out, octets.data, octets.end);
    put_method(&connection->out, 1, BASIC, 20, "hssbl", 0, queue, "c", 0, 0);
    take(connection, 10, 1, NULL, NULL);
    delete(connection);
    put_method(&connection->out, 1, EXCHANGE, 20, "hsb", 0, "benchmark", 0);
    expect(connection, EXCHANGE, 21);
    close_connection(connection);
    free(octets.data);
}

static int by_size(const void *left, const void *right) {
    double difference = *(const double *)left - *(const double *)right;
    return difference < 0 ? -1 : difference > 0;
}

/* One operation after the other, each with its time. */
static void one_by_one(const char *workload, long count) {
    double *times = malloc(count * sizeof *times), started = now();
    Connection *connection = strcmp(workload, "declare") ? NULL : open_connection();
    for (long i = 0; i < count; i++) {
        double began = now();
        if (connection) {
            declare(connection, 0);
            delete(connection);
        } else if (!strcmp(workload, "connect")) {
            close_connection(open_connection());
        } else {
            small_test();
        }
        times[i] = now() - began;
    }
    double took = now() - started;
    qsort(times, count, sizeof *times, by_size);
    printf("%.9f %.9f\n", took, times[count / 2]);
    if (connection)
        close_connection(connection);
}

/* Many at once, until the broker has had the last of them. */
static void in_bulk(const char *workload, long count) {
    int is_acking = strstr(workload, "_ack") != NULL;
    Buffer octets = publish_to("", queue);
    Connection *connection = open_connection(), *consumer = connection;
    declare(connection, 0);
    if (!strcmp(workload, "confirmw")) {
        put_method(&connection->out, 1, CONFIRM, 10, "b", 0);
        expect(connection, CONFIRM, 11);
    } else if (!strncmp(workload, "consume", 7)) {
        fill(connection, &octets, count);
    } else if (!strncmp(workload, "thru", 4)) {
        consumer = open_connection();
        consume(consumer, is_acking);
        expect(consumer, BASIC, 21);
    }
    double started = now();
    if (!strcmp(workload, "publish")) {
        publish(connection, &octets, count);
    } else if (!strcmp(workload, "confirmw")) {
        publish_confirmed(connection, &octets, count);
    } else if (consumer != connection) {
        take(consumer, count, is_acking, connection, &octets);
    } else {
        consume(connection, is_acking);
        take(connection, count, is_acking, NULL, NULL);
    }
    /* The answer comes when all that was sent before has been handled. */
    declare(consumer, 1);
    printf("%.9f 0\n", now() - started);
    delete(connection);
    if (consumer != connection)
        close_connection(consumer);
    close_connection(connection);
}

int main(int count, char **arguments) {
    static const char *single[] = {"connect", "declare", "test"};
    static const char *bulk[] = {"publish", "confirmw", "consume", "consume_ack", "thru", "thru_ack"};
    if (count != 6)
        fail("HOST PORT VHOST WORKLOAD COUNT");
    host = arguments[1];
    port = atoi(arguments[2]);
    vhost = arguments[3];
    const char *workload = arguments[4];
    snprintf(queue, sizeof queue, "benchmark-%d", getpid());
    for (size_t i = 0; i < sizeof single / sizeof *single; i++)
        if (!strcmp(single[i], workload))
            return one_by_one(workload, atol(arguments[5])), 0;
    for (size_t i = 0; i < sizeof bulk / sizeof *bulk; i++)
        if (!strcmp(bulk[i], workload))
            return in_bulk(workload, atol(arguments[5])), 0;
    fail("there is no such workload");
}
