/* SHA-256 as the standard has it, for whole bytes. It is here so that libpawl needs no library for
 * one function; nothing that it hashes is secret, so it need not run in constant time. */
#include "base/digest.h"

#include <string.h>

static const uint32_t K[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotate_right(uint32_t x, int by)
{
    return (x >> by) | (x << (32 - by));
}

static uint32_t load(const unsigned char *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void store(unsigned char *p, uint32_t x)
{
    p[0] = (unsigned char)(x >> 24);
    p[1] = (unsigned char)(x >> 16);
    p[2] = (unsigned char)(x >> 8);
    p[3] = (unsigned char)x;
}

static void add_block(digest *d, const unsigned char *block)
{
    uint32_t w[64], s[8];
    for (int i = 0; i < 16; i++)
        w[i] = load(block + (size_t)i * 4);
    for (int i = 16; i < 64; i++) {
        uint32_t a = w[i - 15], b = w[i - 2];
        w[i] = w[i - 16] + (rotate_right(a, 7) ^ rotate_right(a, 18) ^ a >> 3) + w[i - 7] +
               (rotate_right(b, 17) ^ rotate_right(b, 19) ^ b >> 10);
    }
    memcpy(s, d->state, sizeof s);
    for (int i = 0; i < 64; i++) {
        uint32_t e = s[4], a = s[0];
        uint32_t t1 = s[7] + (rotate_right(e, 6) ^ rotate_right(e, 11) ^ rotate_right(e, 25)) +
                      ((e & s[5]) ^ (~e & s[6])) + K[i] + w[i];
        uint32_t t2 = (rotate_right(a, 2) ^ rotate_right(a, 13) ^ rotate_right(a, 22)) +
                      ((a & s[1]) ^ (a & s[2]) ^ (s[1] & s[2]));
        memmove(s + 1, s, sizeof s - sizeof s[0]);
        s[4] += t1;
        s[0] = t1 + t2;
    }
    for (int i = 0; i < 8; i++)
        d->state[i] += s[i];
}

void digest_begin(digest *d)
{
    static const uint32_t FIRST[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    memcpy(d->state, FIRST, sizeof FIRST);
    d->bytes = 0;
}

void digest_add(digest *d, slice s)
{
    const unsigned char *at = (const unsigned char *)s.at;
    size_t left = s.size, have = d->bytes % sizeof d->block;
    d->bytes += s.size;
    if (have > 0 && have + left >= sizeof d->block) {
        size_t more = sizeof d->block - have;
        memcpy(d->block + have, at, more);
        add_block(d, d->block);
        at += more;
        left -= more;
        have = 0;
    }
    for (; have == 0 && left >= sizeof d->block; left -= sizeof d->block, at += sizeof d->block)
        add_block(d, at);
    if (left > 0)
        memcpy(d->block + have, at, left);
}

void digest_end(digest *d, unsigned char out[DIGEST_SIZE])
{
    static const char PAD[64] = {(char)0x80};
    unsigned char bits[8];
    size_t have = d->bytes % 64;
    store(bits, (uint32_t)(d->bytes >> 29));
    store(bits + 4, (uint32_t)(d->bytes << 3));
    digest_add(d, (slice){PAD, have < 56 ? 56 - have : 120 - have});
    digest_add(d, (slice){(const char *)bits, sizeof bits});
    for (int i = 0; i < 8; i++)
        store(out + (size_t)i * 4, d->state[i]);
}
