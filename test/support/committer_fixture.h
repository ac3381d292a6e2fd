/* The committer fixture (type `bench`): a database, and one committer that is driven by hand, so
 * that a test decides which units are in a batch of the group commit. */
#ifndef SUPPORT_COMMITTER_FIXTURE_H
#define SUPPORT_COMMITTER_FIXTURE_H

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
