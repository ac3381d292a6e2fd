/* Sharded group commit: an array of committers that know nothing of each other, and the pool of
 * guest committers (guest_committer.c). There is no lock here: the array is made once and never
 * changes, and each committer has its own lock. */
#include "db/committers.h"

#include <assert.h>
#include <stdlib.h>

struct committers {
    int count;
    guest_committers *guests;
    committer *at[];
};

pawl_code committers_open(committers **out, db *d, const committer_options *options, int count,
                          error *err)
{
    *out = NULL;
    if (count > 1 && (d->driver->promises & DB_TURNS))
        count = 1;
    committers *c = calloc(1, sizeof *c + (size_t)count * sizeof(committer *));
    if (!c)
        return error_nomem(err);
    c->guests = guest_committer_new(d, options);
    pawl_code rc = c->guests ? PAWL_OK : error_nomem(err);
    while (rc == PAWL_OK && c->count < count) {
        rc = committer_open(&c->at[c->count], d, options, err);
        c->count += rc == PAWL_OK;
    }
    if (rc != PAWL_OK) {
        committers_close(c);
        return rc;
    }
    *out = c;
    return PAWL_OK;
}

void committers_close(committers *c)
{
    if (!c)
        return;
    guest_committer_free(c->guests);
    for (int i = 0; i < c->count; i++)
        committer_close(c->at[i]);
    free(c);
}

int committers_count(const committers *c)
{
    return c->count;
}

committer *committers_at(const committers *c, int index)
{
    assert(index >= 0 && index < c->count);
    return c->at[index];
}

/* Keys are consecutive numbers, and often every second or tenth one belongs to the same kind of
 * run: the bits are mixed, so that no such pattern puts all the work on one committer. */
committer *committers_of(const committers *c, uint64_t key)
{
    uint64_t mixed = key * UINT64_C(0x9E3779B97F4A7C15);
    return c->at[(mixed >> 32) % (uint64_t)c->count];
}

pawl_code committers_apply(committers *c, unit *u)
{
    return guest_committer_apply(c->guests, u);
}

void committers_set_node(committers *c, int64_t node, int64_t first_slot, int64_t token)
{
    for (int i = 0; i < c->count; i++)
        committer_set_node(c->at[i], node, first_slot + i, token);
    guest_committer_set_node(c->guests, node, first_slot + c->count, token);
}

void committers_leave(committers *c)
{
    for (int i = 0; i < c->count; i++)
        committer_leave(c->at[i]);
}

int committers_flush_runs(committers *c, int64_t deadline_ns)
{
    int done = 1;
    if (c->count > 1)
        committers_leave(c);
    for (int i = 0; i < c->count; i++)
        done &= committer_flush_runs(c->at[i], deadline_ns);
    return guest_committer_flush(c->guests, deadline_ns) && done;
}

void committers_give_up_runs(committers *c)
{
    for (int i = 0; i < c->count; i++)
        committer_give_up_runs(c->at[i]);
    guest_committer_give_up(c->guests);
}

int committers_drive(committers *c)
{
    int did = guest_committer_drive(c->guests);
    for (int i = 0; i < c->count; i++)
        did |= committer_drive(c->at[i]);
    return did;
}

int64_t committers_next_ns(committers *c)
{
    int64_t next = guest_committer_next_ns(c->guests);
    for (int i = 0; i < c->count; i++) {
        int64_t one = committer_next_ns(c->at[i]);
        next = one < next ? one : next;
    }
    return next;
}

pawl_code committers_trouble(committers *c)
{
    pawl_code rc = PAWL_OK;
    for (int i = 0; i < c->count && rc == PAWL_OK; i++)
        rc = committer_trouble(c->at[i]);
    return rc;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

committer_stats committers_stats_now(committers *c)
{
    committer_stats sum = {0};
    for (int i = 0; i < c->count + GUEST_COMMITTERS_MAX; i++) {
        committer *k = i < c->count ? c->at[i] : guest_committer_at(c->guests, i - c->count);
        committer_stats s = k ? committer_stats_now(k) : (committer_stats){0};
        sum.batches += s.batches;
        sum.committed += s.committed;
        sum.refused += s.refused;
        sum.failed += s.failed;
        sum.undecided += s.undecided;
        sum.restarts += s.restarts;
        sum.busy += s.busy;
        sum.locked += s.locked;
        sum.batch_max = larger(sum.batch_max, s.batch_max);
        sum.batch_ns_max = larger(sum.batch_ns_max, s.batch_ns_max);
    }
    return sum;
}
