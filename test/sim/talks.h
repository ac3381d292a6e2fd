/* Talks in a fleet: what is remembered of them outside the database, to be compared with it.
 *
 * A talk has children, which are talks too, so nothing here goes by the number of a run: it goes by
 * its id. */
#ifndef SIM_TALKS_H
#define SIM_TALKS_H

#include <stdint.h>

#include "executed.h"
#include "talk.h"

struct fleet;
struct fleet_node;
struct fleet_run;

enum { TALKS_SEEN = 112, TALKS_LOGS = 256, TALKS_NOTES = 768, TALKS_DEEDS = 384, TALKS_SENT = 512 };

/* What the function of a run was told, one after the other, in one generation. */
typedef struct talks_seen {
    uint64_t hash;
    int by;         /* which node has seen it … */
    int64_t faults; /* … and how many faults it had had */
    int64_t holds;  /* of all runs, so far */
    int begun;      /* how often somebody had begun to drive that node */
} talks_seen;

typedef struct talks_log {
    char id[TALK_ID];
    int64_t generation;
    int64_t count;
    int64_t sealed; /* so many are recorded for sure: something was done because of them */
    talks_seen at[TALKS_SEEN];
} talks_log;

/* What was executed: as fleet_note. */
typedef struct talks_note {
    uint64_t key; /* of the call, and its attempt */
    int64_t times;
    executed last;
    uint64_t input;
} talks_note;

/* What was done outside, and undone. Numbers count everything that was done in this world. */
typedef struct talks_deed {
    char id[TALK_ID];
    uint64_t seed; /* of the talk: it stays when a run is redriven */
    int at;
    int64_t done;   /* the last time; 0: never */
    int64_t undone; /* likewise */
    int64_t cleaned;
} talks_deed;

/* A message that somebody has sent. */
typedef struct talks_sent {
    char id[TALK_ID];
    int box;
    int is_told; /* by a run */
    uint64_t number;
    char key[16]; /* "": it has none */
    int sure;     /* it was answered OK */
    int64_t seq;  /* as that answer said */
} talks_sent;

typedef struct talks {
    talks_log logs[TALKS_LOGS];
    int log_count;
    talks_note notes[TALKS_NOTES];
    int note_count;
    talks_deed deeds[TALKS_DEEDS];
    int deed_count;
    talks_sent sent[TALKS_SENT];
    int sent_count;
    int64_t stamp;
    uint64_t numbers; /* of messages and keys, so far */
    int live;         /* runs that have not ended, roots among them */
    int64_t due_ms;   /* when the next of them is due; INT64_MAX: none */
    int redriven;     /* some root was */
    int64_t holds;    /* so many times somebody has held a run */
} talks;

talks_log *talks_log_of(talks *all, const char *id, int64_t generation); /* NULL: too many */
talks_deed *talks_deed_of(talks *all, const char *id, uint64_t seed, int at);
talks_sent *talks_new_sent(talks *all);

/* ---- What work functions do (works_talk.c) ---- */

void talks_register(struct fleet_node *n);

/* ---- What others do (affairs_talk.c) ---- */

void talks_start(struct fleet *f, struct fleet_node *n, struct fleet_run *run);

/* Some of it, as the odds say: send, cancel, redrive. */
void talks_meddle(struct fleet *f, struct fleet_node *n);

/* Let runs go on that wait for ever, and those that are held and nobody has held by hand. */
void talks_nudge(struct fleet *f, struct fleet_node *n);
void talks_release(struct fleet *f, struct fleet_node *n);

/* ---- Looking (watch_talk.c) ---- */

void talks_look(struct fleet *f);

/* ---- Judging (judge_talk.c) ---- */

void talks_judge(struct fleet *f);

#endif
