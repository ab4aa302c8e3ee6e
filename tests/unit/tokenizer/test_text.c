/* test_text.c - properties of encoding and decoding that need no reference: round trips,
 * whole characters, odd bytes, merging against a naive twin, bounds, threads,
 * allocations. */
#include "support.h"

#include "base/rng.h"
#include "base/utf8.h"
#include "text/tokenizer/nfc.h"
#include "text/tokenizer/tokenizer_internal.h"

#include "../../support/torture.h"

#include <pthread.h>

static void put_random(struct sr1__rng *r, struct sr1__buf *b)
{
    static const uint32_t ranges[][2] = {
        {0, 0x7f},          {0x20, 0x7e},     {0x61, 0x7a},       {0x300, 0x36f},
        {0xa0, 0x17f},      {0x590, 0x6ff},   {0x900, 0xdff},     {0x1100, 0x11ff},
        {0x2000, 0x206f},   {0x3040, 0x30ff}, {0x4e00, 0x9fff},   {0xac00, 0xd7a3},
        {0x1f300, 0x1f6ff}, {0xf900, 0xfaff}, {0x10000, 0x10ffff}};
    static const char *const texts[] = {" ",  "\n", "<|im_end|>", "<think>",
                                        "'s", "12", "the"};
    uint64_t pick = sr1__rng_below(r, 20);
    char utf8[4];
    size_t k;

    if (pick >= 14) {
        sr1__buf_str(b, texts[sr1__rng_below(r, sizeof texts / sizeof texts[0])]);
        return;
    }
    k = sr1__rng_below(r, sizeof ranges / sizeof ranges[0]);
    pick = ranges[k][0] + sr1__rng_below(r, ranges[k][1] - ranges[k][0] + 1);
    sr1__buf_add(b, utf8, (size_t)sr1__utf8_put((uint32_t)pick, utf8));
}

/* decode(encode(x)) is x in normal form, in each mode; streaming gives the same, each
 * time whole characters. */
static void round_trips(void **state)
{
    sr1_tokenizer *t = open_any();
    sr1_token_stream *s = NULL;
    struct sr1__buf text, normal, streamed, decoded;
    struct sr1__ids ids = {0};
    struct sr1__rng r;

    (void)state;
    OK(sr1_token_stream_new(&s, t, 0));
    sr1__rng_seed(&r, 11, 0);
    sr1__buf_init(&text, 0);
    sr1__buf_init(&normal, 0);
    sr1__buf_init(&streamed, 0);
    sr1__buf_init(&decoded, 0);
    for (int i = 0; i < 3000; i++) {
        const char *piece;
        size_t n;

        sr1__buf_clear(&text);
        sr1__buf_clear(&normal);
        sr1__buf_clear(&streamed);
        sr1__buf_clear(&decoded);
        ids.n = 0;
        for (uint64_t k = sr1__rng_below(&r, 30); k > 0; k--)
            put_random(&r, &text);
        OK(sr1__nfc(sr1__buf_cstr(&text), text.len, &normal));
        OK(sr1__tokenizer_encode(t, sr1__buf_cstr(&text), text.len, i % 3, &ids));
        OK(sr1__tokenizer_decode(t, ids.v, ids.n, 0, &decoded));
        assert_same_text(sr1__buf_cstr(&decoded), decoded.len, sr1__buf_cstr(&normal),
                         normal.len, "round trip");
        for (size_t k = 0; k < ids.n; k++) {
            OK(sr1_token_stream_push(s, ids.v[k], &piece, &n));
            assert_true(sr1__utf8_valid(piece, n));
            sr1__buf_add(&streamed, piece, n);
        }
        OK(sr1_token_stream_finish(s, &piece, &n));
        assert_int_equal(n, 0);
        assert_same_text(sr1__buf_cstr(&streamed), streamed.len, sr1__buf_cstr(&normal),
                         normal.len, "stream");
    }
    sr1_token_stream_free(s);
    sr1__ids_free(&ids);
    sr1__buf_free(&text);
    sr1__buf_free(&normal);
    sr1__buf_free(&streamed);
    sr1__buf_free(&decoded);
    sr1_tokenizer_free(t);
}

/* Random ids: what streaming gives adds up to what decoding gives. */
static void streams_any_ids(void **state)
{
    sr1_tokenizer *t = open_any();
    struct sr1__rng r;

    (void)state;
    sr1__rng_seed(&r, 12, 0);
    for (int i = 0; i < 2000; i++) {
        int32_t ids[12];
        size_t n_ids = sr1__rng_below(&r, 13), n = 0;
        uint64_t bound = i % 2 ? 256 : (uint64_t)sr1_tokenizer_vocab_size(t) + 50;
        sr1_token_stream *s = NULL;
        struct sr1__buf all;
        const char *piece;
        char *text = NULL;

        sr1__buf_init(&all, 0);
        OK(sr1_token_stream_new(&s, t, i % 4 == 0));
        for (size_t k = 0; k < n_ids; k++) {
            ids[k] = (int32_t)sr1__rng_below(&r, bound) - (k == 3);
            OK(sr1_token_stream_push(s, ids[k], &piece, &n));
            assert_true(sr1__utf8_valid(piece, n));
            sr1__buf_add(&all, piece, n);
        }
        OK(sr1_token_stream_finish(s, &piece, &n));
        sr1__buf_add(&all, piece, n);
        OK(sr1_tokenizer_decode(t, ids, n_ids, i % 4 == 0, &text, &n));
        assert_same_text(sr1__buf_cstr(&all), all.len, text, n, "stream of ids");
        sr1_free(text);
        sr1__buf_free(&all);
        sr1_token_stream_free(s);
    }
    sr1_tokenizer_free(t);
}

static void odd_bytes_become_replacement_characters(void **state)
{
    static const struct {
        const char *bytes;
        const char *text;
    } cases[] = {
        {"a\xff"
         "b",
         "a\xef\xbf\xbd"
         "b"},
        {"\xe2\x82", "\xef\xbf\xbd"},
        {"\xe2\x82"
         "A",
         "\xef\xbf\xbd"
         "A"},
        {"\xf0\x9f\x98"
         "\xf0\x9f\x98\x80",
         "\xef\xbf\xbd"
         "\xf0\x9f\x98\x80"},
        {"\xc0\xaf", "\xef\xbf\xbd\xef\xbf\xbd"},
        {"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
        {"\x80\xc3", "\xef\xbf\xbd\xef\xbf\xbd"},
    };
    sr1_tokenizer *t = open_any();

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int32_t *ids = NULL;
        char *text = NULL;
        size_t n_ids = 0, n = 0;

        OK(sr1_tokenizer_encode(t, cases[i].bytes, strlen(cases[i].bytes), 0, &ids,
                                &n_ids));
        OK(sr1_tokenizer_decode(t, ids, n_ids, 0, &text, &n));
        assert_same_text(text, n, cases[i].text, strlen(cases[i].text), "odd bytes");
        sr1_free(ids);
        sr1_free(text);
    }
    sr1_tokenizer_free(t);
}

/* The textbook form: the whole piece is searched for the lowest rank before each merge.
 */
static size_t merge_naively(const sr1_tokenizer *t, const char *piece, size_t n,
                            uint32_t *id)
{
    for (size_t i = 0; i < n; i++)
        id[i] = t->byte_id[(unsigned char)piece[i]];
    for (;;) {
        const struct sr1__merge *best = NULL, *m;
        size_t at = 0;

        for (size_t i = 0; i + 1 < n; i++) {
            m = sr1__merges_find(&t->merges, id[i], id[i + 1]);
            if (m && (!best || m->rank < best->rank)) {
                best = m;
                at = i;
            }
        }
        if (!best)
            return n;
        id[at] = best->id;
        memmove(id + at + 1, id + at + 2, (n - at - 2) * sizeof *id);
        n--;
    }
}

/* Letters only: one piece, short and long. */
static void merges_like_the_textbook(void **state)
{
    sr1_tokenizer *t = open_any();
    struct sr1__rng r;

    (void)state;
    sr1__rng_seed(&r, 13, 0);
    for (int i = 0; i < 1500; i++) {
        static const char *const alphabets[] = {"ab", "the", "aeinorst", "ehlnrst", "i"};
        const char *alphabet = alphabets[i % 5];
        char text[300];
        uint32_t want[300];
        size_t n = 1 + sr1__rng_below(&r, i % 7 ? 60 : 299), n_want, n_ids = 0;
        int32_t *ids = NULL;

        for (size_t k = 0; k < n; k++)
            text[k] = alphabet[sr1__rng_below(&r, strlen(alphabet))];
        n_want = merge_naively(t, text, n, want);
        OK(sr1_tokenizer_encode(t, text, n, 0, &ids, &n_ids));
        assert_int_equal(n_ids, n_want);
        assert_memory_equal(ids, want, n_want * sizeof *want);
        sr1_free(ids);
    }
    sr1_tokenizer_free(t);
}

/* A long text encodes as its parts do when they are cut at newlines before letters. */
static void long_texts_encode_as_their_lines(void **state)
{
    sr1_tokenizer *t = open_any();
    struct sr1__buf text;
    struct sr1__ids whole = {0}, lines = {0};

    (void)state;
    OK(sr1__file_read(fixture_path("corpus.txt"), 0, &text));
    OK(sr1__tokenizer_encode(t, text.data, text.len, SR1_ENCODE_ADDED_AS_TEXT, &whole));
    for (size_t from = 0, to = 0; from < text.len; from = to) {
        for (to = from + 1; to < text.len; to++)
            if (text.data[to - 1] == '\n' && text.data[to] >= 'A' && text.data[to] <= 'Z')
                break;
        OK(sr1__tokenizer_encode(t, text.data + from, to - from, SR1_ENCODE_ADDED_AS_TEXT,
                                 &lines));
    }
    assert_same_ids(whole.v, whole.n, &lines, "whole text");
    assert_true(whole.n > 1000);
    sr1__ids_free(&whole);
    sr1__ids_free(&lines);
    sr1__buf_free(&text);
    sr1_tokenizer_free(t);
}

static void normal_form_of(const char *text, const char *want)
{
    struct sr1__buf out;

    sr1__buf_init(&out, 0);
    OK(sr1__nfc(text, strlen(text), &out));
    assert_same_text(sr1__buf_cstr(&out), out.len, want, strlen(want), "normal form");
    if (strcmp(text, want) != 0)
        assert_false(sr1__nfc_quick(text, strlen(text)));
    sr1__buf_free(&out);
}

static void normalises(void **state)
{
    (void)state;
    normal_form_of("", "");
    normal_form_of("e\xcc\x81", "\xc3\xa9");
    /* marks in order of their classes: a 0315 0300 05AE b -> 00E0 05AE 0315 b */
    normal_form_of("a\xcc\x95\xcc\x80\xd6\xae"
                   "b",
                   "\xc3\xa0\xd6\xae\xcc\x95"
                   "b");
    /* Hangul: 1112 1161 11AB -> D55C; U+11A7 is no final */
    normal_form_of("\xe1\x84\x92\xe1\x85\xa1\xe1\x86\xab", "\xed\x95\x9c");
    normal_form_of("\xea\xb0\x80\xe1\x86\xa7", "\xea\xb0\x80\xe1\x86\xa7");
    /* compositions that are excluded, and singletons: 0958 -> 0915 093C, 212B -> 00C5 */
    normal_form_of("\xe0\xa5\x98", "\xe0\xa4\x95\xe0\xa4\xbc");
    normal_form_of("\xe2\x84\xab", "\xc3\x85");
    /* ga: 304B 3099 -> 304C */
    normal_form_of("\xe3\x81\x8b\xe3\x82\x99", "\xe3\x81\x8c");
}

/* A million marks in falling order, a million letters without a break, a million blanks:
 * each is done in moments, not hours. */
static void hostile_texts_take_bounded_time(void **state)
{
    static const char *const units[] = {"\xcc\x95\xcc\x80", "ab", "  ", "\xe2\x80\x8d",
                                        "'"};
    sr1_tokenizer *t = open_any();

    (void)state;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        struct sr1__buf text;
        int32_t *ids = NULL;
        size_t n = 0;

        sr1__buf_init(&text, 0);
        for (int k = 0; k < 500000; k++)
            sr1__buf_str(&text, units[i]);
        OK(sr1_tokenizer_encode(t, text.data, text.len, 0, &ids, &n));
        assert_true(n > 0);
        sr1_free(ids);
        sr1__buf_free(&text);
    }
    sr1_tokenizer_free(t);
}

static void refuses_wrong_arguments(void **state)
{
    sr1_tokenizer *t = open_any();
    int32_t *ids = NULL;
    char *text = NULL;
    size_t n = 0;

    (void)state;
    assert_int_equal(sr1_tokenizer_encode(NULL, "a", 1, 0, &ids, &n), SR1_E_INVALID);
    assert_int_equal(sr1_tokenizer_encode(t, NULL, 1, 0, &ids, &n), SR1_E_INVALID);
    assert_int_equal(sr1_tokenizer_encode(t, "a", 1, 3, &ids, &n), SR1_E_INVALID);
    assert_int_equal(sr1_tokenizer_encode(t, "a", SR1__TEXT_MAX + 1, 0, &ids, &n),
                     SR1_E_LIMIT);
    assert_int_equal(sr1_tokenizer_decode(t, NULL, 1, 0, &text, &n), SR1_E_INVALID);
    assert_int_equal(sr1_token_stream_new(NULL, t, 0), SR1_E_INVALID);
    assert_null(ids);
    assert_null(text);
    OK(sr1_tokenizer_encode(t, NULL, 0, 0, &ids, &n));
    assert_int_equal(n, 0);
    assert_non_null(ids);
    sr1_free(ids);
    assert_int_equal(sr1_tokenizer_token_to_id(t, "no such token"), -1);
    assert_int_equal(sr1_tokenizer_token_to_id(t, "\xc4\xa0"
                                                  "a"),
                     sr1__vocab_find(&t->vocab, " a", 2));
    sr1_tokenizer_free(t);
    sr1_tokenizer_free(NULL);
}

struct encode_job {
    const sr1_tokenizer *t;
    const struct sr1__buf *text;
    struct sr1__ids ids;
    sr1_status status;
};

static void *encode_often(void *arg)
{
    struct encode_job *job = arg;

    for (int i = 0; i < 20 && job->status == SR1_OK; i++) {
        job->ids.n = 0;
        job->status =
            sr1__tokenizer_encode(job->t, job->text->data, job->text->len, 0, &job->ids);
    }
    return NULL;
}

static void threads_share_a_tokenizer(void **state)
{
    sr1_tokenizer *t = open_any();
    struct encode_job jobs[4] = {{0}};
    pthread_t threads[4];
    struct sr1__buf text;

    (void)state;
    OK(sr1__file_read(fixture_path("corpus.txt"), 0, &text));
    for (int i = 0; i < 4; i++) {
        jobs[i] = (struct encode_job){.t = t, .text = &text};
        assert_int_equal(pthread_create(&threads[i], NULL, encode_often, &jobs[i]), 0);
    }
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(jobs[i].status, SR1_OK);
        assert_same_ids(jobs[i].ids.v, jobs[i].ids.n, &jobs[0].ids, "threads");
    }
    for (int i = 0; i < 4; i++)
        sr1__ids_free(&jobs[i].ids);
    sr1__buf_free(&text);
    sr1_tokenizer_free(t);
}

/* Encode (repaired, normalised, short and long pieces), decode and stream. */
static sr1_status use_it(void *arg)
{
    static const char text[] =
        "e\xcc\x81 \xff the thetheththththththththththththththththththththth <|im_end|> "
        "12";
    sr1_tokenizer *t = arg;
    sr1_token_stream *s = NULL;
    int32_t *ids = NULL;
    char *back = NULL;
    const char *piece;
    size_t n = 0, n_text = 0;
    sr1_status status = sr1_tokenizer_encode(t, text, strlen(text), 0, &ids, &n);

    if (status == SR1_OK)
        status = sr1_tokenizer_decode(t, ids, n, 0, &back, &n_text);
    if (status == SR1_OK)
        status = sr1_token_stream_new(&s, t, 0);
    for (size_t i = 0; i < n && status == SR1_OK; i++)
        status = sr1_token_stream_push(s, ids[i], &piece, &n_text);
    sr1_token_stream_free(s);
    sr1_free(ids);
    sr1_free(back);
    return status;
}

static sr1_status chat_it(void *arg)
{
    static const char messages[] =
        "[{\"role\": \"user\", \"content\": \"Who?\"}, {\"role\": \"assistant\"}]";
    sr1_chat_options o = {.struct_size = sizeof o, .add_generation_prompt = 1};
    int32_t *ids = NULL;
    char *text = NULL;
    size_t n = 0;
    sr1_status status = sr1_tokenizer_chat_json(arg, messages, strlen(messages), &o,
                                                &text, NULL, &ids, &n);

    sr1_free(ids);
    sr1_free(text);
    return status;
}

static void survives_failing_allocations(void **state)
{
    sr1_tokenizer *t = open_any();

    (void)state;
    assert_true(torture(use_it, t) > 10);
    assert_true(torture(chat_it, t) > 10);
    sr1_tokenizer_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trips),
        cmocka_unit_test(streams_any_ids),
        cmocka_unit_test(odd_bytes_become_replacement_characters),
        cmocka_unit_test(merges_like_the_textbook),
        cmocka_unit_test(long_texts_encode_as_their_lines),
        cmocka_unit_test(normalises),
        cmocka_unit_test(hostile_texts_take_bounded_time),
        cmocka_unit_test(refuses_wrong_arguments),
        cmocka_unit_test(threads_share_a_tokenizer),
        cmocka_unit_test(survives_failing_allocations),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
