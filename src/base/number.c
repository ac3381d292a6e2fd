/* The thread is switched to the "C" locale for the time of one call. uselocale() touches this
 * thread only, and the C library keeps the "C" locale ready, so that nothing is allocated for it.
 *
 * Fifteen digits are enough for every number that a person has typed, seventeen for any double; so
 * the shortest form is found in three attempts at most. */
#include "base/number.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct spoken {
    locale_t c;
    locale_t before;
    int before_errno;
} spoken;

static int enter_c_locale(spoken *s)
{
    s->before_errno = errno;
    s->c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (s->c == (locale_t)0) {
        errno = s->before_errno;
        return -1;
    }
    s->before = uselocale(s->c);
    return 0;
}

static void restore_locale(spoken *s)
{
    uselocale(s->before);
    freelocale(s->c);
    errno = s->before_errno;
}

int number_read(slice number, double *out)
{
    spoken s;
    if (enter_c_locale(&s) != 0)
        return -1;
    char *end;
    double value = strtod(number.at, &end);
    restore_locale(&s);
    if (end != number.at + number.size || !isfinite(value))
        return -1;
    *out = value;
    return 0;
}

int number_write(double value, char out[NUMBER_ROOM])
{
    spoken s;
    if (!isfinite(value) || enter_c_locale(&s) != 0)
        return -1;
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(out, NUMBER_ROOM, "%.*g", digits, value);
        if (strtod(out, NULL) == value)
            break;
    }
    restore_locale(&s);
    return 0;
}
