/* Births: the rows with which a run begins, whoever starts it: a client, another run, the outbox.
 *
 * A run that is started where it can be driven at once is inserted already owned by this node, and
 * is in the hands of a runner without ever having been looked for:
 *
 *     owner = birth_owner(d, &b);        this node, or nobody
 *     birth_write(u, &b, 1); commit
 *     if it was made: birth_drive(d, &b) for an owner, otherwise wake whoever may claim it
 *     birth_let_in(d), if there was an owner, in any case
 *
 * Between the first and the last this node does not go. */
#ifndef CORE_BIRTH_H
#define CORE_BIRTH_H

#include "core/attributes.h"
#include "core/drive.h"

typedef struct birth {
    int64_t run; /* a fresh key */
    slice tenant;
    slice id;
    slice workflow;
    slice version; /* empty: the first claim decides */
    slice input;
    int64_t owner; /* 0: nobody */
    int64_t now_ms;
    int64_t wake_ms;     /* not before */
    int64_t deadline_ms; /* 0: none */
    slice by;
    const attribute_set *attributes;
    int64_t mail;         /* arrivals that are written with it: run_put_mail(), from seq 1 */
    const workflow *here; /* the function, if this process has it; NULL: it does not */
    int64_t parent;       /* the run that starts it; 0: none … */
    int64_t parent_generation;
    int64_t parent_op; /* … and by which op */
} birth;

/* Add the rows of a new run to a unit. As a guard, "id", a run of that id refuses the unit, and
 * these are the columns of what was found: the workflow, and the input of the first generation.
 * Otherwise the run is merely tried (unit_try), and where there is one of that id nothing of this
 * is written. Gives the number of the statement whose row, with the run's key, says that the run
 * was made. */
enum { BIRTH_WORKFLOW, BIRTH_INPUT };

int birth_write(unit *u, const birth *b, int as_guard);

/* Is what was found there what is being started? */
int birth_is_same(const birth *b, const unit_row *found);

/* Fills in `owner`: this node if it can drive the run at once, otherwise nobody. An owner does not
 * go before birth_let_in(), which is to be called if there is one. */
int64_t birth_owner(drive *d, birth *b);
void birth_let_in(drive *d);

/* The run was made, and is ours: a runner gets it. */
void birth_drive(drive *d, const birth *b);

#endif
