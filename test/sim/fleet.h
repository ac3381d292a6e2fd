/* A fleet: several engines in one thread on one database, with a clock and with faults.
 *
 * Each engine is a node with a database of its own wrapped around the file (db_fault.h), so that it
 * alone can be hit: a call that fails, a commit whose answer is lost, death at a call. Nodes also
 * meet in the middle of what they do: while one is about to begin a transaction, or is in a work
 * function, another one is polled. A node may be shut out by others while it still believes in its
 * runs: because it lost the lock that is its heartbeat; or, where the database does not look
 * like a file, because it was silent for too long.
 *
 * Everything is driven by one chance. Whatever is found wrong is told by fleet_wrong(), the first
 * thing counts. */
#ifndef SIM_FLEET_H
#define SIM_FLEET_H

#include <sqlite3.h>
#include <pawl.h>

#include "api/engine_test.h"
#include "db/db_fault.h"
#include "dialogs.h"
#include "executed.h"
#include "program.h"
#include "tally.h"

enum {
    FLEET_NODES = 3,
    FLEET_RUNS = 6,
    FLEET_NOTES = 256,
    FLEET_PATH = 256,
    FLEET_CLAIM_MS = 5000,
    FLEET_DRAIN_MS = 2000,
    FLEET_CLOSED = 512,
    LIVENESS_DUE = 32,
    LIVENESS_PROBES = 24
};

/* How much of what may happen, in thousandths; for one seed. */
typedef struct fleet_odds {
    int nodes;
    int runs;
    int memory;      /* the database is in memory: one node, which never dies */
    int server;      /* it looks like a server's: heartbeats are rows, and it has its own time */
    int fail;        /* at a poll: one of the next calls fails */
    int fail_commit; /* a commit fails */
    int lose;        /* one of the next commits has no answer */
    int die;         /* the node dies at one of the next calls */
    int die_in;      /* it dies in a work function */
    int meet;        /* another node is polled before a transaction, or in a work function */
    int silence;     /* it loses its heartbeat in a work function, or is in there for long */
    int drop;        /* a fiber is dropped where it may be */
    int jump;        /* the clock of the host is set */
    int mail;        /* something arrives for a run */
    int hold;        /* a run is held, or released */
    int steal;       /* a run is taken from its owner, without its knowledge */
    int killer;      /* a run kills every process that executes it, for a while */
    int lack;        /* a node comes up that does not have the work function */
    int dialog;      /* a run is a dialog, of all runs in this world */
    int send;        /* a client sends a message */
    int cancel;      /* … cancels a run */
    int redrive;     /* … redrives one */
    int threads;     /* engines have so many at most; 0: all are driven by hand */
    int serve;       /* one that has threads and is not driven begins to serve … */
    int finish;      /* … or a thread finishes a run with it, again and again, for a while each */
    int stop;        /* it is stopped */
    int busy;        /* a work function on such a thread takes its time */
    int broad;       /* a dialog does most of its work beside the function */
} fleet_odds;

typedef struct fleet fleet;

/* How an engine is driven: not at all, or polled; by a thread in pawl_serve() or pawl_finish(). */
typedef enum { DRIVER_NONE, DRIVER_SERVE, DRIVER_FINISH } fleet_driver;

typedef struct fleet_node {
    fleet *fleet;
    int index;
    pawl *engine; /* NULL: it is down */
    db *inner;    /* its database, without the faults */
    db_fault plan;
    int64_t die_at;   /* number of the call; 0: not planned */
    int polled;       /* it is being polled */
    int silent;       /* it has lost its heartbeat */
    int lacks;        /* it does not have the work function */
    int told;         /* that it is shut out was counted */
    int working;      /* the run whose work function it is in, from 1; 0: none */
    int64_t died_id;  /* by this number it was called when it died */
    int64_t calls_id; /* … when a call of it began */
    int died_in;      /* … when it died; -1: it was in nothing at all */
    int64_t began_ns; /* its poll; of one that serves: all its threads have waited since then */
    int threads;      /* 0: it is driven by hand */
    fleet_driver driver;
    int stopped;        /* a stop was asked for, and perhaps no thread has heard it yet … */
    int64_t stopped_ns; /* … since then */
    int stops;          /* so many that perhaps no thread has heard of */
    int driven;         /* so many times a thread has served or finished, and come to an end */
    int begun;          /* … and so many times one has begun … */
    int64_t begun_ns;   /* … the last time then */
    int64_t worked_ns;  /* when a work function of it returned last */
    int64_t hit_ns;     /* when it met a fault last */
    int64_t id;         /* by this number it was called when it was looked at last */
    int finish_run;     /* what is finished … */
    int64_t finish_ms;  /* … for so long … */
    int finish_times;   /* … so many times */
    int64_t queued_ns;  /* it has something to commit since then, of f->served_ns; -1: nothing */
    int64_t hits;       /* how many faults it has met … */
    int64_t faults;     /* … and how many times something of it may have been lost */
    int64_t sound_ms;   /* it serves, and nothing is wrong with it since then, of time that counts;
                           -1: that is not so … */
    int sound_begun;    /* … and this is the serve */
} fleet_node;

/* What was executed. */
typedef struct fleet_note {
    int run;
    int64_t op;
    int64_t attempt;
    int64_t times;
    executed last;
    uint64_t input;
} fleet_note;

/* How often processes died of a run, one after the other, without its getting further. */
typedef struct fleet_deaths {
    int64_t count;
    int64_t rows; /* length of its journal then */
} fleet_deaths;

typedef enum { HOLD_NO, HOLD_YES, HOLD_PERHAPS } fleet_hold;

typedef struct fleet_run {
    program program;
    char id[32];
    int64_t delay_ms;
    int started;
    int ended;
    int64_t key;
    int64_t owner; /* when it was looked at last */
    int64_t fence;
    int was_driven;     /* a node has owned it */
    int mailed;         /* it may be due without having anything to do: something has arrived */
    fleet_hold hold;    /* by hand */
    int64_t hold_ns;    /* when … */
    int64_t hold_hits;  /* … and after how many faults of all nodes */
    int64_t hold_fence; /* the owner of this one may come to an end with it */
    int poisoned;       /* it is held because processes died of it */
    int64_t tried;
    int64_t stolen; /* its fence since it was stolen, … */
    int64_t stolen_owner;
    int64_t stolen_rows; /* … and what was recorded then; 0: it was not stolen */
    int killer;          /* number of the op that kills, from 1; -1: each, once; 0: none does */
    int64_t kills;       /* so many times more */
    fleet_deaths deaths; /* at most */
    fleet_deaths sure;   /* at least */
    int inside;          /* so many of its work functions are being executed by threads */
    int64_t seen_rows;   /* what its row said when it was looked at last … */
    int64_t seen_fence;
    int64_t seen_wake_ms;
    int64_t seen_ms;    /* … and since when that is so, of time that counts */
    int64_t due_rounds; /* so long it is due, and all the others have nothing to do */
    int is_dialog;      /* it is a dialog, not a program */
    uint64_t dialog_seed;
    int dialog_left;     /* generations */
    int64_t deadline_ms; /* 0: none */
    int cancel;          /* 1: perhaps, 2: for sure */
    int64_t cancel_pos;  /* the last row of all journals then */
    int redrives;
    int redriven; /* perhaps once more: that had no answer */
} fleet_run;

/* A run that is due and that no live node owns, and since when, in time that counts. */
typedef struct liveness_due {
    int64_t key, fence, since_ms;
} liveness_due;

struct fleet {
    clock_source clock;  /* first: it is what engines get … */
    clock_source server; /* … and what the database says, where it looks like a server's */
    int64_t now_ms;
    int64_t server_ms;
    int64_t latest_ms; /* that the database's clock has shown */
    int64_t ahead_ms;  /* by how much the host's clock was set forward, all times together */
    int64_t mono_ns;
    int64_t closed[FLEET_CLOSED]; /* numbers of nodes that others have closed */
    int closed_count;
    int64_t served_ns; /* of that, as far as no thread has overslept … */
    int64_t awake_ns;  /* … and while all is calm no polled node has */
    liveness_due due[LIVENESS_DUE];
    int due_count;
    int64_t probes_ms[LIVENESS_PROBES]; /* when they were started; -1: they have ended */
    int probe_count;
    int64_t storm_hits; /* faults of all nodes when they were looked at last … */
    int64_t storm_ms;   /* … and when the last one was, of time that counts */
    int64_t orphan_ms;  /* when it was started or cancelled */
    int orphan_cancelled;
    int doomed; /* executions of the step that cannot be recorded */
    uint64_t seed;
    chance chance; /* what happens */
    chance dice;   /* what engines get as randomness */
    fleet_odds odds;
    int calm; /* nothing goes wrong any more … */
    int rest; /* … and what is held stays so */
    int depth;
    fleet_node *current; /* whose turn it is, innermost */
    int64_t hits;        /* faults of all nodes */
    int64_t silences;    /* of nodes that others may have taken for dead */
    int builds;          /* of the program, so far */
    char path[FLEET_PATH];
    sqlite3 *look; /* a connection of our own; in memory: the engine's */
    sqlite3_stmt *rows;
    sqlite3_stmt *open;
    sqlite3_stmt *beat;
    sqlite3_stmt *runs;
    sqlite3_stmt *journal;
    sqlite3_stmt *last;
    sqlite3_stmt *sleeps;
    sqlite3_stmt *attribute;
    sqlite3_stmt *arrived;
    sqlite3_stmt *last_pos; /* from here on: of dialogs */
    sqlite3_stmt *family;
    sqlite3_stmt *dormant;
    sqlite3_stmt *stuck;
    sqlite3_stmt *messages;
    sqlite3_stmt *after;
    sqlite3_stmt *dialog_runs;
    sqlite3_stmt *dialog_rows;
    sqlite3_stmt *generations;
    sqlite3_stmt *inbox;
    sqlite3_stmt *slept;
    sqlite3_stmt *state;
    sqlite3_stmt *unclaimed;
    fleet_node nodes[FLEET_NODES];
    fleet_run all[FLEET_RUNS];
    fleet_note notes[FLEET_NOTES];
    int note_count;
    dialogs dialog_log;
    int64_t entered; /* defers registered, and called */
    int64_t left;
    tally *tally;   /* of all worlds */
    uint64_t trace; /* all that happened, in a number */
    int verbose;
    char wrong[768];
};

/* ---- The whole (fleet.c) ---- */

/* A fleet of this seed, all of whose nodes are down, on a copy of the database at `model`. Of *f,
 * `dialogs` and `tally` are kept. */
void fleet_open(fleet *f, uint64_t seed, const char *model, const char *folder);
void fleet_close(fleet *f);

/* Bring a node up; let it die as if it were killed, now; let it close as it should. */
void fleet_up(fleet_node *n);
void fleet_die(fleet_node *n);
void fleet_remove_dead(fleet_node *n); /* once none of its functions is on the stack */
void fleet_down(fleet_node *n);

/* Close its engine, however it is driven. */
void fleet_shut(fleet_node *n);

/* Poll it, with what may happen meanwhile. Gives how much it did. */
int64_t fleet_poll(fleet_node *n);

/* The same for one that may have threads: these go on, or begin. */
int64_t fleet_turn(fleet_node *n);

/* It was told that others have closed it, when it was called by this number. */
void fleet_fenced(fleet_node *n, int64_t id);

/* 1: it is on the stack of the caller, or has threads that drive it: it cannot be polled. */
static inline int fleet_is_driven(const fleet_node *n)
{
    return n->polled || n->driver != DRIVER_NONE;
}

/* Move the clock; until a moment of the monotonic one; set it, as far as chance says so. */
void fleet_move(fleet *f, int64_t ms);
void fleet_pass(fleet *f, int64_t until_ns);
void fleet_jump(fleet *f);

/* What time it is, as the database says. */
static inline int64_t fleet_time(const fleet *f)
{
    return f->odds.server ? f->server_ms : f->now_ms;
}

/* Remember that this has happened; and that it was wrong. */
void fleet_tell(fleet *f, const char *format, ...) __attribute__((format(printf, 2, 3)));
void fleet_wrong(fleet *f, const char *format, ...) __attribute__((format(printf, 2, 3)));

static inline void fleet_count(fleet *f, tally_kind kind)
{
    f->tally->at[kind]++;
}

/* 1: others have closed it; the node of this number was never closed. */
int fleet_is_shut_out(fleet_node *n);
int fleet_is_open(fleet *f, int64_t id);
int fleet_has_node(const fleet *f, int64_t id);   /* its process lives */
int fleet_was_closed(const fleet *f, int64_t id); /* by others, as they have said */

void fleet_copy(const char *from, const char *to); /* a file */

/* ---- Drivers that are threads (drivers.c) ---- */

/* Begin to serve, or to finish something. 0: neither. */
int drivers_begin(fleet_node *n);

/* Its threads go on, and those of others, with what may happen meanwhile. */
void drivers_play(fleet_node *n);

/* All threads go on until each of them waits. */
void drivers_settle(fleet *f);

/* Stop the threads that drive it, and wait for that. */
void drivers_halt(fleet_node *n);

/* ---- Faults (faults.c) ---- */

/* What will happen to it in the next poll; and nothing. */
void faults_plan(fleet_node *n);
void faults_clear(fleet_node *n);

/* Before each call to its database: db_fault.before. */
void faults_before(void *node, int64_t number, fault_call call, const char *sql);

/* It has met one; and something of it may be lost from here on. */
static inline void faults_hit(fleet_node *n)
{
    n->hits++;
    n->hit_ns = n->fleet->mono_ns;
    n->fleet->hits++;
}

static inline void faults_note(fleet_node *n)
{
    n->faults++;
}

/* While a node is in a work function: others have their turn, time passes, it is shut out. */
void faults_let_happen(fleet_node *n);

/* ---- What others do to runs (affairs.c) ---- */

/* A call of a program on an engine, which may be met meanwhile, and die: around it. The second
 * gives 1 if the call may have failed. */
int64_t affairs_begin(fleet_node *n);
int affairs_end(fleet_node *n, int64_t hits, pawl_code rc);

void affairs_start(fleet *f, fleet_node *n, int number);
void affairs_mail(fleet *f);
void affairs_hold(fleet *f, fleet_node *n, fleet_run *run); /* or release it; NULL: any run */
void affairs_release(fleet *f, fleet_node *n, fleet_run *run);
void affairs_steal(fleet *f);
void affairs_give_back(fleet *f); /* what was stolen and has no owner still */

/* ---- What its work functions do (works.c) ---- */

/* Register the workflow and its work with an engine. */
void works_register(fleet_node *n);

/* ---- Looking (watch.c) ---- */

/* What the row of a run says. Texts are good until the next one is read. */
typedef struct watch_row {
    int found;
    int64_t key, phase, held, owner, fence, wake_ms, created_ms, generation, claims;
    int wakes;
    const char *output, *error, *reason, *status;
    int64_t status_seq;
    int64_t tried; /* bytes that say which builds have tried it in vain */
} watch_row;

watch_row watch_read(fleet *f, const fleet_run *run);
int64_t watch_rows(fleet *f, int64_t key); /* seq of the last row of its journal; 0: it has none */

/* Is all as it should be, while they work? */
void watch_look(fleet *f);

/* All nodes have found nothing to do: is a run due all the same? */
void watch_quiet(fleet *f);

/* May it be a run that is let out alone? */
int watch_is_quarantined(const fleet *f, const fleet_run *run);

/* A node has died, just now, and was called by this number. */
void watch_death(fleet *f, const fleet_node *n, int64_t id);

/* A run of that number and key is about to be executed, under this fence. */
void watch_execution(fleet_node *n, int number, int64_t key, int64_t fence);
void watch_dialog_execution(fleet_node *n, int number, int64_t fence); /* -1: of a child */

/* When the next run is due, in the database's time; INT64_MAX: none. */
int64_t watch_due(fleet *f);

/* ---- What must go on (liveness.c) ---- */

/* All threads wait, and time passes. */
void liveness_rest(fleet *f, int64_t ms);

/* All threads wait: is something left in a queue? */
void liveness_of_queues(fleet *f);

/* Nothing goes wrong any more: start something that must be done at once; is all driven that is
 * due? */
void liveness_probe(fleet *f, fleet_node *n);
void liveness_look(fleet *f);

/* The same while things go wrong, of nodes that serve and that nothing happens to for a while. */
void liveness_storm(fleet *f, fleet_node *n);
void liveness_calm(fleet *f); /* from now on all nodes are looked at */

/* All have ended: a run whose workflow no node has is held, and can be cancelled. 0: it was. */
int liveness_orphan(fleet *f, fleet_node *n);

/* ---- The last part (neighbours.c) ---- */

void neighbours_register(fleet_node *n);
void neighbours(fleet *f);

/* ---- And the one after it (refused.c) ---- */

void refused_register(fleet_node *n);
void refused(fleet *f);

/* ---- Judging (judge.c) ---- */

/* All runs have ended: is everything as it should be? */
void judge_end(fleet *f);

#endif
