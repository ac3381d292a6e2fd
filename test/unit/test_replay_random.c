/* Replay against a second opinion, on programs, arrivals and damage made up by chance.
 *
 * A program here is a list of asks in which the name of every op and the op that is waited for
 * depend on all that it was told before, so that one arrival seen too early or too late makes it
 * ask for something else. It is run live, and replayed from every point at which a crash could have
 * cut its journal; it goes on live from there, and is replayed again. Then rows are damaged, and
 * ops of the program changed.
 *
 * The second opinion knows nothing but the list of rows and how far the code has got. It looks
 * through all of it for every question. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "base/clock.h"
#include "support/journal.h"

/* ---- the second opinion ---- */

typedef struct opinion {
    const replay_row *rows;
    size_t count;
    size_t at; /* rows that the code has asked for or been given */
    replay_result verdict;
    int64_t seen[JOURNAL_ROWS];
    size_t seen_count;
} opinion;

static int is_answer(int64_t kind)
{
    return kind >= 40 && kind <= 43;
}

static int is_arrival(int64_t kind)
{
    return is_answer(kind) || kind == 50 || kind == 51;
}

static int is_end(int64_t kind)
{
    return kind >= 60 && kind <= 62;
}

static int is_known(int64_t kind)
{
    return (kind >= 1 && kind <= 30) || is_arrival(kind) || is_end(kind);
}

/* Work, of the kinds that may have several attempts. */
static int is_work(int64_t kind)
{
    return kind == 4 || kind == 5 || kind == 7 || kind == 16 || kind == 28;
}

/* May an arrival at `i` be about what it says? */
static int is_about_something(const replay_row *rows, size_t i)
{
    int64_t kind = rows[i].kind, op = rows[i].op;
    if (kind == 51)
        return op == 0;
    if (op < 1 || op > (int64_t)i)
        return 0;
    for (size_t k = (size_t)op; k < i; k++) {
        if (rows[k].op == op && is_answer(rows[k].kind))
            return 0;
    }
    int64_t asked = rows[op - 1].kind;
    if (kind == 42)
        return asked == 6 || asked == 23;
    if (kind == 43)
        return asked == 23;
    return is_work(asked) || (asked == 17 && kind != 50) || (asked == 24 && kind == 40);
}

static int is_good_row(const replay_row *rows, size_t i)
{
    const replay_row *row = &rows[i];
    for (size_t k = 0; k < i; k++) {
        if (is_end(rows[k].kind))
            return 0;
    }
    for (size_t k = 0; k < row->name.size; k++) {
        if (row->name.at[k] == '\0' || row->name.at[k] == '\xFF')
            return 0;
    }
    return row->seq == (int64_t)i + 1 && row->generation == JOURNAL_GENERATION &&
           is_known(row->kind) && (row->kind == 1) == (i == 0) &&
           (is_arrival(row->kind) ? is_about_something(rows, i) : row->op == 0);
}

/* Go on to the next row that is not an arrival. */
static replay_result opinion_look(opinion *o)
{
    for (; o->verdict == REPLAY_RECORDED && o->at < o->count; o->at++) {
        const replay_row *row = &o->rows[o->at];
        if (!is_good_row(o->rows, o->at))
            return o->verdict = REPLAY_CORRUPT;
        if (!is_arrival(row->kind))
            return REPLAY_RECORDED;
        o->seen[o->seen_count++] = row->seq;
    }
    return o->verdict == REPLAY_RECORDED ? REPLAY_NEW : o->verdict;
}

static int is_answered(const opinion *o, int64_t op)
{
    for (size_t k = 0; k < o->at; k++) {
        if (is_answer(o->rows[k].kind) && o->rows[k].op == op)
            return 1;
    }
    return 0;
}

static int has_ended(const opinion *o)
{
    return o->at > 0 && is_end(o->rows[o->at - 1].kind);
}

static replay_result opinion_op(opinion *o, op_kind kind, slice name)
{
    replay_result result = opinion_look(o);
    if (result == REPLAY_RECORDED) {
        const replay_row *row = &o->rows[o->at];
        int64_t asked = row->kind == 3 || row->kind == 4 ? 2 : row->kind;
        asked = asked == 19 || asked == 29 ? 18 : asked;
        int named = kind != OP_STARTED && kind != OP_ENDED;
        if (asked == (int64_t)kind && (!named || slice_equal(row->name, name))) {
            o->at++;
            return REPLAY_RECORDED;
        }
    } else if (result != REPLAY_NEW || !has_ended(o)) {
        return result;
    }
    return kind == OP_PATCH ? REPLAY_PASSED : (o->verdict = REPLAY_MISMATCH);
}

static replay_result opinion_answer(opinion *o, int64_t op)
{
    if (o->verdict != REPLAY_RECORDED)
        return o->verdict;
    for (; !is_answered(o, op); o->at++) {
        if (o->at == o->count)
            return has_ended(o) ? (o->verdict = REPLAY_MISMATCH) : REPLAY_NEW;
        if (!is_good_row(o->rows, o->at))
            return o->verdict = REPLAY_CORRUPT;
        if (!is_arrival(o->rows[o->at].kind))
            return o->verdict = REPLAY_MISMATCH;
        o->seen[o->seen_count++] = o->rows[o->at].seq;
    }
    return REPLAY_RECORDED;
}

/* ---- programs ---- */

enum { ASKS = 30 };

typedef struct ask {
    op_kind kind; /* OP_NONE: wait for something */
    unsigned pick;
} ask;

typedef struct program {
    ask asks[ASKS];
    size_t count; /* and then it returns */
} program;

static unsigned below(random_seeded *r, unsigned bound)
{
    uint32_t bits;
    r->source.fill(&r->source, &bits, sizeof bits);
    return (unsigned)(((uint64_t)bits * bound) >> 32);
}

static void make_ask(random_seeded *r, ask *a)
{
    static const op_kind KINDS[] = {OP_STEP, OP_STEP, OP_CALL,  OP_CALL,  OP_SLEEP,
                                    OP_NOW,  OP_NOW,  OP_UNTIL, OP_PATCH, OP_UNDO};
    a->kind = below(r, 3) ? KINDS[below(r, sizeof KINDS / sizeof *KINDS)] : OP_NONE;
    a->pick = below(r, 1000);
}

static void make_program(random_seeded *r, program *p)
{
    p->count = 1 + below(r, ASKS - 2);
    for (size_t i = 0; i < p->count; i++)
        make_ask(r, &p->asks[i]);
}

/* A program under way. `chance` NULL: it stops where its journal ends. */
typedef struct life {
    const program *code;
    player player;
    opinion *opinion;
    random_seeded *chance;
    replay_row rows[JOURNAL_ROWS]; /* its journal as it becomes */
    size_t count;
    uint64_t told;  /* of all that it was told so far */
    size_t counted; /* arrivals that are in `told` */
    int64_t ops[JOURNAL_ROWS];
    size_t op_count;
    int64_t awaited;          /* the op of the wait that it is in */
    slice name;               /* of the op that it asks for */
    uint64_t trail[ASKS + 1]; /* `told` before each ask */
    size_t done;              /* asks that were answered */
} life;

static void tell(life *l, uint64_t what)
{
    l->told = (l->told ^ what) * UINT64_C(0x9E3779B97F4A7C15);
    l->told ^= l->told >> 29;
}

static void tell_row(life *l, const replay_row *row)
{
    tell(l, (uint64_t)(row->seq * 100 + row->kind));
    if (row->kind >= OP_STEP_AGAIN && row->kind <= OP_UNTIL)
        l->ops[l->op_count++] = row->seq;
}

static slice choose_name(const life *l, const ask *a)
{
    static const slice NAMES[] = {{"a", 1}, {"b", 1}, {"c", 1}};
    if (a->kind == OP_SLEEP || a->kind == OP_NOW || a->kind == OP_ENDED)
        return SLICE_LIT("");
    return NAMES[(a->pick + l->told) % 3];
}

static int64_t choose_op(const life *l, const ask *a)
{
    return l->op_count ? l->ops[(a->pick + l->told) % l->op_count] : 0;
}

/* One ask to both. */
static replay_result put_ask(life *l, const ask *a, const replay_row **row)
{
    player *p = &l->player;
    opinion *o = l->opinion;
    replay_result result, other = REPLAY_RECORDED;
    if (a->kind == OP_NONE) {
        result = player_answer(p, l->awaited, row);
        other = o ? opinion_answer(o, l->awaited) : result;
    } else if (a->kind == OP_ENDED) {
        result = player_return(p, OP_ENDED, row);
        other = o ? opinion_op(o, OP_ENDED, SLICE_LIT("")) : result;
    } else {
        result = player_op(p, a->kind, l->name, row);
        other = o ? opinion_op(o, a->kind, l->name) : result;
    }
    assert_int_equal(result, other);
    if (o) {
        assert_int_equal(p->seen_count, o->seen_count);
        assert_memory_equal(p->seen, o->seen, p->seen_count * sizeof *p->seen);
        if (result == REPLAY_RECORDED && a->kind != OP_NONE)
            assert_int_equal((*row)->seq, o->at);
    }
    for (; l->counted < p->seen_count; l->counted++)
        tell(l, (uint64_t)p->seen[l->counted]);
    return result;
}

static void append(life *l, const ask *a)
{
    static const op_kind STEPS[] = {OP_STEP, OP_STEP, OP_STEP_FAILED, OP_STEP_AGAIN};
    replay_row row = {.kind = a->kind, .data = SLICE_LIT("null")};
    if (a->kind == OP_STEP)
        row.kind = STEPS[below(l->chance, 4)];
    row.name = l->name;
    assert_int_equal(replay_append(l->player.replay, &row), PAWL_OK);
    assert_in_range(l->count, 0, JOURNAL_ROWS - 1);
    l->rows[l->count++] = row;
    tell_row(l, &row);
}

/* Some things arrive, for this op and others, sensible or not; at last the answer of `op`. */
static void arrive(life *l, int64_t op, int patience)
{
    static const op_kind KINDS[] = {OP_DONE,    OP_FAILED,  OP_FIRED,
                                    OP_ATTEMPT, OP_ATTEMPT, OP_CANCEL};
    replay_row rows[5] = {{.seq = 0}};
    size_t count = 1 + below(l->chance, 4);
    for (size_t i = 0; i < count; i++) {
        rows[i].kind = KINDS[below(l->chance, 6)];
        rows[i].op =
            rows[i].kind == OP_CANCEL ? 0 : l->ops[below(l->chance, (unsigned)l->op_count)];
    }
    if (patience == 0) {
        int64_t asked = l->rows[op - 1].kind;
        rows[0] = (replay_row){.kind = asked == OP_SLEEP ? OP_FIRED : OP_DONE, .op = op};
    }
    size_t kept = player_arrive(&l->player, rows, count);
    assert_in_range(l->count + kept, 0, JOURNAL_ROWS);
    for (size_t i = 0; i < kept; i++) {
        l->rows[l->count] = l->player.page[i];
        l->rows[l->count].name = l->rows[l->count].data = SLICE_LIT("");
        l->count++;
    }
}

/* Until the ask is answered for good; NEW only where there is no chance to go on. */
static replay_result carry_out(life *l, const ask *a)
{
    l->awaited = choose_op(l, a);
    l->name = choose_name(l, a);
    for (int patience = 3;; patience--) {
        const replay_row *row;
        replay_result result = put_ask(l, a, &row);
        if (result == REPLAY_RECORDED && a->kind != OP_NONE)
            tell_row(l, row);
        if (result != REPLAY_NEW || !l->chance)
            return result;
        if (a->kind != OP_NONE) {
            append(l, a);
            return REPLAY_RECORDED;
        }
        arrive(l, l->awaited, patience > 0 ? patience : 0);
    }
}

static replay_result live_through(life *l)
{
    static const ask END = {OP_ENDED, 0};
    const replay_row *row;
    replay_result result = player_start(&l->player, &row);
    if (l->opinion)
        assert_int_equal(result, opinion_op(l->opinion, OP_STARTED, SLICE_LIT("")));
    if (result == REPLAY_NEW && l->chance) {
        replay_row first = {.kind = OP_STARTED};
        assert_int_equal(replay_append(l->player.replay, &first), PAWL_OK);
        l->rows[l->count++] = first;
        result = REPLAY_RECORDED;
    }
    for (l->done = 0; l->done <= l->code->count && result <= REPLAY_PASSED; l->done++) {
        if (result == REPLAY_NEW)
            break;
        const ask *a = l->done < l->code->count ? &l->code->asks[l->done] : &END;
        l->trail[l->done] = l->told;
        if (a->kind != OP_NONE || l->op_count)
            result = carry_out(l, a);
    }
    return result;
}

/* Begin with these rows. */
static void begin(life *l, const program *code, const replay_row *rows, size_t count, size_t page)
{
    memset(l, 0, sizeof *l);
    l->code = code;
    if (count)
        memcpy(l->rows, rows, count * sizeof *rows);
    l->count = count;
    player_open(&l->player, rows, count, page);
}

/* ---- tests ---- */

enum { PROGRAMS = 60 };

/* Replay `rows` with the other opinion beside it. Gives how it ended; *again is what happened. */
static replay_result compare(const program *code, const replay_row *rows, size_t count, size_t page,
                             life *again)
{
    opinion o = {.rows = rows, .count = count};
    begin(again, code, rows, count, page);
    again->opinion = &o;
    replay_result result = live_through(again);
    player_close(&again->player);
    again->opinion = NULL;
    return result;
}

/* The same questions were asked after the same answers, as far as it got. */
static void check_trail(const life *then, const life *now)
{
    assert_in_range(now->done, 0, then->done);
    for (size_t i = 0; i < now->done; i++)
        assert_int_equal(then->trail[i], now->trail[i]);
}

/* A life from the rows on to its end. */
static void live_from(life *l, const program *code, const replay_row *rows, size_t count,
                      random_seeded *r)
{
    begin(l, code, rows, count, 1 + below(r, 9));
    l->chance = r;
    assert_int_equal(live_through(l), REPLAY_RECORDED);
    player_close(&l->player);
    l->chance = NULL;
}

static void every_prefix_is_followed(void **state)
{
    (void)state;
    static life first, again, other;
    for (uint64_t seed = 1; seed <= PROGRAMS; seed++) {
        random_seeded r;
        program code;
        random_seeded_init(&r, seed);
        make_program(&r, &code);
        live_from(&first, &code, NULL, 0, &r);
        for (size_t cut = 0; cut <= first.count; cut++) {
            replay_result end = cut < first.count ? REPLAY_NEW : REPLAY_RECORDED;
            size_t page = 1 + below(&r, 9);
            assert_int_equal(compare(&code, first.rows, cut, page, &again), end);
            check_trail(&first, &again);

            live_from(&other, &code, first.rows, cut, &r); /* it goes on, perhaps otherwise */
            assert_memory_equal(other.rows, first.rows, cut * sizeof *other.rows);
            assert_int_equal(compare(&code, other.rows, other.count, page, &again),
                             REPLAY_RECORDED);
            check_trail(&other, &again);
        }
    }
}

/* Damage one row, or the order of two. Gives 1 if this can be seen from the row alone. */
static int damage(random_seeded *r, replay_row *rows, size_t *count)
{
    static const slice NAMES[] = {{"a", 1}, {"b", 1}, {"", 0}, {"a\0", 2}, {"\xFF", 1}};
    size_t i = below(r, (unsigned)*count);
    replay_row *row = &rows[i], before = *row;
    int renumber = below(r, 2) == 0;
    switch (below(r, 9)) {
    case 0:
        row->seq += (int64_t)below(r, 5) - 2;
        return row->seq != before.seq;
    case 1:
        row->generation += (int64_t)below(r, 3) - 1;
        return row->generation != before.generation;
    case 2:
        row->kind = (int64_t)below(r, 70);
        return 0;
    case 3:
        row->kind = (int64_t)below(r, 2) ? OP_DONE : OP_FIRED;
        return 0;
    case 4:
        row->op = (int64_t)below(r, (unsigned)*count + 3) - 1;
        return 0;
    case 5:
        row->name = NAMES[below(r, 5)];
        return 0;
    case 6: /* gone */
        memmove(row, row + 1, (--*count - i) * sizeof *row);
        break;
    case 7: /* twice */
        memmove(row + 1, row, ((*count)++ - i) * sizeof *row);
        break;
    default: /* swapped with the one before */
        if (i > 0) {
            *row = row[-1];
            row[-1] = before;
        }
    }
    for (size_t k = 0; renumber && k < *count; k++)
        rows[k].seq = (int64_t)k + 1;
    return 0;
}

static void damage_is_found_or_harmless(void **state)
{
    (void)state;
    static life first, again;
    size_t ends[REPLAY_NOMEM + 1] = {0};
    for (uint64_t seed = 1; seed <= PROGRAMS; seed++) {
        random_seeded r;
        program code;
        random_seeded_init(&r, seed);
        make_program(&r, &code);
        live_from(&first, &code, NULL, 0, &r);
        for (int i = 0; i < 150; i++) {
            replay_row rows[JOURNAL_ROWS];
            size_t count = first.count;
            memcpy(rows, first.rows, sizeof rows);
            int visible = damage(&r, rows, &count);
            replay_result end = compare(&code, rows, count, 1 + below(&r, 9), &again);
            if (visible)
                assert_int_equal(end, REPLAY_CORRUPT);
            ends[end]++;
        }
    }
    assert_in_range(ends[REPLAY_CORRUPT], 1000, SIZE_MAX); /* so that the test tests something */
    assert_in_range(ends[REPLAY_MISMATCH], 100, SIZE_MAX);
    assert_in_range(ends[REPLAY_RECORDED], 100, SIZE_MAX);
    assert_in_range(ends[REPLAY_NEW], 10, SIZE_MAX);
}

/* Change one ask of the program: another op, one more, or one less. */
static void change(random_seeded *r, program *p)
{
    size_t i = below(r, (unsigned)p->count);
    switch (below(r, 3)) {
    case 0:
        make_ask(r, &p->asks[i]);
        break;
    case 1:
        memmove(&p->asks[i + 1], &p->asks[i], (p->count++ - i) * sizeof *p->asks);
        make_ask(r, &p->asks[i]);
        break;
    default:
        memmove(&p->asks[i], &p->asks[i + 1], (--p->count - i) * sizeof *p->asks);
    }
}

static void changed_code_is_found_or_harmless(void **state)
{
    (void)state;
    static life first, again;
    size_t ends[REPLAY_NOMEM + 1] = {0}, passed = 0;
    for (uint64_t seed = 1; seed <= PROGRAMS; seed++) {
        random_seeded r;
        program code;
        random_seeded_init(&r, seed);
        make_program(&r, &code);
        live_from(&first, &code, NULL, 0, &r);
        for (int i = 0; i < 100; i++) {
            program other = code;
            change(&r, &other);
            size_t cut = 1 + below(&r, (unsigned)first.count);
            replay_result end = compare(&other, first.rows, cut, 1 + below(&r, 9), &again);
            ends[end]++;
            passed += end != REPLAY_MISMATCH;
        }
    }
    assert_int_equal(ends[REPLAY_CORRUPT], 0);
    assert_in_range(ends[REPLAY_MISMATCH], 1000, SIZE_MAX);
    assert_in_range(passed, 100, SIZE_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_prefix_is_followed),
        cmocka_unit_test(damage_is_found_or_harmless),
        cmocka_unit_test(changed_code_is_found_or_harmless),
    };
    return cmocka_run_group_tests_name("replay_random", tests, NULL, NULL);
}
