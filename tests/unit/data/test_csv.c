/* CSV: RFC 4180 in and out, what is refused, every truncation. */
#include "../../support/torture.h"

#include "text/data/csv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct sr1__csv_record record;

/* Fields joined by '|'; or a part of the error. used: bytes taken. */
static const struct {
    const char *text;
    size_t n; /* 0: strlen */
    const char *expected;
    size_t used;
    sr1_status status;
} cases[] = {
    {"a,b,c\n", 0, "a|b|c", 6, SR1_OK},
    {"a,b\r\nc", 0, "a|b", 5, SR1_OK},
    {"a,b", 0, "a|b", 3, SR1_OK},
    {"a,b\r", 0, "a|b", 4, SR1_OK},
    {",\n", 0, "|", 2, SR1_OK},
    {"\n", 0, "", 1, SR1_OK},
    {"\"\"\n", 0, "", 3, SR1_OK},
    {"\"a,b\",\"c \"\"d\"\" e\"\n", 0, "a,b|c \"d\" e", 18, SR1_OK},
    {"\"two\r\nlines\",x\n", 0, "two\r\nlines|x", 15, SR1_OK},
    {" a , b \n", 0, " a | b ", 8, SR1_OK},
    {"\"a", 0, "field 1 opens a quote", 0, SR1_E_PARSE},
    {"x,\"a\"\"", 0, "field 2 opens a quote", 0, SR1_E_PARSE},
    {"x,\"a\"b\n", 0, "field 2 has text after", 0, SR1_E_PARSE},
    {"x,a\"b\n", 0, "field 2 has a quote inside", 0, SR1_E_PARSE},
    {"a\rb\n", 0, "field 1 has a carriage return", 0, SR1_E_PARSE},
    {"a,\0b\n", 5, "field 2 holds a NUL", 0, SR1_E_PARSE},
    {"\"\0\"\n", 4, "field 1 holds a NUL", 0, SR1_E_PARSE},
};

static void joined(char *out, size_t size)
{
    size_t at = 0;

    out[0] = '\0';
    for (size_t i = 0; i < record.n; i++) {
        size_t n;
        const char *field = sr1__csv_field(&record, i, &n);

        at +=
            (size_t)snprintf(out + at, size - at, "%s%.*s", i ? "|" : "", (int)n, field);
    }
}

static void records(void **state)
{
    char got[256];

    (void)state;
    sr1__csv_record_init(&record);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t used = 0;
        size_t n = cases[i].n ? cases[i].n : strlen(cases[i].text);
        sr1_status status = sr1__csv_parse(&record, cases[i].text, n, &used, "t.csv:1");

        if (status != cases[i].status || used != cases[i].used)
            fail_msg("case %zu: %d, %zu used: %s", i, (int)status, used,
                     sr1_last_error());
        joined(got, sizeof got);
        if (status != SR1_OK)
            assert_int_equal(strncmp(sr1_last_error(), "t.csv:1: ", 9), 0);
        if (status == SR1_OK)
            assert_string_equal(got, cases[i].expected);
        else
            assert_non_null(strstr(sr1_last_error(), cases[i].expected));
    }
    sr1__csv_record_free(&record);
}

static void bounds(void **state)
{
    size_t n = SR1__CSV_MAX_FIELD + 1, used;
    char *big = malloc(n);

    (void)state;
    memset(big, 'x', n);
    sr1__csv_record_init(&record);
    assert_int_equal(sr1__csv_parse(&record, big, n - 1, &used, "t"), SR1_OK);
    assert_int_equal(sr1__csv_parse(&record, big, n, &used, "t"), SR1_E_LIMIT);
    assert_non_null(strstr(sr1_last_error(), "longer than 4 MiB"));
    memset(big, ',', n);
    assert_int_equal(sr1__csv_parse(&record, big, SR1__CSV_MAX_FIELDS - 1, &used, "t"),
                     SR1_OK);
    assert_int_equal(record.n, SR1__CSV_MAX_FIELDS);
    assert_int_equal(sr1__csv_parse(&record, big, SR1__CSV_MAX_FIELDS, &used, "t"),
                     SR1_E_LIMIT);
    sr1__csv_record_free(&record);
    free(big);
}

static void writes_what_reads_back(void **state)
{
    static const char *const fields[] = {"plain",      "",   "a,b", "say \"hi\"",
                                         "two\nlines", "\"", "\r"};
    struct sr1__buf b;
    size_t used, n;

    (void)state;
    sr1__buf_init(&b, 0);
    sr1__csv_record_init(&record);
    for (size_t first = 0; first < 7; first++) {
        sr1__buf_clear(&b);
        for (size_t i = first; i < 7; i++)
            sr1__csv_add(&b, fields[i], strlen(fields[i]), i == first);
        sr1__csv_end(&b);
        assert_int_equal(sr1__csv_parse(&record, b.data, b.len, &used, "t"), SR1_OK);
        assert_int_equal(used, b.len);
        assert_int_equal(record.n, 7 - first);
        for (size_t i = first; i < 7; i++) {
            const char *field = sr1__csv_field(&record, i - first, &n);

            assert_int_equal(n, strlen(fields[i]));
            assert_memory_equal(field, fields[i], n);
        }
    }
    sr1__buf_clear(&b);
    sr1__csv_add(&b, "", 0, 1);
    sr1__csv_end(&b);
    assert_string_equal(b.data, "\"\"\r\n"); /* not a blank line */
    sr1__csv_record_free(&record);
    sr1__buf_free(&b);
}

/* Each prefix in an allocation of exactly its size. */
static void every_truncation(void **state)
{
    static const char text[] = "a,\"b \"\"c\"\"\r\n\",d\"e\r\n";

    (void)state;
    sr1__csv_record_init(&record);
    for (size_t n = 0; n < sizeof text; n++) {
        char *cut = sr1__memdup(text, n);
        size_t used = 0;

        (void)sr1__csv_parse(&record, cut, n, &used, "t");
        assert_true(used <= n);
        sr1__free(cut);
    }
    sr1__csv_record_free(&record);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records),
        cmocka_unit_test(bounds),
        cmocka_unit_test(writes_what_reads_back),
        cmocka_unit_test(every_truncation),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
