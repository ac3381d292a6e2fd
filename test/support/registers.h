/* Do all registers survive a call that a function may rely on? A compiler shows only some of them,
 * and which ones depends on its mood, so this is written in assembly, for x86-64 and arm64. */
#ifndef SUPPORT_REGISTERS_H
#define SUPPORT_REGISTERS_H

#include <stdint.h>

/* Fill them with numbers that follow from `seed`, and call fn(arg). 0: all were as before. On other
 * processors nothing is looked at. */
uint64_t registers_changed_by(void (*fn)(void *arg), void *arg, uint64_t seed);

#endif
