/* Embedders and rerankers from folders: texts in, vectors as transformers gives them;
 * options, lengths, prefixes; what is refused. */
#include "encoder_test.h"

#include "support/device.h"
#include "support/files.h"
#include "support/torture.h"

#include "retrieval/search/embed.h"

#define TOLERANCE 1e-5
#define DIM 32

static sr1_encoder_options here(void)
{
    sr1_encoder_options o;

    sr1_encoder_options_init(&o);
    o.device = test_device();
    o.dtype = "fp32";
    return o;
}

static sr1_embedder *embedder(const char *folder, const sr1_encoder_options *o)
{
    sr1_encoder_options plain = here();
    sr1_embedder *e = NULL;

    OK(sr1_embedder_open(&e, folder, o ? o : &plain));
    return e;
}

static const char *golden_dir(const char *name)
{
    static char dirs[4][512];
    static unsigned next;
    char *dir = dirs[next++ % 4];

    snprintf(dir, sizeof dirs[0], "%s/tests/golden/encoder/%s", getenv("SR1_SRC"), name);
    return dir;
}

/* The files of a case in the scratch folder under another name. */
static const char *copy_case(const char *name, const char *as)
{
    static const char *const files[] = {"config.json", "tokenizer.json",
                                        "model.safetensors"};
    char from[600];
    char to[200];
    struct sr1__buf b;

    OK(sr1__dir_make(scratch_path(as)));
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(from, sizeof from, "%s/%s", golden_dir(name), files[i]);
        snprintf(to, sizeof to, "%s/%s", as, files[i]);
        OK(sr1__file_read(from, 0, &b));
        OK(sr1__file_replace(scratch_path(to), b.data, b.len));
        sr1__buf_free(&b);
    }
    return scratch_path(as);
}

/* Set a key of a copied case's config.json; value NULL: take it out. */
static void edit_config(const char *as, const char *key, const char *value)
{
    char path[200];
    json_t *root = NULL;

    snprintf(path, sizeof path, "%s/config.json", as);
    OK(sr1__json_load(&root, scratch_path(path), 0));
    if (value)
        json_object_set_new(root, key, json_loads(value, JSON_DECODE_ANY, NULL));
    else
        json_object_del(root, key);
    OK(sr1__json_save(root, 1, scratch_path(path)));
    json_decref(root);
}

/* The texts of a case. */
struct lines {
    const char *text[TEXTS_MAX];
    size_t n;
};

static void lines_read(struct lines *l, const struct golden *g)
{
    l->n = golden_count(g, "texts");
    for (size_t i = 0; i < l->n; i++)
        l->text[i] =
            json_string_value(json_array_get(json_object_get(g->json, "texts"), i));
}

/* What torch.nn.functional.normalize makes of v [n, dim]. */
static void normalized(float *v, size_t n, size_t dim)
{
    for (size_t i = 0; i < n; i++) {
        double sum = 0.0;

        for (size_t d = 0; d < dim; d++)
            sum += (double)v[i * dim + d] * v[i * dim + d];
        for (size_t d = 0; d < dim; d++)
            v[i * dim + d] = (float)(v[i * dim + d] / sqrt(sum));
    }
}

/* By default, and the same asked for in words. */
static const struct row {
    const char *name;
    const char *pooling;
    int32_t normalize;
    const char *tensor;
    int normal; /* the vectors are normalised */
} rows[] = {
    {"bert-gelu", NULL, -1, "mean", 1},       {"bert-gelu", "cls", 0, "cls", 0},
    {"bert-prefix", "auto", 0, "mean", 0},    {"dpr-question", NULL, -1, "output", 0},
    {"dpr-context", NULL, 1, "output", 1},    {"t5-relu", NULL, -1, "decoder", 0},
    {"t5-relu", "mean", -1, "mean", 1},       {"t5-encoder", NULL, -1, "mean", 1},
    {"t5-gated", "decoder", 1, "decoder", 1},
};

static void check_row(const struct row *row, int32_t kind)
{
    struct golden g = golden_open_kind("encoder", row->name);
    sr1_encoder_options o = here();
    float want[TEXTS_MAX * DIM];
    float got[TEXTS_MAX * DIM];
    struct lines l;
    sr1_embedder *e;
    size_t dim;

    o.pooling = row->pooling;
    o.normalize = row->normalize;
    lines_read(&l, &g);
    e = embedder(g.dir, &o);
    dim = (size_t)sr1_embedder_dim(e);
    assert_string_equal(sr1_embedder_name(e), g.dir);
    memcpy(want, golden_tensor(&g, row->tensor, l.n * dim), l.n * dim * sizeof *want);
    if (row->normal)
        normalized(want, l.n, dim);
    OK(sr1_embedder_embed(e, l.text, l.n, kind, got));
    if (!(largest_gap(got, want, l.n * dim) <= TOLERANCE))
        fail_msg("%s %s: off by %g", row->name, row->tensor,
                 largest_gap(got, want, l.n * dim));
    sr1_embedder_free(e);
    golden_close(&g);
}

static void vectors_of_texts_equal_transformers(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        check_row(&rows[i], SR1_EMBED_QUERY);
        check_row(&rows[i], SR1_EMBED_DOCUMENT);
    }
}

/* One text by an embedder; the vectors are equal or not. */
static void same(sr1_embedder *a, int32_t kind_a, const char *text_a, sr1_embedder *b,
                 int32_t kind_b, const char *text_b, int equal)
{
    float x[DIM];
    float y[DIM];

    OK(sr1_embedder_embed(a, &text_a, 1, kind_a, x));
    OK(sr1_embedder_embed(b, &text_b, 1, kind_b, y));
    if ((largest_gap(x, y, DIM) <= TOLERANCE) != equal)
        fail_msg("'%s' and '%s' are %g apart", text_a, text_b, largest_gap(x, y, DIM));
}

static void prefixes_go_before_texts(void **state)
{
    sr1_encoder_options o = here();
    sr1_embedder *plain = embedder(golden_dir("bert-gelu"), NULL);
    sr1_embedder *e;

    (void)state;
    o.query_prefix = "who built ";
    o.document_prefix = "where is ";
    e = embedder(golden_dir("bert-gelu"), &o);
    same(e, SR1_EMBED_QUERY, "the tower", plain, 0, "who built the tower", 1);
    same(e, SR1_EMBED_DOCUMENT, "the tower", plain, 0, "where is the tower", 1);
    same(e, SR1_EMBED_QUERY, "the tower", e, SR1_EMBED_DOCUMENT, "the tower", 0);
    sr1_embedder_free(e);
    sr1_embedder_free(plain);
}

static void folder_names_bring_prefixes(void **state)
{
    sr1_encoder_options o = here();
    sr1_embedder *plain = embedder(golden_dir("bert-gelu"), NULL);
    sr1_embedder *e5 = embedder(copy_case("bert-gelu", "e5-tiny"), NULL);

    (void)state;
    same(e5, SR1_EMBED_QUERY, "rome", plain, 0, "query: rome", 1);
    same(e5, SR1_EMBED_DOCUMENT, "rome", plain, 0, "passage: rome", 1);
    sr1_embedder_free(e5);
    o.query_prefix = "";
    e5 = embedder(scratch_path("e5-tiny"), &o);
    same(e5, SR1_EMBED_QUERY, "rome", plain, 0, "rome", 1);
    sr1_embedder_free(e5);
    sr1_embedder_free(plain);
}

static char *encoding_of(const char *dir, const sr1_encoder_options *o)
{
    sr1_embedder *e = embedder(dir, o);
    char *text = strdup(sr1__embedder_encoding(e));

    sr1_embedder_free(e);
    return text;
}

static void same_encoding(const char *dir, const sr1_encoder_options *o, int same)
{
    char *a = encoding_of(golden_dir("bert-gelu"), NULL);
    char *b = encoding_of(dir, o);

    if ((strcmp(a, b) == 0) != same)
        fail_msg("%s\n%s", a, b);
    free(a);
    free(b);
}

/* What vectors depend on tells encoders apart: their options, and the content of their
 * folders, not the path. */
/* Of word pieces in vocab.txt, which tokenizer_config.json says how to cut. */
static void an_encoding_is_of_how_words_are_cut(void **state)
{
    static const char vocab[] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\n";
    char *a, *b;

    (void)state;
    (void)copy_case("bert-gelu", "pieces");
    assert_int_equal(remove(scratch_path("pieces/tokenizer.json")), 0);
    (void)scratch_file("pieces/vocab.txt", vocab, 0);
    (void)scratch_file("pieces/tokenizer_config.json", "{\"do_lower_case\": true}", 0);
    a = encoding_of(scratch_path("pieces"), NULL);
    (void)scratch_file("pieces/tokenizer_config.json",
                       "{\"do_lower_case\": false, "
                       "\"model_max_length\": 1000000000000000019884624838656}",
                       0);
    b = encoding_of(scratch_path("pieces"), NULL);
    assert_string_not_equal(a, b);
    free(a);
    free(b);
}

static void an_encoding_is_of_content_and_options(void **state)
{
    sr1_encoder_options o = here();

    (void)state;
    same_encoding(copy_case("bert-gelu", "twin"), NULL, 1);
    same_encoding(golden_dir("bert-prefix"), NULL, 0);
    edit_config("twin", "layer_norm_eps", "1e-6");
    same_encoding(scratch_path("twin"), NULL, 0);
    o.batch_tokens = 7;
    same_encoding(golden_dir("bert-gelu"), &o, 1);
    o.normalize = 0;
    same_encoding(golden_dir("bert-gelu"), &o, 0);
    o = here();
    o.document_tokens = 9;
    same_encoding(golden_dir("bert-gelu"), &o, 0);
    o = here();
    o.query_prefix = "find: \xff";
    same_encoding(golden_dir("bert-gelu"), &o, 0);
    o = here();
    o.pooling = "cls";
    same_encoding(golden_dir("bert-gelu"), &o, 0);
}

/* "the", "river", ... are one token each, [CLS] and [SEP] two more. */
static void long_texts_are_cut(void **state)
{
    sr1_encoder_options o = here();
    sr1_embedder *plain = embedder(golden_dir("bert-gelu"), NULL);
    sr1_embedder *e;

    (void)state;
    o.query_tokens = 5;
    o.document_tokens = 4;
    e = embedder(golden_dir("bert-gelu"), &o);
    same(e, SR1_EMBED_QUERY, "the river stands paris", plain, 0, "the river stands", 1);
    same(e, SR1_EMBED_DOCUMENT, "the river stands", plain, 0, "the river", 1);
    same(e, SR1_EMBED_QUERY, "the river", plain, 0, "the river", 1);
    sr1_embedder_free(e);
    sr1_embedder_free(plain);
}

/* The model has 160 positions, which is less than 256. */
static void no_text_is_longer_than_the_model(void **state)
{
    sr1_embedder *e = embedder(golden_dir("bert-gelu"), NULL);
    char a[2000] = "";
    char b[2000] = "";

    (void)state;
    for (int i = 0; i < 158; i++)
        strcat(a, "tower ");
    strcpy(b, a);
    strcat(b, "rome and more");
    same(e, 0, a, e, 0, b, 1);
    a[6] = '\0';
    same(e, 0, a, e, 0, b, 0);
    sr1_embedder_free(e);
}

static void documents_may_have_an_encoder_of_their_own(void **state)
{
    sr1_encoder_options o = here();
    sr1_embedder *q = embedder(golden_dir("bert-gelu"), NULL);
    sr1_embedder *d = embedder(golden_dir("bert-prefix"), NULL);
    sr1_embedder *both;

    (void)state;
    o.document_folder = golden_dir("bert-prefix");
    both = embedder(golden_dir("bert-gelu"), &o);
    same(both, SR1_EMBED_QUERY, "rome", q, 0, "rome", 1);
    same(both, SR1_EMBED_DOCUMENT, "rome", d, 0, "rome", 1);
    same(q, 0, "rome", d, 0, "rome", 0);
    sr1_embedder_free(both);
    sr1_embedder_free(q);
    sr1_embedder_free(d);
}

static void rerankers_equal_transformers(void **state)
{
    struct golden g = golden_open_kind("encoder", "cross-encoder");
    const char *query = json_string_value(json_object_get(g.json, "query"));
    sr1_encoder_options o = here();
    sr1_reranker *r = NULL;
    double got[TEXTS_MAX];
    const float *want;
    struct lines l;

    (void)state;
    lines_read(&l, &g);
    want = golden_tensor(&g, "score", l.n);
    OK(sr1_reranker_open(&r, g.dir, &o));
    OK(sr1_reranker_score(r, query, l.text, l.n, got));
    for (size_t i = 0; i < l.n; i++)
        assert_true(fabs(got[i] - (double)want[i]) <= TOLERANCE);
    sr1_reranker_free(r);
    golden_close(&g);
}

/* ---- refusals ---- */

static void refuses(sr1_status (*open)(const char *folder, const sr1_encoder_options *o),
                    const char *folder, const sr1_encoder_options *o, sr1_status status,
                    const char *says)
{
    sr1_encoder_options plain = here();
    sr1_status got = open(folder, o ? o : &plain);

    if (got != status || !strstr(sr1_last_error(), says))
        fail_msg("%d: '%s'; wanted %d: '%s'", (int)got, sr1_last_error(), (int)status,
                 says);
}

static sr1_status open_embedder(const char *folder, const sr1_encoder_options *o)
{
    sr1_embedder *e = NULL;
    sr1_status status = sr1_embedder_open(&e, folder, o);

    assert_true((status == SR1_OK) == (e != NULL));
    sr1_embedder_free(e);
    return status;
}

static sr1_status open_reranker(const char *folder, const sr1_encoder_options *o)
{
    sr1_reranker *r = NULL;
    sr1_status status = sr1_reranker_open(&r, folder, o);

    assert_true((status == SR1_OK) == (r != NULL));
    sr1_reranker_free(r);
    return status;
}

static void a_folder_that_is_missing_is_explained(void **state)
{
    (void)state;
    refuses(open_embedder, "intfloat/e5-base-v2", NULL, SR1_E_NOT_FOUND,
            "hf download intfloat/e5-base-v2 --local-dir intfloat/e5-base-v2");
    refuses(open_reranker, "x/y", NULL, SR1_E_NOT_FOUND, "hf download x/y");
    assert_int_equal(sr1_embedder_open(NULL, "x", NULL), SR1_E_INVALID);
    assert_int_equal(sr1_reranker_open(NULL, "x", NULL), SR1_E_INVALID);
}

static void options_out_of_bounds_are_refused(void **state)
{
    static const struct {
        size_t offset;
        int32_t value;
        const char *says;
    } bad[] = {
        {offsetof(sr1_encoder_options, normalize), 2, "normalize is 2"},
        {offsetof(sr1_encoder_options, query_tokens), 161, "query_tokens is 161"},
        {offsetof(sr1_encoder_options, query_tokens), 0, "query_tokens is 0"},
        {offsetof(sr1_encoder_options, document_tokens), -2, "document_tokens is -2"},
        {offsetof(sr1_encoder_options, batch_tokens), 0, "batch_tokens is 0"},
    };
    const char *dir = golden_dir("bert-gelu");
    sr1_encoder_options o = here();

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        o = here();
        memcpy((char *)&o + bad[i].offset, &bad[i].value, sizeof bad[i].value);
        refuses(open_embedder, dir, &o, SR1_E_INVALID, bad[i].says);
    }
    o = here();
    o.pooling = "max";
    refuses(open_embedder, dir, &o, SR1_E_INVALID, "pooling 'max'");
    o.pooling = "decoder";
    refuses(open_embedder, dir, &o, SR1_E_INVALID, "decoder");
    refuses(open_embedder, golden_dir("t5-encoder"), &o, SR1_E_INVALID, "decoder");
    o = here();
    o.dtype = "int4";
    refuses(open_embedder, dir, &o, SR1_E_INVALID, "int4");
    o = here();
    o.document_folder = golden_dir("dpr-context");
    refuses(open_embedder, dir, &o, SR1_E_INVALID, "20");
    o.struct_size = 0;
    refuses(open_embedder, dir, &o, SR1_E_INVALID, "struct_size");
}

/* One key of a copied case's config.json, and what the weights or the reader say. */
static void other_models_are_refused_by_name(void **state)
{
    static const struct {
        const char *name;
        const char *key;
        const char *value;
        sr1_status status;
        const char *says;
        int reranker;
    } bad[] = {
        {"bert-gelu", "model_type", "\"roberta\"", SR1_E_UNSUPPORTED, "roberta", 0},
        {"bert-gelu", "position_embedding_type", "\"relative_key_query\"",
         SR1_E_UNSUPPORTED, "position_embedding_type", 0},
        {"bert-gelu", "is_decoder", "true", SR1_E_UNSUPPORTED, "is_decoder", 0},
        {"bert-gelu", "hidden_size", "64", SR1_E_CORRUPT, "word_embeddings", 0},
        {"bert-gelu", "vocab_size", "4000000", SR1_E_CORRUPT, "word_embeddings", 0},
        {"bert-gelu", "num_hidden_layers", "3", SR1_E_NOT_FOUND, "layer.2.", 0},
        {"bert-gelu", "intermediate_size", "1000000", SR1_E_CORRUPT, "intermediate", 0},
        {"t5-gated", "feed_forward_proj", "\"relu\"", SR1_E_NOT_FOUND, "wi.weight", 0},
        {"t5-relu", "num_decoder_layers", "4", SR1_E_NOT_FOUND, "decoder.block.3", 0},
        {"bert-gelu", "model_type", "\"dpr\"", SR1_E_NOT_FOUND, "bert_model", 0},
        {"dpr-context", "projection_dim", "21", SR1_E_CORRUPT, "encode_proj", 0},
        {"bert-gelu", "architectures", "[\"BertModel\"]", SR1_E_UNSUPPORTED,
         "BertForSequenceClassification", 1},
        {"t5-relu", "x", "0", SR1_E_UNSUPPORTED, "architectures", 1},
        {"cross-encoder", "num_labels", "2", SR1_E_UNSUPPORTED, "num_labels", 1},
        {"cross-encoder", "id2label", "{\"0\":\"a\",\"1\":\"b\",\"2\":\"c\"}",
         SR1_E_UNSUPPORTED, "3", 1},
    };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        copy_case(bad[i].name, "odd");
        edit_config("odd", bad[i].key, bad[i].value);
        refuses(bad[i].reranker ? open_reranker : open_embedder, scratch_path("odd"),
                NULL, bad[i].status, bad[i].says);
    }
}

static void folders_that_lack_a_file_are_refused(void **state)
{
    static const char *const files[] = {"config.json", "tokenizer.json",
                                        "model.safetensors"};
    char path[200];

    (void)state;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        const char *dir = copy_case("bert-gelu", "short");

        snprintf(path, sizeof path, "short/%s", files[i]);
        assert_int_equal(remove(scratch_path(path)), 0);
        assert_true(open_embedder(dir, NULL) != SR1_OK);
        assert_non_null(strstr(sr1_last_error(), "short"));
    }
}

/* Overwrite a number of a copied case's tensor with NaN. */
static void weights_that_are_not_finite_are_refused_by_name(void **state)
{
    static const char name[] = "encoder.layer.1.output.dense.weight";
    const char *dir = copy_case("bert-gelu", "nan");
    const float nan = NAN;
    struct sr1__weights *w = NULL;
    const struct sr1__weight *t;
    struct sr1__map map;
    long at;
    FILE *f;

    (void)state;
    OK(sr1__weights_open(&w, dir));
    OK(sr1__map_open(&map, scratch_path("nan/model.safetensors")));
    t = sr1__weights_find(w, name);
    for (at = 0; memcmp(map.data + at, t->data, 64) != 0; at++)
        assert_true((size_t)at < map.size - 64);
    sr1__map_close(&map);
    sr1__weights_close(w);
    f = fopen(scratch_path("nan/model.safetensors"), "r+b");
    assert_true(f && fseek(f, at + 40, SEEK_SET) == 0);
    assert_int_equal(fwrite(&nan, sizeof nan, 1, f), 1);
    fclose(f);
    refuses(open_embedder, dir, NULL, SR1_E_NUMERIC, name);
}

/* ---- memory ---- */

static sr1_status open_and_embed(void *arg)
{
    static const char *const texts[] = {"who built the tower", "rome"};
    sr1_encoder_options o = here();
    sr1_embedder *e = NULL;
    float out[2 * DIM];

    o.document_folder = arg;
    SR1__TRY(sr1_embedder_open(&e, golden_dir("bert-gelu"), &o));
    (void)sr1_embedder_name(e);
    {
        sr1_status status = sr1_embedder_embed(e, texts, 2, SR1_EMBED_DOCUMENT, out);

        sr1_embedder_free(e);
        return status;
    }
}

static sr1_status open_and_score(void *arg)
{
    static const char *const texts[] = {"the tower", "rome"};
    sr1_encoder_options o = here();
    sr1_reranker *r = NULL;
    double out[2];
    sr1_status status;

    (void)arg;
    SR1__TRY(sr1_reranker_open(&r, golden_dir("cross-encoder"), &o));
    status = sr1_reranker_score(r, "who", texts, 2, out);
    sr1_reranker_free(r);
    return status;
}

static void any_allocation_may_fail(void **state)
{
    char prefix[512];

    (void)state;
    snprintf(prefix, sizeof prefix, "%s", golden_dir("bert-prefix"));
    assert_true(torture(open_and_embed, prefix) > 100);
    assert_true(torture(open_and_score, NULL) > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors_of_texts_equal_transformers),
        cmocka_unit_test(prefixes_go_before_texts),
        cmocka_unit_test(folder_names_bring_prefixes),
        cmocka_unit_test(an_encoding_is_of_how_words_are_cut),
        cmocka_unit_test(an_encoding_is_of_content_and_options),
        cmocka_unit_test(long_texts_are_cut),
        cmocka_unit_test(no_text_is_longer_than_the_model),
        cmocka_unit_test(documents_may_have_an_encoder_of_their_own),
        cmocka_unit_test(rerankers_equal_transformers),
        cmocka_unit_test(a_folder_that_is_missing_is_explained),
        cmocka_unit_test(options_out_of_bounds_are_refused),
        cmocka_unit_test(other_models_are_refused_by_name),
        cmocka_unit_test(folders_that_lack_a_file_are_refused),
        cmocka_unit_test(weights_that_are_not_finite_are_refused_by_name),
        cmocka_unit_test(any_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
