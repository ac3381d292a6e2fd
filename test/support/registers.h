/* Checks that all registers on which a caller may rely survive a call. Compilers use only some of
 * them, and not always the same ones, so this is written in assembly, for x86-64 and arm64. */
#ifndef SUPPORT_REGISTERS_H
#define SUPPORT_REGISTERS_H

#include <stdint.h>

/* Fills the registers with numbers that follow from `seed`, and calls fn(arg). Returns 0 if none
 * has changed. On other processors no register is checked, and 0 is returned. */
uint64_t registers_changed_by(void (*fn)(void *arg), void *arg, uint64_t seed);

#endif
