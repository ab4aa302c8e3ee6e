/* fuzz_tokenizer.c - input: tokenizer.json of byte-level BPE, then (after a NUL byte) a
 * text. Whatever is taken encodes the text and gives it back in normal form. */
#include "fuzz.h"

#include <string.h>

#include "text/tokenizer/tokenizer_internal.h"

#define TEXT_MAX 400 /* enough for long pieces; more only costs time */

/* Of the steps of a pattern, or of the bytes of a text in normal form. */
static int met_bound(void)
{
    return strstr(sr1_last_error(), "steps") ||
           strstr(sr1_last_error(), "in normal form: longer than");
}

/* The text as encoding sees it. */
static void expected(const sr1_tokenizer *t, const char *text, size_t n,
                     struct sr1__buf *out)
{
    struct sr1__buf repaired, room[2];

    sr1__buf_init(&room[0], 0);
    sr1__buf_init(&room[1], 0);
    FUZZ_CHECK(sr1__utf8_checked(&text, &n, &repaired) == SR1_OK);
    FUZZ_CHECK(sr1__normalizer_run(&t->normaliser, room, &text, &n, 0) == SR1_OK ||
               met_bound());
    sr1__buf_add(out, text, n);
    sr1__buf_free(&repaired);
    sr1__buf_free(&room[0]);
    sr1__buf_free(&room[1]);
}

static void round_trip(const sr1_tokenizer *t, const char *text, size_t n)
{
    struct sr1__ids ids = {0};
    struct sr1__buf want, got;

    sr1__buf_init(&want, 0);
    sr1__buf_init(&got, 0);
    expected(t, text, n, &want);
    /* A pattern may be refused for the steps it takes. */
    if (sr1__tokenizer_encode(t, text, n, SR1_ENCODE_ADDED_AS_TEXT, &ids) == SR1_OK) {
        FUZZ_CHECK(sr1__tokenizer_decode(t, ids.v, ids.n, 0, &got) == SR1_OK);
        FUZZ_CHECK(want.len == got.len);
        FUZZ_CHECK(got.len == 0 || memcmp(want.data, got.data, got.len) == 0);
        ids.n = 0;
        FUZZ_CHECK(sr1__tokenizer_encode(t, text, n, SR1_ENCODE_ALL_ADDED, &ids) ==
                       SR1_OK ||
                   met_bound());
    }
    sr1__ids_free(&ids);
    sr1__buf_free(&want);
    sr1__buf_free(&got);
}

/* Text alone goes through this one: Qwen's pattern and NFC over bare bytes. */
static sr1_tokenizer *bytes_only(void)
{
    static sr1_tokenizer *t;
    struct sr1__buf b;

    if (t)
        return t;
    sr1__buf_init(&b, 0);
    sr1__buf_str(&b, "{\"normalizer\": {\"type\": \"NFC\"}, \"decoder\": {\"type\": "
                     "\"ByteLevel\"}, \"pre_tokenizer\": {\"type\": \"ByteLevel\", "
                     "\"add_prefix_space\": false}, \"added_tokens\": [{\"id\": 257, "
                     "\"content\": \"<a>\"}, {\"id\": 258, \"content\": \"<a><b>\"}], "
                     "\"model\": {\"type\": \"BPE\", \"vocab\": {");
    for (int i = 0; i < 256; i++)
        sr1__buf_fmt(&b, "\"\\u%04x\": %d, ", sr1__byte_char((unsigned char)i), i);
    sr1__buf_str(&b, "\"ab\": 256}, \"merges\": [\"a b\"]}}");
    FUZZ_CHECK(sr1__tokenizer_parse(&t, b.data, b.len, "bytes") == SR1_OK);
    sr1__buf_free(&b);
    return t;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *json = (const char *)data;
    const char *nul = size ? memchr(json, '\0', size) : NULL;
    size_t n_json = nul ? (size_t)(nul - json) : size;
    const char *text = nul ? nul + 1 : json;
    size_t n_text = nul ? size - n_json - 1 : size;
    sr1_tokenizer *t = NULL;

    n_text = n_text < TEXT_MAX ? n_text : TEXT_MAX;
    round_trip(bytes_only(), text, n_text);
    if (sr1__tokenizer_parse(&t, json, n_json, "fuzz") == SR1_OK && t->model->alphabet)
        round_trip(t, text, n_text);
    sr1_tokenizer_free(t);
    return 0;
}
