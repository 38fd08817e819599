/* Octets of AMQP 0-9-1 for the generator and the ceiling: buffers that grow, numbers, and methods as frames. */
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { CONNECTION = 10, CHANNEL = 20, EXCHANGE = 40, QUEUE = 50, BASIC = 60, CONFIRM = 85 };
enum { METHOD = 1, HEADER = 2, BODY = 3, FRAME_END = 0xCE };
enum { READ_BYTES = 65536 };

/* What stands before `at` was taken already. */
typedef struct {
    uint8_t *data;
    size_t at, end, size;
} Buffer;

static size_t waiting(const Buffer *buffer) { return buffer->end - buffer->at; }

static void reserve(Buffer *buffer, size_t octets) {
    if (buffer->at == buffer->end)
        buffer->at = buffer->end = 0;
    if (buffer->end + octets > buffer->size && buffer->at) {
        memmove(buffer->data, buffer->data + buffer->at, waiting(buffer));
        buffer->end -= buffer->at;
        buffer->at = 0;
    }
    while (buffer->end + octets > buffer->size)
        buffer->data = realloc(buffer->data, buffer->size = buffer->size ? buffer->size * 2 : 64);
}

static void put(Buffer *buffer, const void *octets, size_t count) {
    reserve(buffer, count);
    memcpy(buffer->data + buffer->end, octets, count);
    buffer->end += count;
}

static void put_number(Buffer *buffer, uint64_t value, int octets) {
    reserve(buffer, octets);
    for (int left = octets; left--;)
        buffer->data[buffer->end++] = value >> 8 * left;
}

static void put_name(Buffer *buffer, const char *name) {
    put_number(buffer, strlen(name), 1);
    put(buffer, name, strlen(name));
}

static uint64_t number(const uint8_t *from, int octets) {
    uint64_t value = 0;
    while (octets--)
        value = value << 8 | *from++;
    return value;
}

/* The first octets of a method's frame; `size` is that of its arguments. */
static void begin_method(Buffer *buffer, int channel, int class_id, int method_id, size_t size) {
    put_number(buffer, METHOD, 1);
    put_number(buffer, channel, 2);
    put_number(buffer, size + 4, 4);
    put_number(buffer, class_id << 16 | method_id, 4);
}

/* A method and its arguments: s a short string, b an octet, h two, l four (also an empty table). */
static void put_method(Buffer *buffer, int channel, int class_id, int method_id, const char *format, ...) {
    Buffer arguments = {0};
    va_list values;
    va_start(values, format);
    for (; *format; format++) {
        if (*format == 's')
            put_name(&arguments, va_arg(values, const char *));
        else
            put_number(&arguments, va_arg(values, int), *format == 'b' ? 1 : *format == 'h' ? 2 : 4);
    }
    va_end(values);
    begin_method(buffer, channel, class_id, method_id, arguments.end);
    if (arguments.end)
        put(buffer, arguments.data, arguments.end);
    put_number(buffer, FRAME_END, 1);
    free(arguments.data);
}

/* The next whole frame of what has arrived, or NULL. */
static const uint8_t *next_frame(Buffer *buffer) {
    const uint8_t *frame = buffer->data + buffer->at;
    if (waiting(buffer) < 8 || waiting(buffer) < number(frame + 3, 4) + 8)
        return NULL;
    buffer->at += number(frame + 3, 4) + 8;
    return frame;
}
