/* Results of several rounds: kept by name, and printed twice, as a JSON line and for the eye.
 *
 * Figures with a floor have "value", "floor" and "ratio"; other keys follow in the order in which
 * they were first set. Of all of them the median of the rounds is printed, and of "ratio" (or else
 * of "value") each round too. */
#ifndef BENCH_REPORT_H
#define BENCH_REPORT_H

#include "backend.h"

enum { REPORT_ROUNDS = 5, REPORT_KEYS = 32 };

typedef struct report_key {
    const char *name;
    int digits;
    double at[REPORT_ROUNDS];
} report_key;

typedef struct report {
    const char *bench;
    const char *name;
    const char *in; /* the unit of "value" */
    const backend *on;
    int rounds;
    int count;
    report_key keys[REPORT_KEYS];
} report;

/* How many rounds there are to be: REPORT_ROUNDS, or fewer by $PAWL_BENCH_ROUNDS. */
int report_rounds(void);

/* The number of runs of a case that has many: `usual`, or what $PAWL_BENCH_RUNS says. */
int report_runs(int usual);

/* The option at_risk_max of all engines that are measured: 0, or what $PAWL_BENCH_AT_RISK says. */
int64_t report_at_risk(void);

void report_set(report *r, int round, const char *key, double value, int digits);

/* Print it; `note`, if not NULL, is a line below for the eye. */
void report_print(const report *r, const char *note);

#endif
