/* A text is made in a buffer of its own and then copied, so that an error may be wrapped by one
 * that quotes it. What does not fit is cut between two characters: a text that was UTF-8 stays so.
 *
 * A store keeps one record per thread id, made at the thread's first error and never moved, so the
 * pointer that was handed out stays good while other threads add theirs. Only its own thread writes
 * a record. Records of ended threads stay until the store is freed; the system reuses their ids for
 * new threads, which then reuse the records. */
#include "base/error.h"

#include <assert.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/map.h"
#include "base/text.h"

typedef struct record {
    error last;
    char text[sizeof(error)]; /* what error_store_text() gives: message, detail and hint */
} record;

struct error_store {
    pthread_mutex_t mutex;
    map records; /* thread -> record */
};

/* The largest size up to `size` that does not end inside a character. */
static size_t whole_characters(const char *at, size_t size)
{
    size_t last = size;
    while (last > 0 && size - last < 3 && ((unsigned char)at[last - 1] & 0xC0) == 0x80)
        last--;
    if (last > 0)
        last--;
    return text_char((slice){at + last, size - last}) ? size : last;
}

static void format_text(char *at, size_t room, const char *format, va_list args)
    __attribute__((format(printf, 3, 0)));

static void format_text(char *at, size_t room, const char *format, va_list args)
{
    char made[sizeof((error *)NULL)->detail];
    assert(room <= sizeof made);
    int wanted = vsnprintf(made, room, format, args);
    size_t size = wanted < 0 ? 0 : (size_t)wanted;
    if (size >= room)
        size = whole_characters(made, room - 1);
    memcpy(at, made, size);
    at[size] = '\0';
    text_drop_empty_parts(at); /* RULE an-empty-part-of-an-error-leaves-no-joint */
}

pawl_code error_set(error *err, pawl_code code, const char *format, ...)
{
    if (!err)
        return code;
    va_list args;
    va_start(args, format);
    format_text(err->message, sizeof err->message, format, args);
    va_end(args);
    err->code = code;
    err->detail[0] = '\0';
    err->hint[0] = '\0';
    return code;
}

pawl_code error_nomem(error *err)
{
    return error_set(err, PAWL_NOMEM, "out of memory");
}

void error_detail(error *err, const char *format, ...)
{
    if (!err)
        return;
    va_list args;
    va_start(args, format);
    format_text(err->detail, sizeof err->detail, format, args);
    va_end(args);
}

void error_hint(error *err, const char *format, ...)
{
    if (!err)
        return;
    va_list args;
    va_start(args, format);
    format_text(err->hint, sizeof err->hint, format, args);
    va_end(args);
}

error_store *error_store_new(void)
{
    error_store *s = calloc(1, sizeof *s);
    if (s && pthread_mutex_init(&s->mutex, NULL) != 0) {
        free(s);
        return NULL;
    }
    return s;
}

void error_store_free(error_store *s)
{
    if (!s)
        return;
    size_t cursor = 0;
    uint64_t key;
    void *each;
    while (map_next(&s->records, &cursor, &key, &each))
        free(each);
    map_free(&s->records);
    pthread_mutex_destroy(&s->mutex);
    free(s);
}

/* POSIX leaves open what a pthread_t is; everywhere we run it is an integer or a pointer. */
static uint64_t thread_key(void)
{
    return (uint64_t)(uintptr_t)pthread_self();
}

static record *new_record(error_store *s, uint64_t key)
{
    record *r = malloc(sizeof *r);
    if (r && map_put(&s->records, key, r) != 0) {
        free(r);
        return NULL;
    }
    return r;
}

static void write_text(record *r)
{
    const error *e = &r->last;
    buf b;
    buf_init_fixed(&b, r->text, sizeof r->text);
    buf_text(&b, e->message);
    if (e->detail[0])
        buf_printf(&b, "%s%s", e->message[0] ? ": " : "", e->detail);
    if (e->hint[0])
        buf_printf(&b, "%s(%s)", e->message[0] || e->detail[0] ? " " : "", e->hint);
}

pawl_code error_store_put(error_store *s, const error *err)
{
    uint64_t key = thread_key();
    pthread_mutex_lock(&s->mutex);
    record *r = map_get(&s->records, key);
    if (!r)
        r = new_record(s, key);
    if (r) { /* where memory is out there is no record, and the caller has the code only */
        r->last = *err;
        write_text(r);
    }
    pthread_mutex_unlock(&s->mutex);
    return err->code;
}

static const record *get_record(error_store *s)
{
    static const record none = {.last = {.code = PAWL_OK}};
    pthread_mutex_lock(&s->mutex);
    const record *r = map_get(&s->records, thread_key());
    pthread_mutex_unlock(&s->mutex);
    return r ? r : &none;
}

const error *error_store_get(error_store *s)
{
    return &get_record(s)->last;
}

const char *error_store_text(error_store *s)
{
    return get_record(s)->text;
}
