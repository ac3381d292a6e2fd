/*
 * The ratchet: findings that are allowed for now, in a list that may only shrink (tools/ratchet).
 *
 * A line of the list is a kind, a number and a subject:
 *
 *     symbol 2 run/work_future.c sched/sched.c
 *
 * The checks count what they find today for each kind and subject. More than the list allows is a
 * finding, and so is less: then the line has to be lowered, or to go, so that nothing comes back.
 * Subjects name files by their place in the plan (floors.h), and so outlive the move there.
 */
#ifndef TOOLS_RATCHET_H
#define TOOLS_RATCHET_H

#include "list.h"

struct ratchet_count {
    const char *kind;
    char *subject;
    char *message; /* "file:line: what is wrong", for a count that is too high */
    size_t number;
    size_t allowed;
    size_t line; /* of the list; 0: it has none */
};

struct ratchet {
    struct list list;
    const char *skipped[8]; /* kinds that were not counted today */
    size_t skip_count;
    size_t count;
    struct ratchet_count *counts;
};

void ratchet_open(struct ratchet *ratchet, const char *path);
void ratchet_close(struct ratchet *ratchet);

/* Today there are so many, which is more than 0. Each subject of a kind is counted once. */
void ratchet_count(struct ratchet *ratchet, const char *kind, const char *subject, size_t number,
                   const char *format, ...) __attribute__((format(printf, 5, 6)));

/* This kind was not counted: its lines are neither too high nor too low. */
void ratchet_skip(struct ratchet *ratchet, const char *kind);

/* Prints what is above the list; with `whole`, when everything was counted, also lines of the list
 * that are higher than what there is. Gives the number of findings. */
size_t ratchet_judge(struct ratchet *ratchet, bool whole);

/* Prints today's counts as lines of such a list, in their order. */
void ratchet_print(struct ratchet *ratchet);

/* Writes the list anew with lines lowered to today's counts, and without those that are not needed
 * any more. Never adds or raises one. False: it cannot be written. */
bool ratchet_shrink(struct ratchet *ratchet);

#endif
