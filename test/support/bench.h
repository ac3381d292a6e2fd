/* A bench for units: a database, and one committer that is driven by hand, so that a test says what
 * is in a batch. */
#ifndef SUPPORT_BENCH_H
#define SUPPORT_BENCH_H

#include "support/conf.h"

typedef struct bench {
    db *db;
    committer *k;
} bench;

bench bench_open(const conf *c);
void bench_close(bench *b);

/* Hand in all and commit them in one batch. */
void bench_batch(bench *b, conf_ticket *tickets, size_t count);

/* For statements: a text, and an array with its length. */
#define NAME(text) db_text(SLICE_LIT(text))
#define VALUES(...) (db_value[]){__VA_ARGS__}, DB_COUNT(((db_value[]){__VA_ARGS__}))

#endif
