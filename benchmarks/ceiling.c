/* A broker that does the least there is to do: what a client could reach if the broker cost next to nothing.
 *
 *     ceiling
 *
 * It prints its port and serves until it is killed. One thread, nothing durable, nothing checked, nothing requeued; a
 * message goes where a binding has its very exchange and routing key. All acknowledgements of a channel are for its one
 * consumer that wants them. It is a clock to compare with and says nothing about how a broker should behave.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "octets.h"

enum { CHANNELS = 2048, EVENTS = 64, OUT_BYTES = 1 << 20 };

/* Exchange and routing key as they stand in basic.publish: two short strings. */
typedef struct {
    uint8_t octets[512];
    size_t size;
} Address;

typedef struct Message {
    struct Message *next;
    Address address;
    size_t size;
    /* The frames of header and body. */
    uint8_t frames[];
} Message;

typedef struct Consumer {
    struct Consumer *next;
    struct Connection *connection;
    struct Channel *channel;
    uint8_t tag[256];
    int is_acking;
    long unacked;
} Consumer;

typedef struct Queue {
    struct Queue *next;
    uint8_t name[256];
    Message *first, *last;
    uint32_t count;
    Consumer *consumers;
} Queue;

typedef struct Binding {
    struct Binding *next;
    Address address;
    Queue *queue;
} Binding;

typedef struct Channel {
    int number, is_confirming, prefetch;
    uint64_t delivered, acked, published, confirmed;
    Consumer *acking;
    /* Of the publish that arrives: where it goes, its frames, and how much of the body is still to come. */
    Address address;
    Buffer content;
    uint64_t body_left;
} Channel;

typedef struct Connection {
    struct Connection *next;
    int socket, is_greeted, is_closing, is_gone, is_watched_for_room;
    Buffer in, out;
    Channel *channels[CHANNELS];
} Connection;

static Queue *queues;
static Binding *bindings;
static Connection *connections;
static int poller;

static int is_same(const uint8_t *left, const uint8_t *right) { return !memcmp(left, right, *left + 1); }

static void copy_name(uint8_t *to, const uint8_t *from) { memcpy(to, from, *from + 1); }

static Queue *find(const uint8_t *name) {
    Queue *queue = queues;
    while (queue && !is_same(queue->name, name))
        queue = queue->next;
    return queue;
}

static void bind_queue(Queue *queue, const uint8_t *exchange, const uint8_t *key) {
    Binding *binding = calloc(1, sizeof *binding);
    binding->queue = queue;
    copy_name(binding->address.octets, exchange);
    copy_name(binding->address.octets + *exchange + 1, key);
    binding->address.size = *exchange + *key + 2;
    binding->next = bindings;
    bindings = binding;
}

static Queue *declare(const uint8_t *name) {
    static unsigned made;
    Queue *queue = find(name);
    if (queue)
        return queue;
    queue = calloc(1, sizeof *queue);
    copy_name(queue->name, name);
    if (!*name)
        queue->name[0] = sprintf((char *)queue->name + 1, "made-%u", ++made);
    queue->next = queues;
    bind_queue(queue, (const uint8_t *)"", queue->name);
    return queues = queue;
}

static void purge(Queue *queue) {
    for (Message *next; queue->first; queue->first = next) {
        next = queue->first->next;
        free(queue->first);
    }
    queue->last = NULL;
    queue->count = 0;
}

static int has_room(const Consumer *consumer) {
    if (waiting(&consumer->connection->out) > OUT_BYTES)
        return 0;
    return !consumer->is_acking || !consumer->channel->prefetch || consumer->unacked < consumer->channel->prefetch;
}

static void put_content(Connection *connection, int channel, const uint8_t *frames, size_t size) {
    Buffer *out = &connection->out;
    put(out, frames, size);
    for (uint8_t *frame = out->data + out->end - size; frame < out->data + out->end; frame += number(frame + 3, 4) + 8) {
        frame[1] = channel >> 8;
        frame[2] = channel;
    }
}

static void deliver(Consumer *consumer, const Address *address, const uint8_t *frames, size_t size) {
    Buffer *out = &consumer->connection->out;
    begin_method(out, consumer->channel->number, BASIC, 60, *consumer->tag + 1 + 9 + address->size);
    put(out, consumer->tag, *consumer->tag + 1);
    put_number(out, ++consumer->channel->delivered, 8);
    put_number(out, 0, 1);
    put(out, address->octets, address->size);
    put_number(out, FRAME_END, 1);
    put_content(consumer->connection, consumer->channel->number, frames, size);
    consumer->unacked += consumer->is_acking;
}

/* The consumer whose turn it is, with room; it goes to the end of the row. */
static Consumer *next_consumer(Queue *queue) {
    Consumer **place = &queue->consumers;
    while (*place && !has_room(*place))
        place = &(*place)->next;
    Consumer *found = *place;
    if (found && found->next) {
        *place = found->next;
        while (*place)
            place = &(*place)->next;
        *place = found;
        found->next = NULL;
    }
    return found;
}

static Message *take_first(Queue *queue) {
    Message *message = queue->first;
    queue->first = message->next;
    if (!queue->first)
        queue->last = NULL;
    queue->count--;
    return message;
}

static void deliver_waiting(Queue *queue) {
    Consumer *consumer;
    while (queue->first && (consumer = next_consumer(queue))) {
        Message *message = take_first(queue);
        deliver(consumer, &message->address, message->frames, message->size);
        free(message);
    }
}

static void enqueue(Queue *queue, const Channel *from) {
    Consumer *consumer = queue->first ? NULL : next_consumer(queue);
    size_t size = waiting(&from->content);
    const uint8_t *frames = from->content.data + from->content.at;
    if (consumer) {
        deliver(consumer, &from->address, frames, size);
        return;
    }
    Message *message = malloc(sizeof *message + size);
    message->next = NULL;
    message->address = from->address;
    message->size = size;
    memcpy(message->frames, frames, size);
    if (queue->last)
        queue->last->next = message;
    else
        queue->first = message;
    queue->last = message;
    queue->count++;
}

static void route(Channel *channel) {
    const Address *address = &channel->address;
    for (Binding *binding = bindings; binding; binding = binding->next)
        if (binding->address.size == address->size && !memcmp(binding->address.octets, address->octets, address->size))
            enqueue(binding->queue, channel);
    channel->content.at = channel->content.end;
    channel->published++;
}

static void acknowledge(Channel *channel, uint64_t tag, int is_multiple) {
    long count = is_multiple ? (long)((tag ? tag : channel->delivered) - channel->acked) : 1;
    if (tag > channel->acked)
        channel->acked = tag;
    if (!channel->acking)
        return;
    channel->acking->unacked -= count;
    for (Queue *queue = queues; queue; queue = queue->next)
        deliver_waiting(queue);
}

/* Removes the consumers of a queue that belong to a connection, a channel or have a tag, each where it is given. */
static void cancel(Queue *queue, const Connection *connection, const Channel *channel, const uint8_t *tag) {
    for (Consumer **place = &queue->consumers, *each; (each = *place);) {
        if ((connection && each->connection != connection) || (channel && each->channel != channel) || (tag && !is_same(each->tag, tag))) {
            place = &each->next;
            continue;
        }
        if (each->channel->acking == each)
            each->channel->acking = NULL;
        *place = each->next;
        free(each);
    }
}

static void cancel_everywhere(const Connection *connection, const Channel *channel, const uint8_t *tag) {
    for (Queue *queue = queues; queue; queue = queue->next)
        cancel(queue, connection, channel, tag);
}

static void delete(Queue *queue) {
    purge(queue);
    cancel(queue, NULL, NULL, NULL);
    for (Binding **place = &bindings, *each; (each = *place);) {
        if (each->queue != queue) {
            place = &each->next;
            continue;
        }
        *place = each->next;
        free(each);
    }
    Queue **place = &queues;
    while (*place != queue)
        place = &(*place)->next;
    *place = queue->next;
    free(queue);
}

static void drop_channel(Connection *connection, int number) {
    Channel *channel = connection->channels[number];
    if (!channel)
        return;
    cancel_everywhere(connection, channel, NULL);
    free(channel->content.data);
    free(channel);
    connection->channels[number] = NULL;
}

static void drop(Connection *connection) {
    if (connection->is_gone)
        return;
    connection->is_gone = 1;
    for (int number = 0; number < CHANNELS; number++)
        drop_channel(connection, number);
    close(connection->socket);
}

static void start(Connection *connection) {
    static const char *capabilities[] = {"publisher_confirms", "basic.nack", "consumer_cancel_notify", "connection.blocked"};
    Buffer inner = {0}, properties = {0}, *out = &connection->out;
    for (int i = 0; i < 4; i++) {
        put_name(&inner, capabilities[i]);
        put(&inner, "t\1", 2);
    }
    put_name(&properties, "capabilities");
    put(&properties, "F", 1);
    put_number(&properties, inner.end, 4);
    put(&properties, inner.data, inner.end);
    begin_method(out, 0, CONNECTION, 10, 2 + 4 + properties.end + 9 + 9);
    put_number(out, 9, 2);
    put_number(out, properties.end, 4);
    put(out, properties.data, properties.end);
    put(out, "\0\0\0\5PLAIN\0\0\0\5en_US", 18);
    put_number(out, FRAME_END, 1);
    free(inner.data);
    free(properties.data);
}

static void on_connection(Connection *connection, int method_id) {
    if (method_id == 11)
        put_method(&connection->out, 0, CONNECTION, 30, "hlh", CHANNELS - 1, 131072, 60);
    else if (method_id == 40)
        put_method(&connection->out, 0, CONNECTION, 41, "b", 0);
    else if (method_id == 50) {
        put_method(&connection->out, 0, CONNECTION, 51, "");
        connection->is_closing = 1;
    }
}

static void on_channel(Connection *connection, int number, int method_id) {
    if (method_id == 10) {
        connection->channels[number] = calloc(1, sizeof(Channel));
        connection->channels[number]->number = number;
        put_method(&connection->out, number, CHANNEL, 11, "l", 0);
    } else if (method_id == 40) {
        drop_channel(connection, number);
        put_method(&connection->out, number, CHANNEL, 41, "");
    }
}

static void on_queue(Connection *connection, int channel, int method_id, const uint8_t *arguments) {
    const uint8_t *name = arguments + 2, *rest = name + *name + 1;
    Queue *queue = method_id == 10 ? declare(name) : find(name);
    Buffer *out = &connection->out;
    uint32_t count = queue ? queue->count : 0;
    if (method_id == 10) {
        begin_method(out, channel, QUEUE, 11, *queue->name + 1 + 8);
        put(out, queue->name, *queue->name + 1);
        put_number(out, count, 4);
        put_number(out, 0, 4);
        put_number(out, FRAME_END, 1);
    } else if (method_id == 20) {
        bind_queue(queue, rest, rest + *rest + 1);
        put_method(out, channel, QUEUE, 21, "");
    } else if (method_id == 30) {
        purge(queue);
        put_method(out, channel, QUEUE, 31, "l", count);
    } else if (method_id == 40) {
        if (queue)
            delete(queue);
        put_method(out, channel, QUEUE, 41, "l", count);
    } else {
        put_method(out, channel, QUEUE, 51, "");
    }
}

static void put_tag(Buffer *out, int channel, int method_id, const uint8_t *tag) {
    begin_method(out, channel, BASIC, method_id, *tag + 1);
    put(out, tag, *tag + 1);
    put_number(out, FRAME_END, 1);
}

static void consume(Connection *connection, Channel *channel, const uint8_t *arguments) {
    static unsigned made;
    const uint8_t *name = arguments + 2, *tag = name + *name + 1;
    int flags = tag[*tag + 1];
    Queue *queue = find(name);
    Consumer *consumer = calloc(1, sizeof *consumer), **place = &queue->consumers;
    consumer->connection = connection;
    consumer->channel = channel;
    consumer->is_acking = !(flags & 2);
    copy_name(consumer->tag, tag);
    if (!*tag)
        consumer->tag[0] = sprintf((char *)consumer->tag + 1, "made-%u", ++made);
    if (consumer->is_acking)
        channel->acking = consumer;
    if (!(flags & 8))
        put_tag(&connection->out, channel->number, 21, consumer->tag);
    while (*place)
        place = &(*place)->next;
    *place = consumer;
    deliver_waiting(queue);
}

static void get(Connection *connection, Channel *channel, const uint8_t *name) {
    Queue *queue = find(name);
    Buffer *out = &connection->out;
    if (!queue || !queue->first) {
        put_method(out, channel->number, BASIC, 72, "b", 0);
        return;
    }
    Message *message = take_first(queue);
    begin_method(out, channel->number, BASIC, 71, 9 + message->address.size + 4);
    put_number(out, ++channel->delivered, 8);
    put_number(out, 0, 1);
    put(out, message->address.octets, message->address.size);
    put_number(out, queue->count, 4);
    put_number(out, FRAME_END, 1);
    put_content(connection, channel->number, message->frames, message->size);
    free(message);
}

static void on_basic(Connection *connection, Channel *channel, int method_id, const uint8_t *arguments) {
    if (method_id == 40) {
        const uint8_t *exchange = arguments + 2, *key = exchange + *exchange + 1;
        channel->address.size = *exchange + *key + 2;
        memcpy(channel->address.octets, exchange, channel->address.size);
    } else if (method_id == 80 || method_id == 120) {
        acknowledge(channel, number(arguments, 8), arguments[8] & 1);
    } else if (method_id == 90) {
        acknowledge(channel, number(arguments, 8), 0);
    } else if (method_id == 10) {
        channel->prefetch = number(arguments + 4, 2);
        put_method(&connection->out, channel->number, BASIC, 11, "");
    } else if (method_id == 20) {
        consume(connection, channel, arguments);
    } else if (method_id == 30) {
        cancel_everywhere(connection, channel, arguments);
        put_tag(&connection->out, channel->number, 31, arguments);
    } else if (method_id == 70) {
        get(connection, channel, arguments + 2);
    }
}

static void on_method(Connection *connection, int channel, const uint8_t *payload) {
    int class_id = number(payload, 2), method_id = number(payload + 2, 2);
    payload += 4;
    if (class_id == BASIC)
        on_basic(connection, connection->channels[channel], method_id, payload);
    else if (class_id == QUEUE)
        on_queue(connection, channel, method_id, payload);
    else if (class_id == CONNECTION)
        on_connection(connection, method_id);
    else if (class_id == CHANNEL)
        on_channel(connection, channel, method_id);
    else if (class_id == CONFIRM) {
        connection->channels[channel]->is_confirming = 1;
        put_method(&connection->out, channel, CONFIRM, 11, "");
    } else {
        put_method(&connection->out, channel, class_id, method_id + 1, "");
    }
}

static void on_frame(Connection *connection, const uint8_t *frame) {
    int channel_number = number(frame + 1, 2);
    size_t size = number(frame + 3, 4);
    if (frame[0] == METHOD) {
        on_method(connection, channel_number, frame + 7);
        return;
    }
    Channel *channel = connection->channels[channel_number];
    if (!channel)
        return;
    put(&channel->content, frame, size + 8);
    if (frame[0] == HEADER)
        channel->body_left = number(frame + 7 + 4, 8);
    else
        channel->body_left -= size;
    if (!channel->body_left)
        route(channel);
}

/* One confirm for all that one read has brought. */
static void put_confirms(Connection *connection) {
    for (int number = 1; number < EVENTS; number++) {
        Channel *channel = connection->channels[number];
        if (!channel || !channel->is_confirming || channel->published == channel->confirmed)
            continue;
        begin_method(&connection->out, number, BASIC, 80, 9);
        put_number(&connection->out, channel->published, 8);
        put_number(&connection->out, channel->published > channel->confirmed + 1, 1);
        put_number(&connection->out, FRAME_END, 1);
        channel->confirmed = channel->published;
    }
}

static void receive(Connection *connection) {
    Buffer *in = &connection->in;
    const uint8_t *frame;
    reserve(in, READ_BYTES);
    ssize_t got = recv(connection->socket, in->data + in->end, READ_BYTES, 0);
    if (got < 0 && errno == EAGAIN)
        return;
    if (got <= 0) {
        drop(connection);
        return;
    }
    in->end += got;
    if (!connection->is_greeted && waiting(in) >= 8) {
        connection->is_greeted = 1;
        in->at += 8;
        start(connection);
    }
    while ((frame = next_frame(in)))
        on_frame(connection, frame);
    put_confirms(connection);
}

static void watch(Connection *connection, int operation) {
    struct epoll_event event = {EPOLLIN | (connection->is_watched_for_room ? EPOLLOUT : 0), {.ptr = connection}};
    epoll_ctl(poller, operation, connection->socket, &event);
}

/* Sends what there is; what waited for room in the output follows. */
static void flush(Connection *connection) {
    Buffer *out = &connection->out;
    while (waiting(out)) {
        ssize_t sent = send(connection->socket, out->data + out->at, waiting(out), MSG_NOSIGNAL);
        if (sent < 0 && errno == EAGAIN)
            break;
        if (sent < 0) {
            drop(connection);
            return;
        }
        out->at += sent;
        if (!waiting(out))
            for (Queue *queue = queues; queue; queue = queue->next)
                deliver_waiting(queue);
    }
    if (!waiting(out) && connection->is_closing) {
        drop(connection);
        return;
    }
    if (connection->is_watched_for_room != (waiting(out) > 0)) {
        connection->is_watched_for_room = waiting(out) > 0;
        watch(connection, EPOLL_CTL_MOD);
    }
}

static void accept_one(int listener) {
    int one = 1, socket = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
    if (socket < 0)
        return;
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    Connection *connection = calloc(1, sizeof *connection);
    connection->socket = socket;
    connection->next = connections;
    connections = connection;
    watch(connection, EPOLL_CTL_ADD);
}

static void free_gone(void) {
    for (Connection **place = &connections, *each; (each = *place);) {
        if (!each->is_gone) {
            place = &each->next;
            continue;
        }
        *place = each->next;
        free(each->in.data);
        free(each->out.data);
        free(each);
    }
}

int main(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (void *)&address, sizeof address) || listen(listener, 1024)) {
        perror("ceiling");
        return 1;
    }
    getsockname(listener, (void *)&address, &size);
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    poller = epoll_create1(0);
    struct epoll_event listening = {EPOLLIN, {.ptr = NULL}}, events[EVENTS];
    epoll_ctl(poller, EPOLL_CTL_ADD, listener, &listening);
    for (;;) {
        int count = epoll_wait(poller, events, EVENTS, -1);
        for (int i = 0; i < count; i++) {
            Connection *connection = events[i].data.ptr;
            if (!connection)
                accept_one(listener);
            else if (!connection->is_gone && events[i].events & ~EPOLLOUT)
                receive(connection);
            else if (!connection->is_gone)
                flush(connection);
        }
        for (Connection *each = connections; each; each = each->next)
            if (!each->is_gone && !each->is_watched_for_room && (waiting(&each->out) || each->is_closing))
                flush(each);
        free_gone();
    }
}
