/* fuzz_csv.c - every record that reads writes back to a record that reads equal. */
#include "fuzz.h"

#include "text/data/csv.h"

#include <string.h>

static void same_again(const struct sr1__csv_record *a)
{
    static struct sr1__csv_record b;
    struct sr1__buf text;
    size_t used;

    sr1__csv_record_init(&b);
    sr1__buf_init(&text, 0);
    for (size_t i = 0; i < a->n; i++) {
        size_t n;
        const char *field = sr1__csv_field(a, i, &n);

        sr1__csv_add(&text, field, n, i == 0);
    }
    sr1__csv_end(&text);
    FUZZ_CHECK(sr1__csv_parse(&b, text.data, text.len, &used, "again") == SR1_OK);
    FUZZ_CHECK(used == text.len && b.n == a->n && b.text.len == a->text.len);
    FUZZ_CHECK(memcmp(a->ends, b.ends, a->n * sizeof *a->ends) == 0);
    FUZZ_CHECK(a->text.len == 0 || memcmp(a->text.data, b.text.data, a->text.len) == 0);
    sr1__buf_free(&text);
    sr1__csv_record_free(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct sr1__csv_record r;
    const char *s = (const char *)data;
    size_t used = 0;

    sr1__csv_record_init(&r);
    while (size > 0 && sr1__csv_parse(&r, s, size, &used, "fuzz") == SR1_OK) {
        FUZZ_CHECK(used > 0 && used <= size);
        same_again(&r);
        s += used;
        size -= used;
    }
    sr1__csv_record_free(&r);
    return 0;
}
