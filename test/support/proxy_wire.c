/* Cutting the bytes between a client and a PostgreSQL server into messages. Both are trusted
 * programs: a length that makes no sense fails an assertion. */
#include "support/proxy_wire.h"

#include <assert.h>
#include <stdlib.h>

enum {
    SIZE_BYTES = 4,
    MESSAGE_MAX = 1 << 30,
    CODE_CANCEL = 80877102,
    CODE_TLS = 80877103,
    CODE_GSS = 80877104,
};

/* ---- Bytes ---- */

void pile_add(pile *p, slice s)
{
    if (p->start == p->end)
        p->start = p->end = 0;
    if (p->room - p->end < s.size && p->start > 0) {
        memmove(p->bytes, p->bytes + p->start, p->end - p->start);
        p->end -= p->start;
        p->start = 0;
    }
    if (p->room - p->end < s.size) {
        size_t room = 2 * p->room + s.size + 1024;
        char *bytes = realloc(p->bytes, room);
        assert(bytes);
        p->bytes = bytes;
        p->room = room;
    }
    if (s.size > 0)
        memcpy(p->bytes + p->end, s.at, s.size);
    p->end += s.size;
}

slice pile_all(const pile *p)
{
    return (slice){p->bytes ? p->bytes + p->start : "", p->end - p->start};
}

void pile_take(pile *p, size_t size)
{
    assert(size <= p->end - p->start);
    p->start += size;
}

void pile_clear(pile *p)
{
    p->start = p->end = 0;
}

void pile_free(pile *p)
{
    free(p->bytes);
    *p = (pile){0};
}

/* ---- Messages ---- */

static size_t read_size(const char *at)
{
    const unsigned char *b = (const unsigned char *)at;
    return (size_t)b[0] << 24 | (size_t)b[1] << 16 | (size_t)b[2] << 8 | b[3];
}

/* Returns the size of the first message in the queue; 0: it is not known yet. */
static size_t next_size(const wire *w)
{
    slice have = pile_all(&w->in);
    size_t letter = w->typed ? 1 : 0;
    if (w->raw > 0)
        return have.size > 0 ? 1 : 0;
    if (have.size < letter + SIZE_BYTES)
        return 0;
    size_t size = read_size(have.at + letter);
    assert(size >= SIZE_BYTES && size <= MESSAGE_MAX);
    return size + letter;
}

int wire_next(wire *w, wire_message *out)
{
    size_t size = next_size(w);
    if (size == 0 || w->in.end - w->in.start < size)
        return 0;
    char *all = w->in.bytes + w->in.start;
    size_t head = w->raw > 0 ? 0 : SIZE_BYTES + (w->typed ? 1u : 0u);
    *out = (wire_message){.all = all, .size = size};
    out->type = w->raw == 0 && w->typed ? all[0] : 0;
    out->body = (slice){all + head, size - head};
    if (w->raw > 0)
        w->raw--;
    else if (!w->typed && wire_packet_of(out) == WIRE_START)
        w->typed = 1;
    pile_take(&w->in, size);
    return 1;
}

wire_packet wire_packet_of(const wire_message *m)
{
    size_t code = m->body.size >= SIZE_BYTES ? read_size(m->body.at) : 0;
    if (code == CODE_CANCEL)
        return WIRE_CANCEL;
    return code == CODE_TLS || code == CODE_GSS ? WIRE_ENCRYPT : WIRE_START;
}

/* Takes the text up to the next NUL, and removes both from the body. */
static slice take_text(slice *body)
{
    const char *end = body->size > 0 ? memchr(body->at, '\0', body->size) : NULL;
    assert(end);
    slice text = {body->at, (size_t)(end - body->at)};
    body->at += text.size + 1;
    body->size -= text.size + 1;
    return text;
}

int wire_is_commit(const wire_message *m)
{
    slice body = m->body;
    if (m->type != 'B' && m->type != 'P')
        return 0;
    slice first = take_text(&body);
    slice second = take_text(&body);
    if (m->type == 'B') /* portal, statement */
        return slice_equal(second, SLICE_LIT("pawl_commit"));
    return first.size == 0 && slice_equal(second, SLICE_LIT("COMMIT")); /* statement, text */
}

int wire_asks_ready(const wire_message *m)
{
    if (m->type == 0)
        return wire_packet_of(m) == WIRE_START;
    return m->type == 'S' || m->type == 'Q' || m->type == 'F';
}

void wire_age_version(const wire_message *m)
{
    slice body = m->body;
    if (m->type != 'S' || !slice_equal(take_text(&body), SLICE_LIT("server_version")))
        return;
    assert(body.size > 2);
    memcpy(m->all + (body.at - m->all), "09", 2);
}
