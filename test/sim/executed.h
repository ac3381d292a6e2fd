/* The last execution of an attempt: by which node, and whether what it gave may be lost.
 *
 * What a live process has executed is recorded by it. It is lost if the process dies, is shut out
 * by others, or is stopped and the work function takes longer than the drain; by nothing else. A
 * cancel has a drain too. */
#ifndef SIM_EXECUTED_H
#define SIM_EXECUTED_H

#include <stdint.h>

struct fleet;
struct fleet_node;

typedef struct executed {
    int by;         /* index of the node */
    int64_t faults; /* how many it had had */
    int driven;     /* how often its node had been driven to an end */
    int inside;     /* it is being executed still */
    int late;       /* it took longer than the drain of a stop, or of a cancel */
    int64_t began_ns;
    int64_t id; /* by which the node was called */
    int begun;  /* how often its node had begun to be driven */
} executed;

/* Around it. */
void executed_begin(executed *e, const struct fleet_node *n);
void executed_end(executed *e, struct fleet_node *n);

int executed_may_be_lost(const executed *e, struct fleet *f);

/* The same of anything that a node had when it had been driven `begun` times. */
int executed_was_left(int begun, const struct fleet_node *n);

/* The same of anything that a node had under this id. */
int executed_was_shut_out(int64_t id, struct fleet_node *n);

#endif
