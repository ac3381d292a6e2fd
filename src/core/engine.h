/* What the rest of the engine may ask of its handle. The handle itself is known to engine.c only,
 * so that there is one place where it is made, checked and taken apart. */
#ifndef CORE_ENGINE_H
#define CORE_ENGINE_H

#include "base/error.h"

/* The answer of the public function `what` that is declared but not built: PAWL_UNSUPPORTED, with
 * a message for the calling thread; PAWL_INVALID without a handle. */
pawl_code engine_unsupported(pawl *p, const char *what);

#endif
