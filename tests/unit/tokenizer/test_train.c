/* test_train.c - training gives the kept files byte for byte, and vocabularies that hold
 * what was asked for. (That the reference learns the same merges and gives the same ids
 * is what tests/golden/make_tokenizer_vectors.py and the vectors in test_parity.c show.)
 */
#include "support.h"

#include "../../support/files.h"
#include "../../support/torture.h"

/* The lines of the fixture's corpus. */
struct lines {
    struct sr1__buf text;
    const char *line[512];
    size_t size[512];
    size_t n;
};

static void read_lines(struct lines *l)
{
    char *p, *end;

    memset(l, 0, sizeof *l);
    OK(sr1__file_read(fixture_path("corpus.txt"), 0, &l->text));
    for (p = l->text.data; (end = strchr(p, '\n')) != NULL && l->n < 512; p = end + 1) {
        l->line[l->n] = p;
        l->size[l->n++] = (size_t)(end - p);
    }
}

static void assert_same_file(const char *a, const char *b)
{
    struct sr1__buf x, y;

    OK(sr1__file_read(a, 0, &x));
    OK(sr1__file_read(b, 0, &y));
    assert_same_text(x.data, x.len, y.data, y.len, a);
    sr1__buf_free(&x);
    sr1__buf_free(&y);
}

static void gives_the_kept_files(void **state)
{
    sr1_tokenizer_train_options o = {.struct_size = sizeof o, .vocab_size = 1000};
    struct lines l;

    (void)state;
    read_lines(&l);
    OK(sr1_tokenizer_train(l.line, l.size, NULL, l.n, &o, scratch_path("same")));
    assert_same_file(scratch_path("same/tokenizer.json"),
                     fixture_path("small/tokenizer.json"));
    assert_same_file(scratch_path("same/tokenizer_config.json"),
                     fixture_path("small/tokenizer_config.json"));
    sr1__buf_free(&l.text);
}

static sr1_tokenizer *trained(const char *const *texts, const int64_t *weights, size_t n,
                              const sr1_tokenizer_train_options *o)
{
    sr1_tokenizer *t = NULL;

    OK(sr1_tokenizer_train(texts, NULL, weights, n, o, scratch_path("t")));
    OK(sr1_tokenizer_open(&t, scratch_path("t")));
    return t;
}

static void merges_the_most_frequent_pair(void **state)
{
    const char *texts[] = {"ab ab ab", "cd cd", "xy"};
    sr1_tokenizer_train_options o = {.struct_size = sizeof o, .vocab_size = 2000};
    sr1_tokenizer *t = trained(texts, NULL, 3, &o);

    (void)state;
    /* ab 3, " ab" 2 after it; cd 2, " c"... 1; xy only once */
    assert_int_equal(sr1_tokenizer_token_to_id(t, "ab"), 256);
    assert_int_equal(sr1_tokenizer_token_to_id(t, "cd"), 257);
    assert_int_equal(sr1_tokenizer_token_to_id(t, "\xc4\xa0"
                                                  "ab"),
                     258);
    assert_int_equal(sr1_tokenizer_token_to_id(t, "xy"), -1);
    assert_int_equal(sr1_tokenizer_vocab_size(t), 259 + 9);
    assert_int_equal(sr1_tokenizer_special_id(t, SR1_TOKEN_ENDOFTEXT), 259);
    assert_int_equal(sr1_tokenizer_special_id(t, SR1_TOKEN_EOS), 261);
    assert_int_equal(sr1_tokenizer_special_id(t, SR1_TOKEN_PAD), 259);
    assert_string_equal(sr1_tokenizer_chat_family(t), "chatml-think");
    sr1_tokenizer_free(t);
}

static void weighs_texts(void **state)
{
    const char *texts[] = {"ab", "cd"};
    const int64_t weights[] = {0, 5};
    sr1_tokenizer_train_options o = {.struct_size = sizeof o};
    sr1_tokenizer *t = trained(texts, weights, 2, &o);

    (void)state;
    assert_int_equal(sr1_tokenizer_token_to_id(t, "cd"), 256);
    assert_int_equal(sr1_tokenizer_token_to_id(t, "ab"), -1);
    sr1_tokenizer_free(t);
}

/* Added tokens are not learnt from, and are found again. */
static void keeps_added_tokens_whole(void **state)
{
    static const char *const special[] = {"<|pad|>"};
    static const char *const other[] = {"<search>", "\"q\\\xc3\xa9 "};
    const char *texts[] = {"<search>x</search> <search>x</search> <search>"};
    sr1_tokenizer_train_options o = {.struct_size = sizeof o,
                                     .special_tokens = special,
                                     .n_special_tokens = 1,
                                     .added_tokens = other,
                                     .n_added_tokens = 2};
    sr1_tokenizer *t = trained(texts, NULL, 1, &o);
    int32_t search = sr1_tokenizer_token_to_id(t, "<search>"), *ids = NULL;
    char *text = NULL;
    size_t n = 0;

    (void)state;
    OK(sr1_tokenizer_encode(t, "<search>\"q\\\xc3\xa9 <|pad|>", 21, 0, &ids, &n));
    assert_int_equal(n, 3);
    assert_int_equal(ids[0], search);
    OK(sr1_tokenizer_decode(t, ids, n, 1, &text, &n));
    assert_string_equal(text, "<search>\"q\\\xc3\xa9 ");
    assert_true(sr1_tokenizer_token_to_id(t, "</search") >= 0 ||
                sr1_tokenizer_token_to_id(t, "search") >= 0);
    assert_int_equal(sr1_tokenizer_token_to_id(t, "<search"), -1);
    sr1_free(ids);
    sr1_free(text);
    sr1_tokenizer_free(t);
}

static void refuses_wrong_options(void **state)
{
    static const char *const twice[] = {"<a>", "<a>"};
    const char *texts[] = {"a"};
    const int64_t weights[] = {-1};
    sr1_tokenizer_train_options o = {.struct_size = sizeof o, .vocab_size = 264};
    const char *to = scratch_path("none");

    (void)state;
    assert_int_equal(sr1_tokenizer_train(texts, NULL, NULL, 1, &o, to), SR1_E_INVALID);
    o.vocab_size = 0;
    o.min_frequency = -1;
    assert_int_equal(sr1_tokenizer_train(texts, NULL, NULL, 1, &o, to), SR1_E_INVALID);
    o.min_frequency = 0;
    assert_int_equal(sr1_tokenizer_train(texts, NULL, weights, 1, &o, to), SR1_E_INVALID);
    o.added_tokens = twice;
    o.n_added_tokens = 2;
    assert_int_equal(sr1_tokenizer_train(texts, NULL, NULL, 1, &o, to), SR1_E_PARSE);
    o.struct_size = 0;
    assert_int_equal(sr1_tokenizer_train(texts, NULL, NULL, 1, &o, to), SR1_E_INVALID);
    assert_int_equal(sr1_tokenizer_train(NULL, NULL, NULL, 1, NULL, to), SR1_E_INVALID);
    assert_false(sr1__path_exists(to));
}

/* Same text doubled again and again: tokens stay below their limit. */
static void bounds_tokens(void **state)
{
    const size_t n = (size_t)1 << 18;
    char *a = malloc(n);
    const char *texts[] = {a, a};
    const size_t sizes[] = {n, n};

    (void)state;
    assert_non_null(a);
    memset(a, 'a', n);
    OK(sr1_tokenizer_train(texts, sizes, NULL, 2, NULL, scratch_path("long")));
    free(a);
}

static sr1_status train_it(void *arg)
{
    const char *texts[] = {"ab ab ab\xff", "cd e\xcc\x81 cd <think>"};
    sr1_tokenizer_train_options o = {.struct_size = sizeof o, .vocab_size = 270};

    return sr1_tokenizer_train(texts, NULL, NULL, 2, &o, arg);
}

/* Nothing is frequent enough to be merged: a token is a byte. */
static void needs_no_merges(void **state)
{
    const char *texts[] = {"a"};
    sr1_tokenizer_train_options o = {.struct_size = sizeof o, .vocab_size = 2000};
    sr1_tokenizer *t = trained(texts, NULL, 1, &o);
    int32_t *ids = NULL;
    size_t n = 0;

    (void)state;
    OK(sr1_tokenizer_encode(t, "one two", 7, SR1_ENCODE_ALL_ADDED, &ids, &n));
    assert_int_equal(n, 7);
    sr1_free(ids);
    sr1_tokenizer_free(t);
}

static void survives_failing_allocations(void **state)
{
    char to[512];

    (void)state;
    snprintf(to, sizeof to, "%s", scratch_path("torture"));
    assert_true(torture(train_it, to) > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gives_the_kept_files),
        cmocka_unit_test(merges_the_most_frequent_pair),
        cmocka_unit_test(weighs_texts),
        cmocka_unit_test(keeps_added_tokens_whole),
        cmocka_unit_test(refuses_wrong_options),
        cmocka_unit_test(bounds_tokens),
        cmocka_unit_test(needs_no_merges),
        cmocka_unit_test(survives_failing_allocations),
    };

    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
