/* Deterministic replay over a page of rows, a position in it, and a map of the ops that are open.
 *
 * Each row is checked once, when it is fed: from then on it is in order and of a known kind, and an
 * arrival fits its op. `end` tells what comes after the rows of the page: more rows, the end of the
 * journal, or a row that cannot be followed. An ask returns `end` only when it has passed all rows
 * of the page, so that the size of pages has no effect.
 *
 * An op is open from its row to its answer. Open ops are in the map, and are called pending. An op
 * is removed from the map when its answer is given out, so that a loop of a million sleeps keeps no
 * memory. An op that was asked for and is not pending has been answered. */
#include "journal/replay.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/map.h"
#include "base/text.h"

/* Names in error messages are cut to this many bytes, which is enough to recognise them. */
#define LABEL_ROOM 48

/* pawl writes a payload and a little around it. Larger data was not written by pawl. */
#define DATA_MAX ((size_t)2 * PAWL_MAX_PAYLOAD)

/* Kinds are numbered by hand: a number beyond this is damage, not a newer version. */
#define KIND_MAX 9999

typedef struct pending {
    struct pending *spare; /* next in the list of free records */
    op_kind kind;
    int answered; /* 1: its answer was fed or queued, though perhaps not given out yet */
    int64_t attempts;
    void *owner;
    char label[LABEL_ROOM];
} pending;

struct replay {
    arena *arena;
    int64_t generation;

    const replay_row *rows;
    size_t count;
    size_t at;
    replay_result end;

    int64_t seq;      /* of the last row that was fed, appended or queued */
    int64_t last_ask; /* seq of the last row fed that is no arrival */
    int begun;        /* the code has its input */
    int ended;        /* the row `seq` is the end of the generation */
    int stopped;      /* 1: an ask has failed (MISMATCH, CORRUPT or NOMEM), as all later ones do */
    int cancelled;

    map pendings;
    pending *spares;
    void *owner;
    int64_t work;
    error err;
};

static void free_map(void *arg)
{
    map_free(arg);
}

replay *replay_new(arena *a, int64_t generation)
{
    replay *r = arena_alloc(a, sizeof *r);
    if (!r || arena_defer(a, free_map, &r->pendings) != 0)
        return NULL;
    r->arena = a;
    r->generation = generation;
    r->end = REPLAY_MORE;
    return r;
}

/* ---- words ---- */

/* Writes a name as it can stand in an error message: in one line, and not too long. */
static void write_label(char out[LABEL_ROOM], slice name)
{
    static const slice CUT = {"…", sizeof "…" - 1};
    size_t used = 0;
    for (size_t i = 0; i < name.size;) {
        slice rest = {name.at + i, name.size - i};
        size_t size = text_char(rest);
        slice piece = {rest.at, size};
        if (size == 0 || (unsigned char)*rest.at < ' ')
            piece = SLICE_LIT("?");
        i += size ? size : 1;
        if (used + piece.size + CUT.size >= LABEL_ROOM) {
            piece = CUT;
            i = name.size;
        }
        memcpy(out + used, piece.at, piece.size);
        used += piece.size;
    }
    out[used] = '\0';
}

typedef struct words {
    char text[LABEL_ROOM + 80];
} words;

static words words_for(op_kind kind, const char *label)
{
    words w;
    const char *word = op_find(op_asked_as(kind))->word;
    if (kind == OP_ENDED)
        snprintf(w.text, sizeof w.text, "the end of the run");
    else if (kind == OP_ENDED_FAILED)
        snprintf(w.text, sizeof w.text, "the failure of the run");
    else if (label[0])
        snprintf(w.text, sizeof w.text, "%s \"%s\"", word, label);
    else
        snprintf(w.text, sizeof w.text, "%s", word);
    return w;
}

static words describe_op(op_kind kind, slice name)
{
    char label[LABEL_ROOM];
    write_label(label, name);
    return words_for(kind, label);
}

static void explain_corrupt(replay *r, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Sets the error: the row after the last good one is damaged. */
static void explain_corrupt(replay *r, const char *format, ...)
{
    char reason[200];
    va_list args;
    va_start(args, format);
    vsnprintf(reason, sizeof reason, format, args);
    va_end(args);
    error_set(&r->err, PAWL_CORRUPT, "the journal of the run is damaged");
    error_detail(&r->err, "position %" PRId64 ": %s", r->seq + 1, reason);
    error_hint(&r->err, "something other than pawl has changed the database, or its disk fails: "
                        "check it, and restore the run from a backup or delete it");
}

static replay_result report_mismatch(replay *r, const replay_row *row, const char *verb,
                                     words asked)
{
    op_kind kind = row ? (op_kind)row->kind : OP_ENDED;
    words have = describe_op(kind, row ? row->name : SLICE_LIT(""));
    error_set(&r->err, PAWL_HELD, "the code does not follow the journal of the run");
    error_detail(&r->err, "position %" PRId64 ": the journal has %s, the code %s%s",
                 row ? row->seq : r->seq, have.text, verb, asked.text);
    error_hint(&r->err, "the code has changed in a way that old runs cannot follow: put the old "
                        "order back, use pawl_patch(), or redrive the run");
    r->at = r->count;
    r->end = REPLAY_MISMATCH;
    r->stopped = 1;
    return r->end;
}

/* ---- checking rows ---- */

static pending *find_pending(const replay *r, int64_t op)
{
    return map_get(&r->pendings, (uint64_t)op);
}

/* Checks that the row is the next one of this generation. 0: it is not, and the error is set. */
static int check_place(replay *r, const replay_row *row)
{
    int64_t seq = r->seq + 1;
    if (row->seq > seq) /* RULE 6-a-damaged-journal-is-not-followed */
        explain_corrupt(r, "missing; the next row is number %" PRId64, row->seq);
    else if (row->seq < seq)
        explain_corrupt(r, "the row there is number %" PRId64 ", out of its order", row->seq);
    else if (row->generation != r->generation)
        explain_corrupt(r, "the row is of generation %" PRId64 ", not of %" PRId64, row->generation,
                        r->generation);
    else if (r->ended)
        explain_corrupt(r, "a row behind the end of the run");
    else
        return 1;
    return 0;
}

static const op_info *check_kind(replay *r, const replay_row *row)
{
    const op_info *info = op_find(row->kind);
    int starts = info && info->shape == OP_SHAPE_START;
    if (!info && row->kind > 0 && row->kind <= KIND_MAX) {
        error_set(&r->err, PAWL_NEWER, "the journal of the run was written by a newer pawl");
        error_detail(&r->err, "position %" PRId64 ": rows of kind %" PRId64 " are not known here",
                     r->seq + 1, row->kind);
        error_hint(&r->err, "let a node with the newer version go on with it");
    } else if (!info) {
        explain_corrupt(r, "there is no kind %" PRId64, row->kind);
    } else if (starts != (row->seq == 1)) {
        explain_corrupt(r, starts ? "the run begins a second time" : "the run has no beginning");
    } else {
        return info;
    }
    return NULL;
}

static int check_bytes(replay *r, const replay_row *row)
{
    error why;
    slice name = {row->name.at ? row->name.at : "", row->name.size};
    if (row->name.size > 0 && !row->name.at)
        explain_corrupt(r, "the name is missing");
    else if (text_check(name, PAWL_MAX_NAME, "name", &why) != PAWL_OK)
        explain_corrupt(r, "%s", why.message);
    else if (row->data.size > 0 && !row->data.at)
        explain_corrupt(r, "the data is missing");
    else if (row->data.size > DATA_MAX)
        explain_corrupt(r, "%zu bytes of data, more than any row has", row->data.size);
    else
        return 1;
    return 0;
}

/* Checks the row's reference to an op: an arrival must fit an open op or the run, any other row has
 * no reference. 0: it is wrong, and the error is set. */
static int check_op(replay *r, const op_info *info, const replay_row *row)
{
    if (!op_arrives(info->shape)) {
        if (row->op == 0)
            return 1;
        explain_corrupt(r, "%s is about position %" PRId64 ", but can be about no other row",
                        info->word, row->op);
    } else if (replay_fits(r, row->kind, row->op)) {
        return 1;
    } else if (row->op < 1 || row->op >= row->seq) {
        explain_corrupt(r, "%s is about position %" PRId64 ", which is not before it", info->word,
                        row->op);
    } else {
        const pending *p = find_pending(r, row->op);
        if (p && !p->answered)
            explain_corrupt(r, "%s is about position %" PRId64 ", which is %s", info->word, row->op,
                            words_for(p->kind, p->label).text);
        else
            explain_corrupt(r,
                            "%s is about position %" PRId64
                            ", which is not open: it was answered, or is not for answers",
                            info->word, row->op);
    }
    return 0;
}

int replay_fits(const replay *r, int64_t kind, int64_t op)
{
    const op_info *info = op_find(kind);
    if (!info || !op_arrives(info->shape))
        return 0;
    if (op == 0)
        return op_fits(info->kind, OP_NONE);
    const pending *p = find_pending(r, op);
    return p && !p->answered && op_fits(info->kind, p->kind);
}

/* ---- the ops that are open ---- */

static int add_pending(replay *r, const replay_row *row)
{
    pending *p = r->spares;
    if (p)
        r->spares = p->spare;
    else
        p = arena_alloc(r->arena, sizeof *p);
    if (!p)
        return -1;
    *p = (pending){.kind = (op_kind)row->kind};
    write_label(p->label, row->name);
    if (map_put(&r->pendings, (uint64_t)row->seq, p) == 0)
        return 0;
    p->spare = r->spares;
    r->spares = p;
    return -1;
}

static void end_pending(replay *r, int64_t op)
{
    pending *p = map_take(&r->pendings, (uint64_t)op);
    assert(p);
    r->owner = p->owner;
    p->spare = r->spares;
    r->spares = p;
}

void replay_own(replay *r, int64_t op, void *owner)
{
    pending *p = find_pending(r, op);
    if (p)
        p->owner = owner;
}

void *replay_owner(const replay *r)
{
    return r->owner;
}

void *replay_owner_of(const replay *r, int64_t op)
{
    const pending *p = find_pending(r, op);
    return p ? p->owner : NULL;
}

int64_t replay_attempts(const replay *r, int64_t op)
{
    const pending *p = find_pending(r, op);
    return p ? p->attempts : 0;
}

/* ---- rows come in ---- */

/* Checks a row, makes it the last known one, and marks the op that it opens or answers. After an
 * error nothing has changed. */
static pawl_code accept_row(replay *r, const replay_row *row)
{
    r->work++;
    const op_info *info = check_place(r, row) ? check_kind(r, row) : NULL;
    if (!info || !check_bytes(r, row) || !check_op(r, info, row))
        return r->err.code;
    if (info->shape == OP_SHAPE_OPEN && add_pending(r, row) != 0)
        return error_set(&r->err, PAWL_NOMEM, "no memory for the ops of the run that are open");
    if (info->shape == OP_SHAPE_ANSWER)
        find_pending(r, row->op)->answered = 1;
    r->ended = info->shape == OP_SHAPE_END;
    r->seq++;
    return PAWL_OK;
}

pawl_code replay_feed(replay *r, const replay_row *rows, size_t count)
{
    assert(r->at == r->count && r->end != REPLAY_NEW);
    r->rows = rows;
    r->count = r->at = 0;
    while (r->count < count && r->end == REPLAY_MORE) {
        const replay_row *row = &rows[r->count];
        pawl_code rc = accept_row(r, row);
        if (rc != PAWL_OK) {
            r->end = rc == PAWL_NOMEM ? REPLAY_NOMEM : REPLAY_CORRUPT;
            break;
        }
        if (!op_arrives(op_find(row->kind)->shape))
            r->last_ask = row->seq;
        r->count++;
    }
    return r->end == REPLAY_MORE ? PAWL_OK : r->err.code;
}

pawl_code replay_fed_all(replay *r, int64_t least)
{
    if (r->end == REPLAY_MORE) {
        r->end = REPLAY_NEW;
        if (r->seq < least) {
            r->end = REPLAY_CORRUPT;
            explain_corrupt(r, "missing; there were %" PRId64 " rows before", least);
        }
    }
    return r->end == REPLAY_NEW ? PAWL_OK : r->err.code;
}

pawl_code replay_append(replay *r, replay_row *row)
{
    const op_info *info = op_find(row->kind);
    assert(r->end == REPLAY_NEW && r->at == r->count && !(info && op_arrives(info->shape)));
    row->seq = r->seq + 1;
    row->generation = r->generation;
    pawl_code rc = accept_row(r, row);
    r->begun = r->begun || rc == PAWL_OK;
    return rc;
}

int replay_may_arrive(const replay *r)
{
    return r->end == REPLAY_NEW && r->at == r->count && r->begun && !r->ended;
}

size_t replay_arrive(replay *r, replay_row *rows, size_t count)
{
    assert(r->end == REPLAY_NEW && r->at == r->count && r->begun);
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        replay_row row = rows[i];
        row.seq = r->seq + 1;
        row.generation = r->generation;
        if (!replay_fits(r, row.kind, row.op) || accept_row(r, &row) != PAWL_OK)
            continue;
        rows[i] = rows[kept];
        rows[kept++] = row;
    }
    r->rows = rows;
    r->count = kept;
    r->at = 0;
    return kept;
}

/* ---- asks ---- */

/* Gives out the arrival at the current position. An answer ends its op, a failed attempt is
 * counted, and a cancel is remembered. */
static void give_out(replay *r, const replay_row *row)
{
    r->owner = NULL;
    if (op_find(row->kind)->shape == OP_SHAPE_ANSWER) {
        end_pending(r, row->op);
    } else if (row->op != 0) {
        pending *p = find_pending(r, row->op);
        p->attempts++;
        r->owner = p->owner;
    } else {
        r->cancelled = 1;
    }
    r->at++;
}

/* Looks at the next row of the page. Returns ARRIVED for an arrival, which is given out by that;
 * RECORDED for another row, which stays the next one; `end`, with *row NULL, if the page is used
 * up. */
static replay_result peek_row(replay *r, const replay_row **row)
{
    r->work++;
    *row = NULL;
    if (r->at == r->count) {
        r->stopped = r->end >= REPLAY_MISMATCH;
        return r->end;
    }
    *row = &r->rows[r->at];
    if (!op_arrives(op_find((*row)->kind)->shape))
        return REPLAY_RECORDED;
    give_out(r, *row);
    return REPLAY_ARRIVED;
}

/* Returns 1 if `result` is the final answer of an ask. 0: the code is to be compared with the next
 * row, or asks for more although the generation has ended. */
static int is_settled(const replay *r, replay_result result)
{
    return result != REPLAY_RECORDED && !(result == REPLAY_NEW && r->ended);
}

static replay_result consume_row(replay *r)
{
    r->at++;
    return REPLAY_RECORDED;
}

replay_result replay_start(replay *r, const replay_row **row)
{
    assert(!r->begun);
    replay_result result = peek_row(r, row);
    if (result != REPLAY_RECORDED)
        return result;
    r->begun = 1;
    return consume_row(r);
}

replay_result replay_op(replay *r, op_kind kind, slice name, const replay_row **row)
{
    assert(r->begun && op_asked_as(kind) == kind);
    replay_result result = peek_row(r, row);
    if (is_settled(r, result))
        return result;
    const replay_row *next = *row;
    /* RULE 6-code-that-asks-for-something-else-is-stopped */
    if (next && op_asked_as((op_kind)next->kind) == kind && slice_equal(next->name, name))
        return consume_row(r);
    *row = NULL;
    if (kind == OP_PATCH)
        return REPLAY_PASSED;
    return report_mismatch(r, next, "asks for ", describe_op(kind, name));
}

replay_result replay_answer(replay *r, int64_t op, const replay_row **row)
{
    const pending *p = find_pending(r, op);
    *row = NULL;
    assert(r->begun && op > 0 && op <= r->seq);
    if (!p)
        return r->stopped ? r->end : REPLAY_RECORDED;
    replay_result result = peek_row(r, row);
    if (result == REPLAY_ARRIVED && !find_pending(r, op))
        return REPLAY_RECORDED;
    if (is_settled(r, result))
        return result;
    const replay_row *next = *row;
    *row = NULL;
    words asked = words_for(p->kind, p->label);
    size_t used = strlen(asked.text);
    snprintf(asked.text + used, sizeof asked.text - used, " (position %" PRId64 ")", op);
    return report_mismatch(r, next, "waits for ", asked);
}

replay_result replay_wait(replay *r, const char *asked, const replay_row **row)
{
    assert(r->begun);
    replay_result result = peek_row(r, row);
    if (is_settled(r, result))
        return result;
    const replay_row *next = *row;
    words what;
    *row = NULL;
    snprintf(what.text, sizeof what.text, "%s", asked);
    return report_mismatch(r, next, "waits for ", what);
}

replay_result replay_settle(replay *r, const replay_row **row)
{
    assert(r->begun);
    return peek_row(r, row);
}

replay_result replay_next(replay *r, const replay_row **row)
{
    replay_result result = peek_row(r, row);
    return result == REPLAY_RECORDED ? consume_row(r) : result;
}

void replay_close(replay *r, int64_t op)
{
    if (find_pending(r, op))
        end_pending(r, op);
}

replay_result replay_return(replay *r, op_kind kind, const replay_row **row)
{
    assert(r->begun && (kind == OP_ENDED || kind == OP_ENDED_FAILED));
    replay_result result = peek_row(r, row);
    if (is_settled(r, result))
        return result;
    const replay_row *next = *row;
    if (next && (op_kind)next->kind == kind) /* RULE 6-so-is-code-that-ends-too-early */
        return consume_row(r);
    *row = NULL;
    return report_mismatch(r, next, "comes to ", words_for(kind, ""));
}

/* ---- what is known ---- */

/* The seq of the next row that an ask would look at. */
static int64_t next_seq(const replay *r)
{
    return r->seq + 1 - (int64_t)(r->count - r->at);
}

int replay_is_new(const replay *r)
{
    return r->end == REPLAY_NEW && next_seq(r) > r->last_ask;
}

int replay_cancelled(const replay *r)
{
    return r->cancelled;
}

int64_t replay_seq(const replay *r)
{
    return r->seq;
}

size_t replay_left(const replay *r)
{
    return r->count - r->at;
}

size_t replay_waiting(const replay *r)
{
    return r->pendings.count;
}

const error *replay_error(const replay *r)
{
    return &r->err;
}

int64_t replay_work(const replay *r)
{
    return r->work;
}
