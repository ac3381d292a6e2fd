/* A piece is added whole or not at all: half a piece of SQL or of JSON is worse than none. So each
 * function first makes room for all of its piece, and only then writes. The bound is clamped to
 * what one allocation can hold, which keeps every sum below free of overflow. */
#include "base/buf.h"

#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define FIRST_ROOM ((size_t)64)
#define MAX_SIZE ((size_t)PTRDIFF_MAX / 2)

void buf_init(buf *b, size_t max)
{
    *b = (buf){.max = max < MAX_SIZE ? max : MAX_SIZE};
}

void buf_init_fixed(buf *b, char *at, size_t room)
{
    assert(at && room > 0);
    *b = (buf){.at = at, .room = room, .max = room - 1, .fixed = 1};
    at[0] = '\0';
}

void buf_free(buf *b)
{
    if (b->fixed) {
        buf_init_fixed(b, b->at, b->room);
        return;
    }
    free(b->at);
    buf_init(b, b->max);
}

/* Makes room for `more` bytes and the NUL. Returns 0, or -1 if there is none, and the buffer has
 * failed. */
static int reserve(buf *b, size_t more)
{
    assert(b->size <= b->max);
    if (b->failed)
        return -1;
    if (more > b->max - b->size) {
        b->failed = 1;
        return -1;
    }
    size_t need = b->size + more + 1;
    if (need <= b->room)
        return 0;

    assert(!b->fixed);
    size_t room = b->room ? b->room : FIRST_ROOM;
    while (room < need)
        room *= 2;
    if (room > b->max + 1)
        room = b->max + 1;
    char *at = realloc(b->at, room);
    if (!at) {
        b->failed = b->no_memory = 1;
        return -1;
    }
    b->at = at;
    b->room = room;
    return 0;
}

void buf_add(buf *b, slice s)
{
    if (s.size == 0 || reserve(b, s.size) != 0)
        return;
    memcpy(b->at + b->size, s.at, s.size);
    b->size += s.size;
    b->at[b->size] = '\0';
}

void buf_text(buf *b, const char *text)
{
    buf_add(b, slice_of(text));
}

void buf_char(buf *b, char c)
{
    buf_add(b, (slice){&c, 1});
}

__attribute__((format(printf, 2, 0))) static void add_formatted(buf *b, const char *format,
                                                                va_list args)
{
    /* Most pieces fit into the room there is, and are formatted once. */
    va_list again;
    va_copy(again, args);
    size_t left = b->room - b->size;
    int size = vsnprintf(b->at ? b->at + b->size : NULL, left, format, args);
    if (size < 0) {
        b->failed = 1;
    } else if (size > 0 && reserve(b, (size_t)size) == 0) {
        if ((size_t)size >= left)
            vsnprintf(b->at + b->size, b->room - b->size, format, again);
        b->size += (size_t)size;
    }
    if (b->at)
        b->at[b->size] = '\0';
    va_end(again);
}

void buf_printf(buf *b, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    add_formatted(b, format, args);
    va_end(args);
}

const char *buf_str(const buf *b)
{
    return b->at ? b->at : "";
}
