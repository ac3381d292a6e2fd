/* Engines of the engine fixture that serve although the test drives them by hand
 * (PAWL_TEST_DRIVER=serve). The fixture asks here before it polls or closes an engine. */
#ifndef SUPPORT_ENGINE_FIXTURE_SERVE_H
#define SUPPORT_ENGINE_FIXTURE_SERVE_H

#include <pawl.h>

#include "support/engine_fixture.h"

/* This engine serves from its first serves_until_idle() on, on a thread of its own. */
void serves_add(pawl *p);

/* 0: it is none of those, and is driven by hand. 1: it has nothing to do until its clock moves.
 * When that takes long the clock is moved a little: a commit that has failed is tried again by
 * it. */
int serves_until_idle(engine_fixture *s, pawl *p);

/* Stop it, if it serves. */
void serves_end(pawl *p);

#endif
