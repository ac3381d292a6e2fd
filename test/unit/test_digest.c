/* SHA-256: the examples of the standard, and that it does not matter in which pieces it is told
 * something. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/digest.h"

static void in_pieces(slice text, size_t piece, char out[2 * DIGEST_SIZE + 1])
{
    unsigned char bytes[DIGEST_SIZE];
    digest d;
    digest_begin(&d);
    for (size_t at = 0; at < text.size; at += piece) {
        size_t left = text.size - at;
        digest_add(&d, (slice){text.at + at, left < piece ? left : piece});
    }
    digest_end(&d, bytes);
    for (size_t i = 0; i < DIGEST_SIZE; i++)
        snprintf(out + 2 * i, 3, "%02x", bytes[i]);
}

static void the_standards_examples(void **state)
{
    static const struct {
        const char *text, *digest;
    } EXAMPLES[] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    };
    char out[2 * DIGEST_SIZE + 1];
    (void)state;
    for (size_t i = 0; i < sizeof EXAMPLES / sizeof EXAMPLES[0]; i++) {
        in_pieces(slice_of(EXAMPLES[i].text), 1000, out);
        assert_string_equal(out, EXAMPLES[i].digest);
    }
}

static void a_million_letters(void **state)
{
    static char text[1000000];
    char out[2 * DIGEST_SIZE + 1];
    (void)state;
    memset(text, 'a', sizeof text);
    in_pieces((slice){text, sizeof text}, 777, out);
    assert_string_equal(out, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

/* Around the ends of blocks, in pieces of every size. */
static void pieces_do_not_matter(void **state)
{
    char text[200], whole[2 * DIGEST_SIZE + 1], out[2 * DIGEST_SIZE + 1];
    (void)state;
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)(i * 7);
    for (size_t size = 0; size <= sizeof text; size++) {
        in_pieces((slice){text, size}, sizeof text, whole);
        for (size_t piece = 1; piece < 70; piece += 3) {
            in_pieces((slice){text, size}, piece, out);
            assert_string_equal(out, whole);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_standards_examples),
        cmocka_unit_test(a_million_letters),
        cmocka_unit_test(pieces_do_not_matter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
