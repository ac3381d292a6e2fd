/* The test kit (pawl_test.h), as the rest of the engine knows it. A handle of pawl_test_open()
 * waits by moving its fake clock, so functions that wait ask here first. */
#ifndef API_TEST_KIT_H
#define API_TEST_KIT_H

#include "base/error.h"

/* Tells whether the handle is one of pawl_test_open(). */
int test_kit_has(pawl *p);

/* Drive such a handle until the run has ended, or `timeout_ms` have gone by on its clock. */
pawl_code test_kit_finish(pawl *p, const char *id, int64_t timeout_ms, pawl_outcome **out,
                          error *err);

#endif
