/* The outbox fixture: an engine that is driven by hand, and an application with a
 * table and a connection of its own, which starts runs and sends messages in its transactions. The
 * workflow "waiting" sleeps for a second and "quick" does not; both give their input. */
#ifndef SUPPORT_OUTBOX_FIXTURE_H
#define SUPPORT_OUTBOX_FIXTURE_H

#include "support/app.h"
#include "support/engine_fixture.h"

typedef struct outbox_fixture {
    engine_fixture *s;
    pawl *p;
    app *a;
} outbox_fixture;

outbox_fixture outbox_fixture_open(conf *c);
void outbox_fixture_close(outbox_fixture *x);

pawl_workflow_fn outbox_fixture_quick;

/* Returns the number of rows of a table for which the condition holds. */
int64_t outbox_fixture_rows(pawl *p, const char *table, const char *where);

#define LEFT(x) outbox_fixture_rows((x).p, "{outbox}", "failed = 0")
#define MESSAGES(x) outbox_fixture_rows((x).p, "{inbox}", "kind = 1")

/* ---- Calls of the application ---- */

#define BEGIN(x) app_do((x).a, "BEGIN")
#define COMMIT(x) app_do((x).a, "COMMIT")
#define FLUSH(x) FIXTURE_CODE((x).s, (x).p, pawl_outbox_flush((x).p), PAWL_OK)

/* Start a run, or send a message, in the application's transaction, and expect this code. They
 * return `created` for a start, and the number of the message for a message. */
#define START_IN(x, workflow, id, input, code)                                                     \
    outbox_fixture_start_in(&(x), workflow, id, input, code, __LINE__)
#define SEND_IN(x, id, message, key, code)                                                         \
    outbox_fixture_send_in(&(x), id, message, key, code, __LINE__)
int64_t outbox_fixture_start_in(outbox_fixture *x, const char *workflow, const char *id,
                                const char *input, pawl_code wanted, int line);
int64_t outbox_fixture_send_in(outbox_fixture *x, const char *id, const char *message,
                               const char *key, pawl_code wanted, int line);

#endif
