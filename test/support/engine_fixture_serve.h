/* Engines of the engine fixture that serve although the test drives them by hand
 * (PAWL_TEST_DRIVER=serve). The fixture asks here before it polls or closes an engine. */
#ifndef SUPPORT_ENGINE_FIXTURE_SERVE_H
#define SUPPORT_ENGINE_FIXTURE_SERVE_H

#include <pawl.h>

#include "support/engine_fixture.h"

/* The engine will serve, on a thread of its own, from its first serves_until_idle() on. */
void serves_add(pawl *p);

/* 0: the engine was not given to serves_add(), and is driven by hand. Otherwise the call waits
 * until the engine has nothing to do before its clock moves, and gives 1. If that takes long, it
 * moves the clock a little every second, since commits that have failed are tried again by that
 * clock. */
int serves_until_idle(engine_fixture *s, pawl *p);

/* Stop the engine and forget it, if it was given to serves_add(). */
void serves_end(pawl *p);

#endif
