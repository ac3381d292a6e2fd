/* The outbox fixture (type `scene`): an engine that is driven by hand, and an application with a
 * table and a connection of its own, which starts runs and sends messages in its transactions. The
 * workflow "waiting" sleeps for a second and "quick" does not; both give their input. */
#ifndef SUPPORT_OUTBOX_FIXTURE_H
#define SUPPORT_OUTBOX_FIXTURE_H

#include "support/app.h"
#include "support/engine_fixture.h"

typedef struct scene {
    stage *s;
    pawl *p;
    app *a;
} scene;

scene scene_open(conf *c);
void scene_close(scene *x);

pawl_workflow_fn scene_quick;

/* So many rows of a table are like this. */
int64_t scene_rows(pawl *p, const char *table, const char *where);

#define LEFT(x) scene_rows((x).p, "{outbox}", "failed = 0")
#define MESSAGES(x) scene_rows((x).p, "{inbox}", "kind = 1")

/* ---- What the application does ---- */

#define BEGIN(x) app_do((x).a, "BEGIN")
#define COMMIT(x) app_do((x).a, "COMMIT")
#define KICK(x) STAGE_CODE((x).s, (x).p, pawl_outbox_flush((x).p), PAWL_OK)

/* In its transaction, with this answer. They give `created`, and the number of the message. */
#define START_IN(x, workflow, id, input, code)                                                     \
    scene_start_in(&(x), workflow, id, input, code, __LINE__)
#define SEND_IN(x, id, message, key, code) scene_send_in(&(x), id, message, key, code, __LINE__)
int64_t scene_start_in(scene *x, const char *workflow, const char *id, const char *input,
                       pawl_code wanted, int line);
int64_t scene_send_in(scene *x, const char *id, const char *message, const char *key,
                      pawl_code wanted, int line);

#endif
