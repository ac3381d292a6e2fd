/* Reading the lines of text, and playing them. Every mistake fails the test with the name of the
 * case and the word at which it happened, so that one of a hundred lines can be found. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "support/journal.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- reading ---- */

int64_t journal_kind(slice word)
{
    static const struct {
        const char *name;
        op_kind kind;
    } NAMES[] = {
#define NAMED(name, number, shape, word) {#name, OP_##name},
        OP_KINDS(NAMED)
#undef NAMED
    };
    if (slice_starts(word, SLICE_LIT("kind")))
        return strtoll(word.at + 4, NULL, 10);
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        size_t k = 0;
        while (k < word.size && NAMES[i].name[k] &&
               (word.at[k] == '-' ? '_' : toupper((unsigned char)word.at[k])) == NAMES[i].name[k])
            k++;
        if (k == word.size && !NAMES[i].name[k])
            return NAMES[i].kind;
    }
    return -1;
}

/* Takes the text up to the next byte that is one of `ends`. */
static slice cut_piece(const char **at, const char *ends)
{
    slice piece = {*at, strcspn(*at, ends)};
    *at += piece.size;
    return piece;
}

static void parse_row(const char **at, replay_row *row)
{
    slice word = cut_piece(at, " ,?:@=#%+!~");
    row->kind = journal_kind(word);
    if (row->kind < 0)
        fail_msg("no kind of row: %.*s", (int)word.size, word.at);
    row->name = SLICE_LIT("");
    row->data = SLICE_LIT("null");
    for (char mark = **at; mark && strchr(":@=#%", mark); mark = **at) {
        ++*at;
        slice value = cut_piece(at, " ,?:@=#%+!~");
        if (mark == ':')
            row->name = value;
        else if (mark == '=')
            row->data = value;
        else
            *(mark == '@'   ? &row->op
              : mark == '#' ? &row->seq
                            : &row->generation) = strtoll(value.at, NULL, 10);
    }
}

void journal_parse(journal *j, const char *text)
{
    memset(j, 0, sizeof *j);
    while (*(text += strspn(text, " "))) {
        assert_in_range(j->count, 0, JOURNAL_ROWS - 1);
        replay_row *row = &j->rows[j->count++];
        row->seq = (int64_t)j->count;
        row->generation = JOURNAL_GENERATION;
        parse_row(&text, row);
    }
}

/* ---- rows in memory of their own ---- */

static slice copy_slice(slice s)
{
    if (!s.at)
        return s;
    char *at = malloc(s.size ? s.size : 1);
    assert_non_null(at);
    memcpy(at, s.at, s.size);
    return (slice){at, s.size};
}

static void free_page(player *p)
{
    for (size_t i = 0; i < p->page_count; i++) {
        free((char *)p->page[i].name.at);
        free((char *)p->page[i].data.at);
    }
    free(p->page);
    p->page = NULL;
    p->page_count = 0;
}

static void copy_page(player *p, const replay_row *rows, size_t count)
{
    free_page(p);
    p->page = malloc((count ? count : 1) * sizeof *p->page);
    assert_non_null(p->page);
    for (size_t i = 0; i < count; i++) {
        p->page[i] = rows[i];
        p->page[i].name = copy_slice(rows[i].name);
        p->page[i].data = copy_slice(rows[i].data);
    }
    p->page_count = count;
}

/* ---- asking ---- */

static void feed_next(player *p)
{
    size_t left = p->count - p->fed;
    size_t count = left < p->page_size ? left : p->page_size;
    copy_page(p, p->rows + p->fed, count);
    p->fed += count;
    p->early = replay_feed(p->replay, p->page, count);
    if (p->fed == p->count)
        p->early = replay_fed_all(p->replay, p->least);
}

void player_open(player *p, const replay_row *rows, size_t count, size_t page_size)
{
    memset(p, 0, sizeof *p);
    p->rows = rows;
    p->count = count;
    p->page_size = page_size;
    p->arena = arena_new(0);
    assert_non_null(p->arena);
    p->replay = replay_new(p->arena, JOURNAL_GENERATION);
    assert_non_null(p->replay);
}

void player_close(player *p)
{
    free_page(p);
    arena_free(p->arena);
    memset(p, 0, sizeof *p);
}

static void record_arrival(player *p, const replay_row *row)
{
    assert_in_range(p->seen_count, 0, JOURNAL_ROWS - 1);
    p->seen[p->seen_count++] = row->seq;
}

/* Deals with the result of an ask. Returns 1 if the ask is to be repeated. */
static int ask_again(player *p, replay_result result, const replay_row *row)
{
    if (result == REPLAY_MORE) {
        assert_null(row);
        feed_next(p);
        return 1;
    }
    if (result == REPLAY_ARRIVED)
        record_arrival(p, row);
    return result == REPLAY_ARRIVED;
}

replay_result player_start(player *p, const replay_row **row)
{
    replay_result result;
    do {
        result = replay_start(p->replay, row);
    } while (ask_again(p, result, *row));
    return result;
}

replay_result player_op(player *p, op_kind kind, slice name, const replay_row **row)
{
    replay_result result;
    do {
        result = replay_op(p->replay, kind, name, row);
    } while (ask_again(p, result, *row));
    return result;
}

replay_result player_answer(player *p, int64_t op, const replay_row **row)
{
    replay_result result;
    do {
        result = replay_answer(p->replay, op, row);
    } while (ask_again(p, result, *row));
    if (result == REPLAY_RECORDED && *row) {
        assert_int_equal((*row)->op, op);
        record_arrival(p, *row);
    }
    return result;
}

replay_result player_return(player *p, op_kind kind, const replay_row **row)
{
    replay_result result;
    do {
        result = replay_return(p->replay, kind, row);
    } while (ask_again(p, result, *row));
    return result;
}

replay_result player_settle(player *p, const replay_row **row)
{
    replay_result result;
    do {
        result = replay_settle(p->replay, row);
    } while (ask_again(p, result, *row));
    return result;
}

static replay_result take_arrival(player *p, replay_result result, const replay_row *row)
{
    if (result != REPLAY_ARRIVED)
        return result;
    record_arrival(p, row);
    return REPLAY_RECORDED;
}

replay_result player_first(player *p, const replay_row **row)
{
    replay_result result;
    while ((result = replay_wait(p->replay, "the first of several", row)) == REPLAY_MORE)
        feed_next(p);
    return take_arrival(p, result, *row);
}

replay_result player_next(player *p, const replay_row **row)
{
    replay_result result;
    while ((result = replay_next(p->replay, row)) == REPLAY_MORE)
        feed_next(p);
    return take_arrival(p, result, *row);
}

size_t player_arrive(player *p, const replay_row *rows, size_t count)
{
    copy_page(p, rows, count);
    return replay_arrive(p->replay, p->page, count);
}

/* ---- playing a case ---- */

typedef struct game {
    const journal_case *c;
    player p;
    size_t seen_before; /* number of arrivals that the words "saw:" have checked */
} game;

static void lose_game(const game *g, slice word, const char *why)
{
    const error *err = replay_error(g->p.replay);
    fail_msg("%s, in pages of %zu, at %.*s: %s; last error: %s: %s", g->c->name, g->p.page_size,
             (int)word.size, word.at, why, err->message, err->detail);
}

static void check_word(const game *g, slice word, int good, const char *why)
{
    if (!good)
        lose_game(g, word, why);
}

/* Compares the result of an ask with the mark behind it in the program. */
static void check_answer(game *g, slice word, char mark, const char *rest, replay_result result,
                         const replay_row *row)
{
    static const char *const NAMES[] = {"recorded", "new",      "passed",  "arrived",
                                        "more",     "mismatch", "corrupt", "nomem"};
    char text[1024];
    const error *err = replay_error(g->p.replay);
    replay_result expected = mark == '='   ? REPLAY_RECORDED
                             : mark == '+' ? REPLAY_NEW
                             : mark == '~' ? REPLAY_PASSED
                                           : result;
    check_word(g, word, result == expected, NAMES[result]);
    check_word(g, word, mark != '!' || result >= REPLAY_MISMATCH, NAMES[result]);
    if (mark == '=' && *rest >= '0' && *rest <= '9')
        check_word(g, word, row && row->seq == strtoll(rest, NULL, 10), "another row");
    if (mark != '!')
        return;
    check_word(g, word, !row, "a row beside an error");
    snprintf(text, sizeof text, "%s: %s", err->message, err->detail);
    check_word(g, word, g->c->error && strcmp(text, g->c->error) == 0, "another error");
    check_word(g, word, err->hint[0] != '\0', "no advice");
    if (result == REPLAY_CORRUPT)
        check_word(g, word, g->p.early == err->code, "feeding has not told");
}

static void append_row(game *g, slice word, const replay_row *asked, const char *as)
{
    player *p = &g->p;
    replay_row row = {.kind = asked->kind, .data = SLICE_LIT("null")};
    slice other = cut_piece(&as, " ");
    row.name = copy_slice(asked->name);
    if (other.size)
        row.kind = journal_kind(other);
    int64_t seq = replay_seq(p->replay) + 1;
    check_word(g, word, replay_append(p->replay, &row) == PAWL_OK, "cannot be appended");
    check_word(g, word, row.seq == seq && row.generation == JOURNAL_GENERATION, "the wrong seq");
    free((char *)row.name.at);
}

static void play_arrivals(game *g, slice word)
{
    replay_row rows[8] = {{.seq = 0}};
    int64_t kept[8];
    size_t count = 0, fitting = 0;
    const char *at = word.at + 1;
    int64_t seq = replay_seq(g->p.replay);
    for (; *at && *at != ' '; at += *at == ',') {
        rows[count].generation = -1;
        parse_row(&at, &rows[count]);
        rows[count].at_ms = (int64_t)count; /* makes each row different from all others */
        if (*at == '?')
            at++;
        else
            kept[fitting++] = (int64_t)count;
        count++;
    }
    check_word(g, word, player_arrive(&g->p, rows, count) == fitting, "another number is taken");
    for (size_t i = 0; i < fitting; i++) {
        const replay_row *row = &g->p.page[i];
        check_word(g, word, row->at_ms == kept[i] && row->seq == seq + 1 + (int64_t)i,
                   "another order");
        check_word(g, word, row->generation == JOURNAL_GENERATION, "another generation");
    }
}

static void play_saw(game *g, slice word)
{
    const char *at = word.at + 4;
    for (size_t i = g->seen_before; i < g->p.seen_count; i++) {
        check_word(g, word, g->p.seen[i] == strtoll(at, (char **)&at, 10), "another arrival");
        at += *at == ',';
    }
    check_word(g, word, *at == ' ' || !*at, "fewer arrivals");
    g->seen_before = g->p.seen_count;
}

static int word_is(slice word, const char *text)
{
    return slice_equal(word, slice_of(text));
}

/* Plays a word that only looks at the replay. Returns 0 if the word is none of these. */
static int play_look(game *g, slice word)
{
    const replay *r = g->p.replay;
    const char *value = memchr(word.at, '=', word.size);
    int64_t number = value ? strtoll(value + 1, NULL, 10) : 0;
    if (word_is(word, "new?") || word_is(word, "old?")) {
        if (g->p.page_size >= g->p.count) /* where all rows are on one page the answer is exact */
            check_word(g, word, replay_is_new(r) == word_is(word, "new?"), "it is not");
    } else if (word_is(word, "cancelled?") || word_is(word, "live?")) {
        check_word(g, word, replay_cancelled(r) == word_is(word, "cancelled?"), "it is not");
    } else if (slice_starts(word, SLICE_LIT("attempts@"))) {
        check_word(g, word, replay_attempts(r, strtoll(word.at + 9, NULL, 10)) == number, "others");
    } else if (slice_starts(word, SLICE_LIT("close@"))) {
        replay_close(g->p.replay, strtoll(word.at + 6, NULL, 10));
    } else if (slice_starts(word, SLICE_LIT("seq="))) {
        check_word(g, word, replay_seq(r) == number, "another");
    } else if (slice_starts(word, SLICE_LIT("open="))) {
        check_word(g, word, replay_waiting(r) == (size_t)number, "another number");
    } else if (slice_starts(word, SLICE_LIT("saw:"))) {
        play_saw(g, word);
    } else {
        return 0;
    }
    return 1;
}

/* Plays an ask that has no name. Returns 0 if the word is none of these. */
static int ask_nameless(game *g, slice head, const char **at, replay_result *result,
                        const replay_row **row)
{
    if (word_is(head, "wait"))
        *result = player_answer(&g->p, strtoll(*at + 1, (char **)at, 10), row);
    else if (word_is(head, "first"))
        *result = player_first(&g->p, row);
    else if (word_is(head, "next"))
        *result = player_next(&g->p, row);
    else if (word_is(head, "settle"))
        *result = player_settle(&g->p, row);
    else
        return 0;
    return 1;
}

static void play_ask(game *g, slice word)
{
    const char *at = word.at;
    const replay_row *row;
    replay_row asked = {.name = SLICE_LIT("")};
    replay_result result;
    slice head = cut_piece(&at, " :@=+~!");
    int returns = word_is(head, "return") || word_is(head, "fail");
    if (ask_nameless(g, head, &at, &result, &row)) {
        asked.kind = OP_NONE;
    } else if (returns) {
        asked.kind = word_is(head, "fail") ? OP_ENDED_FAILED : OP_ENDED;
        result = player_return(&g->p, (op_kind)asked.kind, &row);
    } else {
        asked.kind = journal_kind(head);
        check_word(g, word, asked.kind > 0, "this is no ask");
        if (*at == ':') {
            at++;
            asked.name = cut_piece(&at, " =+~!");
        }
        slice name = copy_slice(asked.name);
        result = player_op(&g->p, (op_kind)asked.kind, name, &row);
        free((char *)name.at);
    }
    check_answer(g, word, *at, at + 1, result, row);
    if (*at == '+' && asked.kind)
        append_row(g, word, &asked, at + 1);
}

static void play_start(game *g)
{
    const replay_row *row;
    replay_result result = player_start(&g->p, &row);
    if (result == REPLAY_NEW) {
        replay_row first = {.kind = OP_STARTED, .name = SLICE_LIT("flow"), .data = SLICE_LIT("1")};
        check_word(g, SLICE_LIT("start"), replay_append(g->p.replay, &first) == PAWL_OK,
                   "not appended");
    } else if (result == REPLAY_RECORDED) {
        check_word(g, SLICE_LIT("start"), row->seq == 1 && row->kind == OP_STARTED, "another row");
    } else {
        check_answer(g, SLICE_LIT("start"), '!', "", result, row);
        check_word(g, SLICE_LIT("start"), word_is(slice_of(g->c->program), "!"), "it cannot go on");
    }
}

static void play_game(const journal_case *c, const journal *j, size_t page_size)
{
    game g = {.c = c};
    player_open(&g.p, j->rows, j->count, page_size);
    play_start(&g);
    const char *at = c->program;
    while (*(at += strspn(at, " "))) {
        slice word = cut_piece(&at, " ");
        if (*word.at == '<')
            play_arrivals(&g, word);
        else if (!word_is(word, "!") && !play_look(&g, word))
            play_ask(&g, word);
    }
    player_close(&g.p);
}

void journal_play(const journal_case *cases, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        journal j;
        journal_parse(&j, cases[i].journal);
        for (size_t page_size = 1; page_size <= 3; page_size++)
            play_game(&cases[i], &j, page_size);
        play_game(&cases[i], &j, JOURNAL_ROWS);
    }
}
