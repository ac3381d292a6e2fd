/* Units that are set aside from the commit queue because they wait for a row lock of a foreign
 * transaction, so that they do not block the units behind them (head-of-line blocking; aside.h).
 * The list is linked and searched from its head, since it is short unless the whole database is
 * locked. `next_ns` caches the time of the next attempt, since it is read far more often than the
 * list changes. */
#include "db/aside.h"

#include <assert.h>

enum { FIRST_MS = 10, LAST_MS = 500, PACE = 4 };

int aside_has_before(const unit *u)
{
    return u->submitter && u->submitter->aside > 0;
}

/* ---- The next attempt ---- */

static void update_next_ns(aside *a)
{
    a->next_ns = INT64_MAX;
    for (const unit *u = a->list.head; u; u = u->next)
        if (u->commit.aside_ns < a->next_ns)
            a->next_ns = u->commit.aside_ns;
    if (a->next_ns < a->pace_ns)
        a->next_ns = a->pace_ns;
}

int64_t aside_next_ns(const aside *a)
{
    return a->list.head ? a->next_ns : INT64_MAX;
}

/* ---- Putting units in ---- */

/* The unit goes to the front, so that it stays before the later units of its submitter. */
static void put_first(aside *a, unit *u)
{
    queue_put_back(&a->list, &u, 1);
    update_next_ns(a);
}

static void mark_set_aside(unit *u)
{
    if (!u->commit.set_aside && u->submitter)
        u->submitter->aside++;
    u->commit.set_aside = 1;
}

void aside_put(aside *a, unit *u, int64_t now_ns, int64_t took_ns)
{
    mark_set_aside(u);
    int64_t twice = u->commit.aside_ms * 2;
    u->commit.aside_ms = twice == 0 ? FIRST_MS : twice < LAST_MS ? twice : LAST_MS;
    u->commit.aside_ns = clock_deadline(now_ns, u->commit.aside_ms);
    a->pace_ns = now_ns + took_ns * PACE;
    put_first(a, u);
}

void aside_put_back(aside *a, unit *u, int64_t now_ns)
{
    u->commit.aside_ns = now_ns;
    put_first(a, u);
}

void aside_follow(aside *a, unit *u)
{
    mark_set_aside(u);
    u->commit.aside_ns = INT64_MAX;
    queue_append(&a->list, u);
    update_next_ns(a);
}

/* ---- Taking units out ---- */

unit *aside_take(aside *a, int64_t now_ns)
{
    if (now_ns < aside_next_ns(a))
        return NULL;
    unit *u = a->list.head;
    while (u && u->commit.aside_ns > now_ns)
        u = u->next;
    if (u)
        aside_withdraw(a, u);
    return u;
}

int aside_withdraw(aside *a, const unit *u)
{
    int found = queue_withdraw(&a->list, u);
    update_next_ns(a);
    return found;
}

unit *aside_take_late(aside *a, int64_t now_ns)
{
    unit *late = queue_take_late(&a->list, now_ns);
    if (late)
        update_next_ns(a);
    return late;
}

unit *aside_take_class(aside *a, unit_class class)
{
    unit *list = queue_take_class(&a->list, class);
    update_next_ns(a);
    return list;
}

unit *aside_take_all(aside *a)
{
    return queue_take_all(&a->list);
}

/* A unit that was committed shows that the lock is gone: the pause before other units ends. */
void aside_leave(aside *a, unit *u, int64_t now_ns)
{
    if (!u->commit.set_aside)
        return;
    u->commit.set_aside = 0;
    if (u->answer == UNIT_COMMITTED)
        a->pace_ns = 0;
    if (u->submitter) {
        assert(u->submitter->aside > 0);
        u->submitter->aside--;
        unit *next = u->submitter->aside > 0 ? a->list.head : NULL;
        while (next && next->submitter != u->submitter)
            next = next->next;
        if (next)
            /* RULE L4-the-next-of-its-submitter-is-due-when-a-unit-leaves */
            next->commit.aside_ns = now_ns;
    }
    update_next_ns(a);
}

void aside_hurry(aside *a, int64_t now_ns)
{
    for (unit *u = a->list.head; u; u = u->next)
        if (u->commit.aside_ns != INT64_MAX)
            u->commit.aside_ns = now_ns;
    a->pace_ns = 0;
    update_next_ns(a);
}
