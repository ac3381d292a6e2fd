/* An id is put together byte by byte, as RFC 9562 draws it, so it does not depend on the byte
 * order of the machine. A time that has no 48-bit form becomes the nearest that has one: an id
 * that sorts at an end is better than one that sorts anywhere. */
#include "base/id.h"

#include <stddef.h>

#define ID_BYTES 16
#define TIME_BYTES 6
#define LAST_TIME ((INT64_C(1) << 48) - 1)

static void write_hex(char *out, const unsigned char *bytes)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < ID_BYTES; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10)
            *out++ = '-';
        *out++ = digits[bytes[i] >> 4];
        *out++ = digits[bytes[i] & 15];
    }
    *out = '\0';
}

int id_uuid7(char out[ID_TEXT_SIZE], int64_t now_ms, random_source *random)
{
    unsigned char bytes[ID_BYTES];
    if (random->fill(random, bytes + TIME_BYTES, ID_BYTES - TIME_BYTES) != 0)
        return -1;
    int64_t time = now_ms < 0 ? 0 : now_ms > LAST_TIME ? LAST_TIME : now_ms;
    for (size_t i = 0; i < TIME_BYTES; i++)
        bytes[i] = (unsigned char)((time >> (8 * (TIME_BYTES - 1 - i))) & 0xFF);
    bytes[6] = (unsigned char)(0x70 | (bytes[6] & 0x0F)); /* version 7 */
    bytes[8] = (unsigned char)(0x80 | (bytes[8] & 0x3F)); /* the variant of the RFC */
    write_hex(out, bytes);
    return 0;
}
