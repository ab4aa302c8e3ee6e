/* test_row_scan.c - rows read at once are read as the parser reads them. */
#include "base/json.h"
#include "base/rng.h"
#include "retrieval/search/row_scan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void expect_id(const struct sr1__scanned_row *scanned, const json_t *id)
{
    char digits[32];
    const char *want = digits;

    if (json_is_string(id))
        want = json_string_value(id);
    else
        snprintf(digits, sizeof(digits), "%lld", (long long)json_integer_value(id));
    assert_int_equal(scanned->id_size, strlen(want));
    assert_memory_equal(scanned->id, want, strlen(want));
}

/* Whether it was known; if so, the parser must agree. */
static int scan(const char *text, size_t n, struct sr1__buf *scratch)
{
    char *exact = malloc(n > 0 ? n : 1);
    struct sr1__scanned_row scanned = {0};
    int known = 0;
    json_t *row = NULL;

    memcpy(exact, text, n);
    assert_int_equal(sr1__row_scan(exact, n, scratch, &known, &scanned), SR1_OK);
    if (known) {
        const json_t *contents;
        const json_t *id;

        if (sr1__json_parse(&row, exact, n, "row") != SR1_OK)
            fail_msg("the parser refuses: %.*s", (int)n, text);
        contents = json_object_get(row, "contents");
        id = json_object_get(row, "id");
        assert_true(json_is_string(contents));
        assert_true(json_is_string(id) || json_is_integer(id));
        assert_int_equal(scanned.size, json_string_length(contents));
        assert_memory_equal(scanned.contents, json_string_value(contents), scanned.size);
        expect_id(&scanned, id);
        json_decref(row);
    }
    free(exact);
    return known;
}

static void simple_rows_are_known(void **state)
{
    static const struct {
        const char *text;
        int known;
    } cases[] = {
        {"{\"id\": \"1\", \"contents\": \"Paris\"}", 1},
        {"{\"contents\":\"\",\"id\":-12}", 1},
        {" { \"id\" : 0 , \"url\" : \"x\" , \"contents\" : \"a\\n\\\"b\\\"\\\\\\/\" } ",
         0},
        {"{ \"id\" : 0 , \"url\" : \"x\" , \"contents\" : \"a\\n\\\"b\\\"\\\\\\/\" }", 1},
        {"{\"id\": 1, \"contents\": \"na\xC3\xAFve and much longer than eight\"}", 1},
        {"{\"id\": 1, \"contents\": \"na\xC3\"}", 0},
        {"{\"id\": 1, \"contents\": \"\\u0041\"}", 0},
        {"{\"id\": 1, \"contents\": \"tab\tin it, after eight bytes\"}", 0},
        {"{\"id\": \"a\\/b\", \"contents\": \"x\"}", 0},
        {"{\"id\": -0, \"contents\": \"x\"}", 0},
        {"{\"id\": 1.5, \"contents\": \"x\"}", 0},
        {"{\"id\": 01, \"contents\": \"x\"}", 0},
        {"{\"id\": 1, \"contents\": 3}", 0},
        {"{\"id\": 1}", 0},
        {"{\"contents\": \"x\"}", 0},
        {"{\"id\": 1, \"contents\": \"x\", \"id\": 2}", 0},
        {"{\"id\": 1, \"contents\": \"x\", \"more\": [1]}", 0},
        {"{\"id\": 1, \"contents\": \"x\",}", 0},
        {"{\"id\": 1, \"contents\": \"x\"} x", 0},
        {"{\"id\": 12345678901234567890, \"contents\": \"x\"}", 0},
        {"[]", 0},
        {"", 0},
    };
    struct sr1__buf scratch;

    (void)state;
    sr1__buf_init(&scratch, 0);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (scan(cases[i].text, strlen(cases[i].text), &scratch) != cases[i].known)
            fail_msg("not %d: %s", cases[i].known, cases[i].text);
    }
    sr1__buf_free(&scratch);
}

static void changed_rows_are_read_alike(void **state)
{
    static const char row[] =
        "{\"id\": 17, \"contents\": \"Title\\nand some \\\"text\\\" "
        "na\xC3\xAFve\", \"url\": \"http:\\/\\/x\", \"n\": -3}";
    static const char bytes[] = "\"\\{}:,0123456789.eE+-nul \t\x01\x7F\xC3\xAF/bfnrtu";
    struct sr1__buf scratch;
    struct sr1__rng rng;
    size_t known = 0;

    (void)state;
    sr1__buf_init(&scratch, 0);
    sr1__rng_seed(&rng, 1, 0);
    for (int round = 0; round < 100000; round++) {
        char text[sizeof(row)];
        size_t n = sizeof(row) - 1;
        size_t changes = 1 + sr1__rng_below(&rng, 3);

        memcpy(text, row, sizeof(row));
        for (size_t i = 0; i < changes; i++)
            text[sr1__rng_below(&rng, n)] =
                bytes[sr1__rng_below(&rng, sizeof(bytes) - 1)];
        known += (size_t)scan(text, n, &scratch);
    }
    assert_true(known > 10000 && known < 99000);
    sr1__buf_free(&scratch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(simple_rows_are_known),
        cmocka_unit_test(changed_rows_are_read_alike),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
