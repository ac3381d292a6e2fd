/* Replay where code and journal do not fit: code that has changed, and journals that are damaged.
 *
 * What matters is that nothing is ever done then, and that a person is told what is where. So each
 * case has the whole message. All of it is in support/journal.h's language. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "support/journal.h"

#define PLAY(cases) journal_play(cases, sizeof(cases) / sizeof *(cases))

/* ---- the code has changed ---- */

#define OTHER(position, has, wants)                                                                \
    "the code does not follow the journal of the run: position " position ": the journal has " has \
    ", the code " wants

static void another_op_is_asked_for(void **state)
{
    (void)state;
    static const journal_case CASES[] = {
        {"schedule mismatch, activity vs timer", "started call:a", "sleep!",
         OTHER("2", "call \"a\"", "asks for sleep")},
        {"schedule mismatch, timer vs activity", "started sleep fired@2", "call:a!",
         OTHER("2", "sleep", "asks for call \"a\"")},
        {"wrong activity name", "started call:a", "call:b!",
         OTHER("2", "call \"a\"", "asks for call \"b\"")},
        {"wrong step name", "started step:charge", "step:refund!",
         OTHER("2", "step \"charge\"", "asks for step \"refund\"")},
        {"a name that only begins alike", "started step:charge", "step:charge2!",
         OTHER("2", "step \"charge\"", "asks for step \"charge2\"")},
        {"a name that is gone", "started step:charge", "step!",
         OTHER("2", "step \"charge\"", "asks for step")},
        {"case matters", "started step:Charge", "step:charge!",
         OTHER("2", "step \"Charge\"", "asks for step \"charge\"")},
        {"a step became a call", "started step:a", "call:a!",
         OTHER("2", "step \"a\"", "asks for call \"a\"")},
        {"a call became a step", "started call:a done@2", "step:a!",
         OTHER("2", "call \"a\"", "asks for step \"a\"")},
        {"a failed step is no other step", "started step-failed:a", "step:b!",
         OTHER("2", "step \"a\"", "asks for step \"b\"")},
        {"a repeated step is no other step", "started step-again:a", "step:b!",
         OTHER("2", "step \"a\"", "asks for step \"b\"")},
        {"an op was put in front", "started step:a step:b", "step:new!",
         OTHER("2", "step \"a\"", "asks for step \"new\"")},
        {"an op was put in between", "started step:a step:b", "step:a=2 step:new!",
         OTHER("3", "step \"b\"", "asks for step \"new\"")},
        {"an op was taken out", "started step:a step:b step:c", "step:a=2 step:c!",
         OTHER("3", "step \"b\"", "asks for step \"c\"")},
        {"two ops were swapped", "started step:a step:b", "step:b!",
         OTHER("2", "step \"a\"", "asks for step \"b\"")},
        {"one turn too many in a loop", "started step:a step:a step:end",
         "step:a=2 step:a=3 step:a!", OTHER("4", "step \"end\"", "asks for step \"a\"")},
        {"one turn too few in a loop", "started step:a step:a step:end", "step:a=2 step:end!",
         OTHER("3", "step \"a\"", "asks for step \"end\"")},
        {"the time is asked for later", "started now step:a", "step:a!",
         OTHER("2", "now", "asks for step \"a\"")},
        {"a status was added", "started step:a", "status!",
         OTHER("2", "step \"a\"", "asks for status")},
        {"another attribute", "started attribute:a", "attribute:b!",
         OTHER("2", "attribute \"a\"", "asks for attribute \"b\"")},
        {"an undo became a finally", "started undo:a", "finally:a!",
         OTHER("2", "undo \"a\"", "asks for finally \"a\"")},
        {"a patch was removed too early", "started patch:p step:a", "step:a!",
         OTHER("2", "patch \"p\"", "asks for step \"a\"")},
        {"a patch went the wrong way", "started patch:p step:new", "patch:p=2 step:old!",
         OTHER("3", "step \"new\"", "asks for step \"old\"")},
        {"an op behind what was the end", "started step:a ended", "step:a=2 step:b!",
         OTHER("3", "the end of the run", "asks for step \"b\"")},
        {"an op behind what was the failure", "started ended-failed", "step:b!",
         OTHER("2", "the failure of the run", "asks for step \"b\"")},
        {"an op behind the end", "started ended", "return=2 step:b!",
         OTHER("2", "the end of the run", "asks for step \"b\"")},
        {"an op behind a new end", "started", "return+ now!",
         OTHER("2", "the end of the run", "asks for now")},
        {"arrivals before it are no help", "started call:a done@2 step:b", "call:a=2 step:c! saw:3",
         OTHER("4", "step \"b\"", "asks for step \"c\"")},
    };
    PLAY(CASES);
}

static void another_answer_is_waited_for(void **state)
{
    (void)state;
    static const journal_case CASES[] = {
        {"the recorded code did not wait", "started call:a step:b done@2", "call:a=2 wait@2!",
         OTHER("3", "step \"b\"", "waits for call \"a\" (position 2)")},
        {"the recorded code waited for another", "started call:a call:b done@3 step:c done@2",
         "call:a=2 call:b=3 wait@2! saw:4",
         OTHER("5", "step \"c\"", "waits for call \"a\" (position 2)")},
        {"the recorded code did not wait, and there is no answer", "started sleep step:b",
         "sleep=2 wait@2!", OTHER("3", "step \"b\"", "waits for sleep (position 2)")},
        {"the recorded code waited later", "started step-again:a call:b done@2 done@3",
         "step:a=2 wait@2!", OTHER("3", "call \"b\"", "waits for step \"a\" (position 2)")},
        {"the recorded run ended without it", "started until:r ended", "until:r=2 wait@2!",
         OTHER("3", "the end of the run", "waits for until \"r\" (position 2)")},
        {"the recorded run was cancelled there", "started call:a cancel ended-failed",
         "call:a=2 wait@2! cancelled?",
         OTHER("4", "the failure of the run", "waits for call \"a\" (position 2)")},
        {"the run has ended", "started call:a ended", "call:a=2 return=3 wait@2!",
         OTHER("3", "the end of the run", "waits for call \"a\" (position 2)")},
        {"attempts are no answer", "started call:a attempt@2 attempt@2 step:b",
         "call:a=2 wait@2! attempts@2=2",
         OTHER("5", "step \"b\"", "waits for call \"a\" (position 2)")},
    };
    PLAY(CASES);
}

static void the_code_ends_otherwise(void **state)
{
    (void)state;
    static const journal_case CASES[] = {
        {"it returns while ops are left", "started step:a step:b", "step:a=2 return!",
         OTHER("3", "step \"b\"", "comes to the end of the run")},
        {"it returns at once", "started call:a done@2", "return!",
         OTHER("2", "call \"a\"", "comes to the end of the run")},
        {"it fails while ops are left", "started step:a step:b", "step:a=2 fail!",
         OTHER("3", "step \"b\"", "comes to the failure of the run")},
        {"it returns where it had failed", "started ended-failed", "return!",
         OTHER("2", "the failure of the run", "comes to the end of the run")},
        {"it fails where it had returned", "started ended", "fail!",
         OTHER("2", "the end of the run", "comes to the failure of the run")},
        {"it returns behind arrivals, before an op", "started call:a done@2 now",
         "call:a=2 return! saw:3", OTHER("4", "now", "comes to the end of the run")},
        {"it ends twice", "started ended", "return=2 return!",
         OTHER("2", "the end of the run", "comes to the end of the run")},
    };
    PLAY(CASES);
}

/* Once it is wrong, it stays wrong, whatever is asked. */
static void trouble_stays(void **state)
{
    (void)state;
    static const journal_case CASES[] = {
        {"mismatch", "started call:a done@2 step:b step:c",
         "call:a=2 wait@2= step:c! wait@2! step:b! patch:p! return! old?",
         OTHER("4", "step \"b\"", "asks for step \"c\"")},
        {"corrupt", "started call:a done@2 step:b#9 step:c",
         "call:a=2 wait@2= patch:p! step:b! wait@2! fail! old? seq=3",
         "the journal of the run is damaged: position 4: missing; the next row is number 9"},
    };
    PLAY(CASES);
}

/* Names in messages are cut between characters, stay in one line, and a message has advice. */
static void messages_are_for_people(void **state)
{
    (void)state;
    static const char LONG[] = "日本日本日本日本日本日本日本日本日本日本日本日本日本日本日本日本";
    const replay_row *row;
    journal j;
    player p;
    char expected[256];
    journal_parse(&j, "started step");
    j.rows[1].name = slice_of(LONG);
    player_open(&p, j.rows, j.count, 1);
    player_start(&p, &row);
    assert_int_equal(player_op(&p, OP_STEP, SLICE_LIT("a b\nc\0d\xFF"), &row), REPLAY_MISMATCH);
    const error *err = replay_error(p.replay);
    snprintf(expected, sizeof expected,
             "position 2: the journal has step \"%.42s…\", the code asks for step \"a b?c?d?\"",
             LONG);
    assert_string_equal(err->detail, expected);
    assert_string_equal(err->hint,
                        "the code has changed in a way that old runs cannot follow: put the old "
                        "order back, use pawl_patch(), or redrive the run");
    assert_int_equal(err->code, PAWL_HELD);
    player_close(&p);
}

/* ---- the journal is damaged ---- */

#define BAD(position, why) "the journal of the run is damaged: position " position ": " why
#define NOT_OPEN "which is not open: it was answered, or is not for answers"

static void rows_out_of_their_place(void **state)
{
    (void)state;
    static const journal_case CASES[] = {
        {"missing started event", "step:a", "!", BAD("1", "the run has no beginning")},
        {"begins with an arrival", "done@1", "!", BAD("1", "the run has no beginning")},
        {"begins with the end", "ended", "!", BAD("1", "the run has no beginning")},
        {"started not first", "step:a started", "!", BAD("1", "the run has no beginning")},
        {"started twice", "started started", "step:a!", BAD("2", "the run begins a second time")},
        {"started again later", "started step:a started", "step:a=2 step:b!",
         BAD("3", "the run begins a second time")},
        {"position zero", "started#0", "!",
         BAD("1", "the row there is number 0, out of its order")},
        {"a negative position", "started#-1", "!",
         BAD("1", "the row there is number -1, out of its order")},
        {"does not begin at one", "started#2", "!", BAD("1", "missing; the next row is number 2")},
        {"gap", "started step:a#3", "step:a!", BAD("2", "missing; the next row is number 3")},
        {"gap behind good rows", "started step:a step:b step:c#7", "step:a=2 step:b=3 step:c!",
         BAD("4", "missing; the next row is number 7")},
        {"gap before an arrival", "started call:a done@2#4", "call:a=2 wait@2!",
         BAD("3", "missing; the next row is number 4")},
        {"repeated position", "started step:a step:b#2", "step:a=2 step:b!",
         BAD("3", "the row there is number 2, out of its order")},
        {"the same row twice", "started call:a done@2 done@2#3", "call:a=2 wait@2= return!",
         BAD("4", "the row there is number 3, out of its order")},
        {"backwards", "started step:a step:b step:c#1", "step:a=2 step:b=3 return!",
         BAD("4", "the row there is number 1, out of its order")},
        {"the largest position", "started step:a#9223372036854775807", "return!",
         BAD("2", "missing; the next row is number 9223372036854775807")},
        {"of a generation before", "started step:a%2", "step:a!",
         BAD("2", "the row is of generation 2, not of 3")},
        {"of a generation behind", "started%4", "!",
         BAD("1", "the row is of generation 4, not of 3")},
        {"an answer of another generation", "started call:a done@2%2", "call:a=2 wait@2!",
         BAD("3", "the row is of generation 2, not of 3")},
        {"op behind the end", "started ended step:a", "return=2 step:a!",
         BAD("3", "a row behind the end of the run")},
        {"two ends", "started ended ended", "return=2 return!",
         BAD("3", "a row behind the end of the run")},
        {"an end behind a failure", "started ended-failed ended", "fail=2 return!",
         BAD("3", "a row behind the end of the run")},
        {"cancelled behind the end", "started ended cancel", "return=2 return!",
         BAD("3", "a row behind the end of the run")},
        {"answered behind the end", "started call:a ended done@2", "call:a=2 return=3 wait@2!",
         BAD("4", "a row behind the end of the run")},
        {"the whole journal twice", "started step:a started#1 step:a#2", "step:a=2 step:a!",
         BAD("3", "the row there is number 1, out of its order")},
    };
    PLAY(CASES);
}

static void answers_of_nothing(void **state)
{
    (void)state;
    static const journal_case CASES[] = {
        {"completion source not found", "started step:x done@9", "step:x=2 return!",
         BAD("3", "done is about position 9, which is not before it")},
        {"of itself", "started done@2", "return!",
         BAD("2", "done is about position 2, which is not before it")},
        {"of position zero", "started call:a done@0", "call:a=2 wait@2!",
         BAD("3", "done is about position 0, which is not before it")},
        {"of nothing at all", "started call:a done", "call:a=2 wait@2!",
         BAD("3", "done is about position 0, which is not before it")},
        {"of a negative position", "started call:a failed@-2", "call:a=2 wait@2!",
         BAD("3", "failed is about position -2, which is not before it")},
        {"activity completed before scheduled", "started done@3 call:a", "call:a!",
         BAD("2", "done is about position 3, which is not before it")},
        {"timer fired before created", "started fired@3 sleep", "sleep!",
         BAD("2", "woken is about position 3, which is not before it")},
        {"orphan completion", "started done@1", "return!",
         BAD("2", "done is about position 1, " NOT_OPEN)},
        {"orphan timer", "started step:a fired@2", "step:a=2 step:b!",
         BAD("3", "woken is about position 2, " NOT_OPEN)},
        {"of a value", "started now done@2", "now=2 return!",
         BAD("3", "done is about position 2, " NOT_OPEN)},
        {"of an answer", "started call:a done@2 done@3", "call:a=2 wait@2= return!",
         BAD("4", "done is about position 3, " NOT_OPEN)},
        {"of a failed step", "started step-failed:a done@2", "step:a=2 return!",
         BAD("3", "done is about position 2, " NOT_OPEN)},
        {"activity completion for closed schedule", "started call:a done@2 done@2",
         "call:a=2 wait@2= return!", BAD("4", "done is about position 2, " NOT_OPEN)},
        {"activity failed for closed schedule", "started call:a done@2 failed@2",
         "call:a=2 wait@2= step:b!", BAD("4", "failed is about position 2, " NOT_OPEN)},
        {"activity completion for failed schedule", "started call:a failed@2 done@2",
         "call:a=2 wait@2= step:b!", BAD("4", "done is about position 2, " NOT_OPEN)},
        {"timer completion for closed schedule", "started sleep fired@2 fired@2",
         "sleep=2 wait@2= return!", BAD("4", "woken is about position 2, " NOT_OPEN)},
        {"attempt of a closed op", "started call:a done@2 attempt@2", "call:a=2 wait@2= return!",
         BAD("4", "attempt is about position 2, " NOT_OPEN)},
        {"answered twice, the code has not seen the first", "started call:a sleep done@2 done@2",
         "call:a=2 sleep=3 wait@3! saw:4", BAD("5", "done is about position 2, " NOT_OPEN)},
        {"timer completion for activity", "started call:a fired@2", "call:a=2 wait@2!",
         BAD("3", "woken is about position 2, which is call \"a\"")},
        {"activity completion for timer", "started sleep done@2", "sleep=2 wait@2!",
         BAD("3", "done is about position 2, which is sleep")},
        {"activity failure for timer", "started sleep failed@2", "sleep=2 wait@2!",
         BAD("3", "failed is about position 2, which is sleep")},
        {"attempt of a timer", "started sleep attempt@2", "sleep=2 wait@2!",
         BAD("3", "attempt is about position 2, which is sleep")},
        {"timer completion for a step", "started step-again:a fired@2", "step:a=2 wait@2!",
         BAD("3", "woken is about position 2, which is step \"a\"")},
        {"timer completion for until", "started until:r fired@2", "until:r=2 wait@2!",
         BAD("3", "woken is about position 2, which is until \"r\"")},
        {"cancel of an op", "started call:a cancel@2", "call:a=2 wait@2! live?",
         BAD("3", "cancel is about position 2, which is call \"a\"")},
        {"an op about another", "started call:a step:b@2", "call:a=2 step:b!",
         BAD("3", "step is about position 2, but can be about no other row")},
        {"a beginning about another", "started@1", "!",
         BAD("1", "started is about position 1, but can be about no other row")},
        {"an end about another", "started step:a ended@2", "step:a=2 return!",
         BAD("3", "ended is about position 2, but can be about no other row")},
    };
    PLAY(CASES);
}

static void kinds_that_are_not_known(void **state)
{
    (void)state;
#define NEWER(position, kind)                                                                      \
    "the journal of the run was written by a newer pawl: position " position                       \
    ": rows of kind " kind " are not known here"
    static const journal_case CASES[] = {
        {"a newer op", "started kind77:a", "step:a!", NEWER("2", "77")},
        {"a newer op behind others", "started step:a kind39:a", "step:a=2 return!",
         NEWER("3", "39")},
        {"a newer arrival", "started call:a kind49@2", "call:a=2 wait@2!", NEWER("3", "49")},
        {"the first of the numbers", "kind999", "!", NEWER("1", "999")},
        {"the last of the numbers", "started kind9999", "return!", NEWER("2", "9999")},
        {"kind zero", "started kind0", "return!", BAD("2", "there is no kind 0")},
        {"beyond all numbers", "started kind10000", "return!", BAD("2", "there is no kind 10000")},
        {"far beyond", "started kind9223372036854775807", "return!",
         BAD("2", "there is no kind 9223372036854775807")},
    };
    PLAY(CASES);
}

/* Bytes that the little language cannot write. */
static void bytes_that_cannot_be(void **state)
{
    (void)state;
    static char long_name[PAWL_MAX_NAME + 1];
    memset(long_name, 'x', sizeof long_name);
    const struct {
        slice name, data;
        const char *why;
    } cases[] = {
        {SLICE_LIT("a\0b"), SLICE_LIT("1"), "NUL"},
        {SLICE_LIT("\0"), SLICE_LIT("1"), "NUL"},
        {SLICE_LIT("\xFF"), SLICE_LIT("1"), "UTF-8"},
        {SLICE_LIT("a\xC3"), SLICE_LIT("1"), "UTF-8"},
        {SLICE_LIT("\xED\xA0\x80"), SLICE_LIT("1"), "UTF-8"},
        {{long_name, sizeof long_name}, SLICE_LIT("1"), "too long"},
        {{long_name, SIZE_MAX}, SLICE_LIT("1"), "too long"},
        {{NULL, 3}, SLICE_LIT("1"), "the name is missing"},
        {SLICE_LIT("a"), {NULL, 3}, "the data is missing"},
        {SLICE_LIT("a"), {"x", SIZE_MAX}, "bytes of data, more than any row has"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        replay_row rows[] = {
            {.seq = 1, .kind = OP_STARTED},
            {.seq = 2, .kind = OP_CALL},
            {.seq = 3, .kind = OP_DONE, .op = 2, .name = cases[i].name, .data = cases[i].data},
        };
        const replay_row *row;
        arena *a = arena_new(0);
        replay *r = replay_new(a, 0);
        assert_int_equal(replay_feed(r, rows, 3), PAWL_CORRUPT);
        assert_int_equal(replay_start(r, &row), REPLAY_RECORDED);
        assert_int_equal(replay_op(r, OP_CALL, SLICE_LIT(""), &row), REPLAY_RECORDED);
        assert_int_equal(replay_answer(r, 2, &row), REPLAY_CORRUPT);
        assert_null(row);
        assert_non_null(strstr(replay_error(r)->detail, "position 3: "));
        if (!strstr(replay_error(r)->detail, cases[i].why))
            fail_msg("%zu: %s", i, replay_error(r)->detail);

        replay *live = replay_new(a, 0); /* and what has arrived is dropped */
        assert_int_equal(replay_feed(live, rows, 2), PAWL_OK);
        assert_int_equal(replay_fed_all(live, 2), PAWL_OK);
        replay_start(live, &row);
        replay_op(live, OP_CALL, SLICE_LIT(""), &row);
        assert_int_equal(replay_answer(live, 2, &row), REPLAY_NEW);
        assert_int_equal(replay_arrive(live, &rows[2], 1), 0);
        assert_int_equal(replay_answer(live, 2, &row), REPLAY_NEW);
        arena_free(a);
    }
}

/* A journal whose end is missing looks like a shorter one, unless the length is known. */
static void the_end_is_missing(void **state)
{
    (void)state;
    const replay_row *row;
    journal j;
    journal_parse(&j, "started step:a");
    for (int64_t least = 0; least < 5; least++) {
        for (size_t count = 0; count <= 2; count++) {
            player p;
            player_open(&p, j.rows, count, 1);
            p.least = least;
            replay_result result = player_start(&p, &row);
            if (result == REPLAY_RECORDED)
                result = player_op(&p, OP_STEP, SLICE_LIT("a"), &row);
            if (result == REPLAY_RECORDED)
                result = player_return(&p, OP_ENDED, &row);
            int missing = least > (int64_t)count;
            assert_int_equal(result, missing ? REPLAY_CORRUPT : REPLAY_NEW);
            assert_int_equal(p.early, missing ? PAWL_CORRUPT : PAWL_OK);
            assert_int_equal(replay_is_new(p.replay), !missing);
            player_close(&p);
        }
    }
}

/* ---- the caller, and memory ---- */

/* A row that cannot be appended leaves everything as it was. */
static void bad_appends_change_nothing(void **state)
{
    (void)state;
    const replay_row *row;
    arena *a = arena_new(0);
    replay *r = replay_new(a, 1);
    assert_int_equal(replay_fed_all(r, 0), PAWL_OK);
    assert_int_equal(replay_start(r, &row), REPLAY_NEW);
    replay_row bad[] = {
        {.kind = OP_STEP}, /* before the beginning */
        {.kind = 77},
        {.kind = OP_STARTED, .name = SLICE_LIT("\xFF")},
        {.kind = OP_STARTED, .op = 1},
        {.kind = OP_ENDED},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_not_equal(replay_append(r, &bad[i]), PAWL_OK);
        assert_int_equal(replay_seq(r), 0);
        assert_int_equal(replay_start(r, &row), REPLAY_NEW);
    }
    assert_int_equal(replay_append(r, &(replay_row){.kind = OP_STARTED}), PAWL_OK);
    assert_int_equal(replay_append(r, &(replay_row){.kind = OP_STARTED}), PAWL_CORRUPT);
    assert_int_equal(replay_append(r, &(replay_row){.kind = OP_ENDED}), PAWL_OK);
    assert_int_equal(replay_append(r, &(replay_row){.kind = OP_NOW}), PAWL_CORRUPT);
    assert_int_equal(replay_seq(r), 2);
    arena_free(a);
}

/* A full arena is told as such, before and behind the rows that it had room for. */
static void a_full_arena_is_no_damage(void **state)
{
    (void)state;
    static replay_row rows[200];
    const replay_row *row;
    for (int64_t i = 0; i < 200; i++)
        rows[i] = (replay_row){.seq = i + 1, .kind = i ? OP_SLEEP : OP_STARTED};
    arena *a = arena_new(8000);
    replay *r = replay_new(a, 0);
    assert_non_null(r);
    assert_int_equal(replay_feed(r, rows, 200), PAWL_NOMEM);
    size_t open = replay_waiting(r);
    assert_in_range(open, 1, 198);
    assert_int_equal(replay_start(r, &row), REPLAY_RECORDED);
    for (size_t i = 0; i < open; i++)
        assert_int_equal(replay_op(r, OP_SLEEP, SLICE_LIT(""), &row), REPLAY_RECORDED);
    assert_int_equal(replay_op(r, OP_SLEEP, SLICE_LIT(""), &row), REPLAY_NOMEM);
    assert_int_equal(replay_error(r)->code, PAWL_NOMEM);
    arena_free(a);

    a = arena_new(8000); /* live: the same for an append, which can be repeated later */
    r = replay_new(a, 0);
    assert_int_equal(replay_fed_all(r, 0), PAWL_OK);
    pawl_code rc = PAWL_OK;
    for (size_t i = 0; i < 200 && rc == PAWL_OK; i++)
        rc = replay_append(r, &rows[i]);
    assert_int_equal(rc, PAWL_NOMEM);
    assert_int_equal(replay_waiting(r), replay_seq(r) - 1);
    assert_int_equal(replay_answer(r, 2, &row), REPLAY_NEW);
    assert_int_equal(replay_arrive(r, &(replay_row){.kind = OP_FIRED, .op = 2}, 1), 1);
    assert_int_equal(replay_answer(r, 2, &row), REPLAY_RECORDED); /* and makes room for another */
    assert_int_equal(replay_append(r, &(replay_row){.kind = OP_SLEEP}), PAWL_OK);
    assert_int_equal(replay_append(r, &(replay_row){.kind = OP_SLEEP}), PAWL_NOMEM);
    arena_free(a);

    a = arena_new(100);
    assert_null(replay_new(a, 0));
    arena_free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(another_op_is_asked_for),
        cmocka_unit_test(another_answer_is_waited_for),
        cmocka_unit_test(the_code_ends_otherwise),
        cmocka_unit_test(trouble_stays),
        cmocka_unit_test(messages_are_for_people),
        cmocka_unit_test(rows_out_of_their_place),
        cmocka_unit_test(answers_of_nothing),
        cmocka_unit_test(kinds_that_are_not_known),
        cmocka_unit_test(bytes_that_cannot_be),
        cmocka_unit_test(the_end_is_missing),
        cmocka_unit_test(bad_appends_change_nothing),
        cmocka_unit_test(a_full_arena_is_no_damage),
    };
    return cmocka_run_group_tests_name("replay_broken", tests, NULL, NULL);
}
