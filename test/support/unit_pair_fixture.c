/* The units are those of the engine, with values by which the two sides can be told apart. This
 * file builds the units, and does not apply them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "support/unit_pair_fixture.h"

#include "api/outbox.h"
#include "rows/node.h"
#include "rows/run_units.h"

const char *const PAIR_KIND_NAMES[] = {"claim",   "send",      "close",  "take over", "park",
                                       "finish",  "give back", "append", "hold",      "cross",
                                       "release", "key",       "cancel", "move",      "rest"};

static unit *new_unit(pair_side *d)
{
    assert_true(d->count < UNITS);
    arena *a = d->arenas[d->count];
    arena_reset(a);
    unit *u = unit_new(a);
    assert_non_null(u);
    d->units[d->count++] = u;
    return u;
}

static slice name_of(const pair_side *d)
{
    return d->me == LEFT ? SLICE_LIT("L") : SLICE_LIT("R");
}

static void send_to(pair_side *d, unit *u, int64_t run)
{
    run_inbox_row m = {.run = run, .kind = 1, .name = name_of(d), .at_ms = d->now_ms};
    run_send(u, &m);
}

static void send_once(pair_side *d, unit *u)
{
    d->message = (inbox_message){.row = {.run = RUN,
                                         .kind = INBOX_MESSAGE,
                                         .name = SLICE_LIT("box"),
                                         .key = SLICE_LIT("k"),
                                         .at_ms = d->now_ms,
                                         .data = SLICE_LIT("1")}};
    inbox_message_seal(&d->message);
    inbox_message_write(u, &d->message);
}

static void cancel_run(pair_side *d, unit *u)
{
    run_inbox_row m = {.run = RUN, .kind = INBOX_CANCEL, .name = name_of(d), .at_ms = d->now_ms};
    run_cancel(u, &m);
}

static void add_append(pair_side *d, unit *u)
{
    run_entry e = {
        .run = RUN, .generation = 1, .seq = 1, .kind = 1, .name = name_of(d), .at_ms = d->now_ms};
    run_append(u, &e);
}

void pair_side_build(pair_side *d)
{
    run_lease h = {RUN, d->me, FENCE};
    d->count = 0;
    d->read = -1;
    unit *u = new_unit(d);
    switch (d->kind) {
    case CLAIM:
        run_claim(u, &(run_found){.run = RUN, .owner = d->owner}, d->me, d->now_ms);
        break;
    case SEND:
        send_to(d, u, RUN);
        break;
    case CLOSE:
        node_add_close(u, d->other);
        break;
    case TAKE_OVER:
        node_add_close(u, d->other);
        run_claim(new_unit(d), &(run_found){.run = RUN, .owner = d->other}, d->me, d->now_ms);
        break;
    case PARK:
        run_park(u, &h, 0, LATER, NULL, d->now_ms);
        break;
    case FINISH:
        run_finish(u, &h, &(run_end){.phase = PHASE_DONE, .output = name_of(d)}, NULL, d->now_ms);
        add_append(d, u);
        break;
    case GIVE_BACK:
        run_give_back(u, &h, d->now_ms);
        break;
    case APPEND:
        add_append(d, u);
        break;
    case CROSS:
        send_to(d, u, d->me == LEFT ? RUN : SECOND_RUN);
        send_to(d, u, d->me == LEFT ? SECOND_RUN : RUN);
        break;
    case RELEASE:
        run_hold_by_hand(u, RUN, name_of(d), d->now_ms);
        run_set_free(new_unit(d), RUN, d->now_ms);
        break;
    case HOLD:
        run_hold_by_hand(u, RUN, name_of(d), d->now_ms);
        break;
    case KEY:
        send_once(d, u);
        break;
    case CANCEL:
        cancel_run(d, u);
        break;
    case MOVE:
        outbox_relay_take(u, ROW);
        send_to(d, u, RUN);
        break;
    case REST:
        run_park(u, &h, 0, LATER, NULL, d->now_ms);
        u = new_unit(d);
        run_give_back(u, &h, d->now_ms);
        send_to(d, u, RUN);
        break;
    }
}

int pair_side_makes_sense(const pair_side *d)
{
    switch (d->kind) {
    case CLAIM:
        return d->owner != d->me;
    case TAKE_OVER:
        return d->owner == d->other;
    case PARK:
    case FINISH:
    case GIVE_BACK:
    case APPEND:
    case REST:
        return d->owner == d->me;
    default:
        return 1;
    }
}
