/* A bounded buffer: text that is put together piece by piece and can never pass its bound.
 *
 * Once a piece did not fit, or memory was out, the buffer is *failed*: it stays as it was and all
 * later pieces are dropped, so that the caller checks once, at the end. Its bytes always end in
 * a NUL that is not counted. */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include <stdarg.h>
#include <stddef.h>

#include "base/slice.h"

typedef struct buf {
    char *at;
    size_t size;
    size_t room;
    size_t max;
    int failed;
    int no_memory; /* 1: the buffer failed because memory was out, and not at its bound */
    int fixed;     /* the bytes belong to the caller and do not grow */
} buf;

/* An empty buffer of at most `max` bytes. Nothing is allocated yet. */
void buf_init(buf *b, size_t max);

/* An empty buffer in memory of the caller; holds `room - 1` bytes at most. */
void buf_init_fixed(buf *b, char *at, size_t room);

/* Frees the bytes (unless fixed). The buffer is empty and usable again. */
void buf_free(buf *b);

void buf_add(buf *b, slice s);
void buf_text(buf *b, const char *text);
void buf_char(buf *b, char c);
void buf_printf(buf *b, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* What is in it; "" when empty. Good until the next change. */
const char *buf_str(const buf *b);

#endif
