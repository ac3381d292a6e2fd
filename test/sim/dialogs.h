/* Dialogs in a fleet: what is remembered of them outside the database, to be compared with it.
 *
 * A dialog has children, which are dialogs too, so nothing here goes by the number of a run: it
 * goes by its id. */
#ifndef SIM_DIALOGS_H
#define SIM_DIALOGS_H

#include <stdint.h>

#include "dialog.h"
#include "executed.h"

struct fleet;
struct fleet_node;
struct fleet_run;

enum {
    DIALOGS_SEEN = 112,
    DIALOGS_LOGS = 256,
    DIALOGS_NOTES = 768,
    DIALOGS_STEPS = 384,
    DIALOGS_SENT = 512
};

/* What the function of a run was told, one after the other, in one generation. */
typedef struct dialogs_seen {
    uint64_t hash;
    int by;         /* which node has seen it … */
    int64_t faults; /* … and how many faults it had had */
    int64_t holds;  /* of all runs, so far */
    int begun;      /* how often that node had begun to be driven */
    int64_t id;     /* by which it was called */
} dialogs_seen;

typedef struct dialogs_log {
    char id[DIALOG_ID];
    int64_t generation;
    int64_t count;
    int64_t sealed; /* so many are recorded for sure: something was done because of them */
    dialogs_seen at[DIALOGS_SEEN];
} dialogs_log;

/* What was executed: as fleet_note. */
typedef struct dialogs_note {
    uint64_t key; /* of the call, and its attempt */
    int64_t times;
    executed last;
    uint64_t input;
} dialogs_note;

/* What was done outside, and undone. Numbers count everything that was done in this world. */
typedef struct dialogs_step {
    char id[DIALOG_ID];
    uint64_t seed; /* of the dialog: it stays when a run is redriven */
    int at;
    int64_t done;   /* the last time; 0: never */
    int64_t undone; /* likewise */
    int64_t cleaned;
} dialogs_step;

/* A message that was sent. */
typedef struct dialogs_sent {
    char id[DIALOG_ID];
    int box;
    int is_told; /* by a run */
    uint64_t number;
    char key[16]; /* "": it has none */
    int sure;     /* it was answered OK */
    int64_t seq;  /* as that answer said */
} dialogs_sent;

typedef struct dialogs {
    dialogs_log logs[DIALOGS_LOGS];
    int log_count;
    dialogs_note notes[DIALOGS_NOTES];
    int note_count;
    dialogs_step steps[DIALOGS_STEPS];
    int step_count;
    dialogs_sent sent[DIALOGS_SENT];
    int sent_count;
    int64_t stamp;
    uint64_t numbers; /* of messages and keys, so far */
    int live;         /* runs that have not ended, roots among them */
    int64_t due_ms;   /* when the next of them is due; INT64_MAX: none */
    int redriven;     /* some root was */
    int64_t holds;    /* so many times a run was held */
} dialogs;

dialogs_log *dialogs_log_of(dialogs *all, const char *id, int64_t generation); /* NULL: too many */
dialogs_step *dialogs_step_of(dialogs *all, const char *id, uint64_t seed, int at);
dialogs_sent *dialogs_new_sent(dialogs *all);

/* ---- What work functions do (works_dialog.c) ---- */

void dialogs_register(struct fleet_node *n);

/* ---- What others do (affairs_dialog.c) ---- */

void dialogs_start(struct fleet *f, struct fleet_node *n, struct fleet_run *run);

/* Some of it, as the odds say: send, cancel, redrive. */
void dialogs_act(struct fleet *f, struct fleet_node *n);

/* Release runs that wait for ever, and those that are held, but not by hand. */
void dialogs_nudge(struct fleet *f, struct fleet_node *n);
void dialogs_release(struct fleet *f, struct fleet_node *n);

/* ---- Looking (watch_dialog.c) ---- */

void dialogs_look(struct fleet *f);

/* ---- Judging (judge_dialog.c) ---- */

void dialogs_judge(struct fleet *f);

#endif
