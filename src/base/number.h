/* Real numbers as text, the same in every locale.
 *
 * strtod() and printf() write the decimal point of the locale that the application has chosen. A
 * value that is recorded in one process and read in another must not depend on that. */
#ifndef BASE_NUMBER_H
#define BASE_NUMBER_H

#include "base/slice.h"

/* The value of a JSON number. The byte behind it must be readable and not belong to a number, as
 * it is in any JSON text that ends in a NUL. 0, or -1 when it is past the largest double. */
int number_read(slice number, double *out);

#define NUMBER_ROOM 32

/* A JSON number that reads back as the same double, in as few digits as that takes. 0, or -1 for
 * infinities and NaN, which JSON does not have. */
int number_write(double value, char out[NUMBER_ROOM]);

#endif
