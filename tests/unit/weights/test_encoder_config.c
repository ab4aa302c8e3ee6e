/* config.json of encoders, and the files that say how one is used: what published models
 * have, refusals by key. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/json.h"
#include "support/files.h"
#include "support/torture.h"
#include "tensor/weights/encoder_use.h"

/* As published for all-MiniLM-L6-v2, dpr-question_encoder-single-nq-base and
 * t5-v1_1-base, without the keys that nobody reads. */
static const char minilm[] =
    "{\"architectures\":[\"BertModel\"],\"attention_probs_dropout_prob\":0.1,"
    "\"hidden_act\":\"gelu\",\"hidden_size\":384,\"intermediate_size\":1536,"
    "\"layer_norm_eps\":1e-12,\"max_position_embeddings\":512,\"model_type\":\"bert\","
    "\"num_attention_heads\":12,\"num_hidden_layers\":6,\"pad_token_id\":0,"
    "\"position_embedding_type\":\"absolute\",\"type_vocab_size\":2,"
    "\"vocab_size\":30522}";
static const char dpr[] =
    "{\"architectures\":[\"DPRQuestionEncoder\"],\"hidden_act\":\"gelu\","
    "\"hidden_size\":768,\"intermediate_size\":3072,\"layer_norm_eps\":1e-12,"
    "\"max_position_embeddings\":512,\"model_type\":\"dpr\",\"num_attention_heads\":12,"
    "\"num_hidden_layers\":12,\"projection_dim\":0,\"type_vocab_size\":2,"
    "\"vocab_size\":30522}";
static const char t5[] =
    "{\"architectures\":[\"T5ForConditionalGeneration\"],\"d_ff\":2048,\"d_kv\":64,"
    "\"d_model\":768,\"decoder_start_token_id\":0,\"feed_forward_proj\":\"gated-gelu\","
    "\"is_encoder_decoder\":true,\"layer_norm_epsilon\":1e-6,\"model_type\":\"t5\","
    "\"num_decoder_layers\":12,\"num_heads\":12,\"num_layers\":12,"
    "\"relative_attention_num_buckets\":32,\"tie_word_embeddings\":false,"
    "\"vocab_size\":32128}";

static sr1_status parse(struct sr1__encoder_config *c, const char *text)
{
    return sr1__encoder_config_parse(c, text, strlen(text), "config.json");
}

static void published_files_are_read(void **state)
{
    struct sr1__encoder_config c;

    (void)state;
    assert_int_equal(parse(&c, minilm), SR1_OK);
    assert_int_equal(c.arch, SR1__ENCODER_BERT);
    assert_int_equal(c.act, SR1__ACT_GELU);
    assert_int_equal(c.hidden_size, 384);
    assert_int_equal(c.head_dim, 32);
    assert_int_equal(c.n_layers, 6);
    assert_int_equal(c.max_positions, 512);
    assert_int_equal(c.n_types, 2);
    assert_true(c.eps == 1e-12 && !c.classifies && c.n_labels == 2);
    assert_int_equal(parse(&c, dpr), SR1_OK);
    assert_int_equal(c.arch, SR1__ENCODER_DPR);
    assert_int_equal(c.projection_dim, 0);
    assert_int_equal(parse(&c, t5), SR1_OK);
    assert_int_equal(c.arch, SR1__ENCODER_T5);
    assert_int_equal(c.act, SR1__ACT_GELU_TANH);
    assert_true(c.gated && c.eps == 1e-6);
    assert_int_equal(c.n_decoder_layers, 12);
    assert_int_equal(c.max_distance, 128);
    assert_int_equal(c.intermediate_size, 2048);
}

/* A key of one of the files above set to a value, and what comes of it. */
static const struct bad_row {
    const char *file;
    const char *key;
    const char *value;
    sr1_status status;
    const char *says;
} bad[] = {
    {minilm, "model_type", "\"roberta\"", SR1_E_UNSUPPORTED, "roberta"},
    {minilm, "model_type", "7", SR1_E_PARSE, "model_type"},
    {minilm, "position_embedding_type", "\"relative_key\"", SR1_E_UNSUPPORTED,
     "position_embedding_type"},
    {minilm, "is_decoder", "true", SR1_E_UNSUPPORTED, "is_decoder"},
    {minilm, "add_cross_attention", "true", SR1_E_UNSUPPORTED, "add_cross_attention"},
    {minilm, "pruned_heads", "{\"0\":[1]}", SR1_E_UNSUPPORTED, "pruned_heads"},
    {minilm, "embedding_size", "128", SR1_E_UNSUPPORTED, "embedding_size"},
    {minilm, "quantization_config", "{\"bits\":8}", SR1_E_UNSUPPORTED, "quantised"},
    {minilm, "hidden_act", "\"mish\"", SR1_E_UNSUPPORTED, "mish"},
    {minilm, "hidden_act", "1", SR1_E_PARSE, "hidden_act"},
    {minilm, "num_attention_heads", "7", SR1_E_INVALID, "divide"},
    {minilm, "num_attention_heads", "0", SR1_E_INVALID, "num_attention_heads"},
    {minilm, "num_attention_heads", "-12", SR1_E_INVALID, "num_attention_heads"},
    {minilm, "hidden_size", "1e3", SR1_E_PARSE, "hidden_size"},
    {minilm, "hidden_size", "1200000", SR1_E_INVALID, "65536"},
    {minilm, "vocab_size", "9223372036854775807", SR1_E_INVALID, "4194304"},
    {minilm, "type_vocab_size", "0", SR1_E_INVALID, "type_vocab_size"},
    {minilm, "layer_norm_eps", "0", SR1_E_INVALID, "above 0"},
    {minilm, "id2label", "[]", SR1_E_PARSE, "id2label"},
    {minilm, "num_labels", "true", SR1_E_PARSE, "num_labels"},
    {dpr, "projection_dim", "-1", SR1_E_INVALID, "projection_dim"},
    {t5, "feed_forward_proj", "\"gated-mish\"", SR1_E_UNSUPPORTED, "mish"},
    {t5, "feed_forward_proj", "\"glu\"", SR1_E_UNSUPPORTED, "glu"},
    {t5, "is_decoder", "true", SR1_E_UNSUPPORTED, "is_decoder"},
    {t5, "num_decoder_layers", "0", SR1_E_INVALID, "num_decoder_layers"},
    {t5, "relative_attention_num_buckets", "2", SR1_E_INVALID, "num_buckets"},
    {t5, "relative_attention_max_distance", "8", SR1_E_INVALID, "too small"},
    {t5, "decoder_start_token_id", "32128", SR1_E_INVALID, "not below vocab_size"},
};

/* file with one key set; freed by the caller. */
static char *changed(const char *file, const char *key, const char *value)
{
    json_t *root = json_loads(file, 0, NULL);
    char *text;

    assert_int_equal(
        json_object_set_new(root, key, json_loads(value, JSON_DECODE_ANY, NULL)), 0);
    text = json_dumps(root, 0);
    json_decref(root);
    return text;
}

static void other_things_are_refused_by_name(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct sr1__encoder_config c = {.arch = 77};
        char *text = changed(bad[i].file, bad[i].key, bad[i].value);

        if (parse(&c, text) != bad[i].status || !strstr(sr1_last_error(), bad[i].says))
            fail_msg("%s = %s: %s", bad[i].key, bad[i].value, sr1_last_error());
        assert_int_equal(c.arch, 77);
        free(text);
    }
}

static void labels_are_counted(void **state)
{
    static const char *const kinds[] = {"[\"BertForSequenceClassification\"]",
                                        "{\"0\":\"LABEL_0\"}"};
    struct sr1__encoder_config c;
    char *one = changed(minilm, "architectures", kinds[0]);
    char *two = changed(one, "id2label", kinds[1]);
    char *three = changed(two, "num_labels", "3");

    (void)state;
    assert_int_equal(parse(&c, one), SR1_OK);
    assert_true(c.classifies && c.n_labels == 2);
    assert_int_equal(parse(&c, two), SR1_OK);
    assert_true(c.classifies && c.n_labels == 1);
    assert_int_equal(parse(&c, three), SR1_OK);
    assert_int_equal(c.n_labels, 3);
    free(one);
    free(two);
    free(three);
}

/* ---- how an encoder is used ---- */

static void forget_files(void)
{
    static const char *const names[] = {
        "modules.json", "1_Pooling/config.json", "sentence_bert_config.json",
        "tokenizer_config.json", "config_sentence_transformers.json"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        remove(scratch_path(names[i]));
    assert_int_equal(sr1__dir_make(scratch_path("1_Pooling")), SR1_OK);
}

struct want {
    int32_t pooling;
    int32_t normalize;
    int64_t max_tokens;
    const char *query;
    const char *document;
};

static void uses(const char *folder, const char *config, int has_decoder,
                 const struct want *w)
{
    struct sr1__encoder_config c;
    struct sr1__encoder_use u;

    assert_int_equal(parse(&c, config), SR1_OK);
    if (sr1__encoder_use_load(&u, folder, &c, has_decoder) != SR1_OK)
        fail_msg("%s: %s", folder, sr1_last_error());
    if (u.pooling != w->pooling || u.normalize != w->normalize)
        fail_msg("%s: pooling %d, normalize %d", folder, (int)u.pooling,
                 (int)u.normalize);
    assert_int_equal(u.max_tokens, w->max_tokens);
    assert_string_equal(u.query_prefix, w->query);
    assert_string_equal(u.document_prefix, w->document);
    sr1__encoder_use_free(&u);
}

/* None of these folders exists: only the names count. */
static void names_tell_the_family(void **state)
{
    static const char bge[] = "Represent this sentence for searching relevant passages: ";
    static const struct want e5 = {SR1__POOL_MEAN, 1, 512, "query: ", "passage: "};
    static const struct want b = {SR1__POOL_CLS, 1, 512, bge, ""};
    static const struct want d = {SR1__POOL_CLS, 0, 512, "", ""};
    static const struct want plain = {SR1__POOL_MEAN, 1, 512, "", ""};
    static const struct want t = {SR1__POOL_MEAN, 1, 2048, "", ""};
    static const struct want first = {SR1__POOL_DECODER, 0, 2048, "", ""};

    (void)state;
    uses("no/such/e5-base-v2", minilm, 0, &e5);
    uses("no/such/Multilingual-E5-small//", minilm, 0, &e5);
    uses("no/models--intfloat--e5-base-v2/snapshots/0123bge", minilm, 0, &e5);
    uses("no/models--x--y/snapshots/00e5", minilm, 0, &plain);
    uses("no/e5/all-MiniLM-L6-v2", minilm, 0, &plain);
    uses("BGE-base-en", minilm, 0, &b);
    uses("no/such/bge-base512", minilm, 0, &b); /* words, not letters */
    uses("my_e5_large", minilm, 0, &e5);
    uses("no/such/base512", minilm, 0, &plain);
    uses("bge-large-beats-e5", minilm, 0, &b);
    uses("my-dpr", minilm, 0, &d);
    uses("no/such/e5", dpr, 0, &d);
    uses("", minilm, 0, &plain);
    uses("no/t5", t5, 0, &t);
    uses("no/t5", t5, 1, &first);
}

static void sentence_transformers_files_come_first(void **state)
{
    static const struct want mean = {SR1__POOL_MEAN, 1, 256, "", ""};
    static const struct want cls = {SR1__POOL_CLS, 0, 512, "ask: ", "read: "};

    (void)state;
    forget_files();
    scratch_file("modules.json",
                 "[{\"idx\":0,\"path\":\"\",\"type\":"
                 "\"sentence_transformers.models.Transformer\"},"
                 "{\"idx\":1,\"path\":\"1_Pooling\",\"type\":"
                 "\"sentence_transformers.models.Pooling\"},"
                 "{\"idx\":2,\"path\":\"2_Normalize\",\"type\":"
                 "\"sentence_transformers.models.Normalize\"}]",
                 0);
    scratch_file("1_Pooling/config.json",
                 "{\"word_embedding_dimension\":384,\"pooling_mode_cls_token\":false,"
                 "\"pooling_mode_mean_tokens\":true,\"pooling_mode_max_tokens\":false}",
                 0);
    scratch_file("sentence_bert_config.json",
                 "{\"max_seq_length\":256,\"do_lower_case\":true}", 0);
    uses(scratch_path(""), minilm, 0, &mean);
    scratch_file("modules.json", "[{\"path\":\"1_Pooling\",\"type\":\"a.b.Pooling\"}]",
                 0);
    scratch_file("1_Pooling/config.json", "{\"pooling_mode_cls_token\":true}", 0);
    scratch_file("sentence_bert_config.json", "{\"max_seq_length\":null}", 0);
    scratch_file("config_sentence_transformers.json",
                 "{\"prompts\":{\"query\":\"ask: \",\"passage\":\"read: \","
                 "\"document\":\"\"}}",
                 0);
    uses(scratch_path(""), minilm, 0, &cls);
}

/* A file with this content, and the message. */
static const struct bad_file {
    const char *name;
    const char *content;
    sr1_status status;
    const char *says;
} bad_files[] = {
    {"modules.json", "{}", SR1_E_PARSE, "not a list"},
    {"modules.json", "[7]", SR1_E_PARSE, "no 'type'"},
    {"modules.json", "[{\"type\":\"x.Dense\",\"path\":\"2_Dense\"}]", SR1_E_UNSUPPORTED,
     "x.Dense"},
    {"modules.json", "[{\"type\":\"x.Pooling\",\"path\":\"../elsewhere\"}]", SR1_E_PARSE,
     "path"},
    {"modules.json", "[{\"type\":\"x.Pooling\",\"path\":\"a/b\"}]", SR1_E_PARSE, "path"},
    {"modules.json", "[{\"type\":\"x.Pooling\"}]", SR1_E_PARSE, "path"},
    {"1_Pooling/config.json", "{\"pooling_mode_max_tokens\":true}", SR1_E_UNSUPPORTED,
     "pooling_mode_max_tokens"},
    {"1_Pooling/config.json",
     "{\"pooling_mode_mean_tokens\":true,\"pooling_mode_cls_token\":true}",
     SR1_E_UNSUPPORTED, "pooling"},
    {"1_Pooling/config.json", "{\"pooling_mode\":\"lasttoken\"}", SR1_E_UNSUPPORTED,
     "pooling_mode"},
    {"1_Pooling/config.json",
     "{\"pooling_mode_mean_tokens\":true,\"include_prompt\":false}", SR1_E_UNSUPPORTED,
     "include_prompt"},
    {"sentence_bert_config.json", "{\"max_seq_length\":0}", SR1_E_PARSE,
     "max_seq_length"},
    {"sentence_bert_config.json", "{\"max_seq_length\":\"x\"}", SR1_E_PARSE,
     "max_seq_length"},
    {"sentence_bert_config.json", "[", SR1_E_PARSE, "sentence_bert_config.json"},
    {"config_sentence_transformers.json", "{\"prompts\":{\"query\":7}}", SR1_E_PARSE,
     "query"},
};

static void broken_files_are_refused_by_name(void **state)
{
    struct sr1__encoder_config c;
    struct sr1__encoder_use u = {.max_tokens = 7};

    (void)state;
    assert_int_equal(parse(&c, minilm), SR1_OK);
    for (size_t i = 0; i < sizeof bad_files / sizeof *bad_files; i++) {
        forget_files();
        scratch_file("modules.json", "[{\"path\":\"1_Pooling\",\"type\":\"x.Pooling\"}]",
                     0);
        scratch_file("1_Pooling/config.json", "{\"pooling_mode_mean_tokens\":true}", 0);
        scratch_file(bad_files[i].name, bad_files[i].content, 0);
        if (sr1__encoder_use_load(&u, scratch_path(""), &c, 0) != bad_files[i].status ||
            !strstr(sr1_last_error(), bad_files[i].says))
            fail_msg("%s %s: %s", bad_files[i].name, bad_files[i].content,
                     sr1_last_error());
        assert_int_equal(u.max_tokens, 7);
    }
}

static void lowering_before_a_tokenizer_that_minds_case_is_refused(void **state)
{
    struct sr1__encoder_config c;
    struct sr1__encoder_use u;

    (void)state;
    forget_files();
    assert_int_equal(parse(&c, minilm), SR1_OK);
    scratch_file("sentence_bert_config.json", "{\"do_lower_case\":true}", 0);
    scratch_file("tokenizer_config.json", "{\"do_lower_case\":false}", 0);
    assert_int_equal(sr1__encoder_use_load(&u, scratch_path(""), &c, 0),
                     SR1_E_UNSUPPORTED);
    assert_non_null(strstr(sr1_last_error(), "case"));
    scratch_file("tokenizer_config.json", "{\"tokenizer_class\":\"T5TokenizerFast\"}", 0);
    assert_int_equal(sr1__encoder_use_load(&u, scratch_path(""), &c, 0),
                     SR1_E_UNSUPPORTED);
    scratch_file("tokenizer_config.json", "{\"tokenizer_class\":\"BertTokenizer\"}", 0);
    assert_int_equal(sr1__encoder_use_load(&u, scratch_path(""), &c, 0), SR1_OK);
    sr1__encoder_use_free(&u);
}

static sr1_status load_use(void *arg)
{
    struct sr1__encoder_use u;
    sr1_status status = sr1__encoder_use_load(&u, scratch_path("e5"), arg, 0);

    if (status == SR1_OK)
        sr1__encoder_use_free(&u);
    return status;
}

static void memory_may_run_out(void **state)
{
    struct sr1__encoder_config c;

    (void)state;
    assert_int_equal(parse(&c, minilm), SR1_OK);
    assert_int_equal(sr1__dir_make(scratch_path("e5/1_Pooling")), SR1_OK);
    scratch_file("e5/modules.json", "[{\"path\":\"1_Pooling\",\"type\":\"x.Pooling\"}]",
                 0);
    scratch_file("e5/1_Pooling/config.json", "{\"pooling_mode_mean_tokens\":true}", 0);
    scratch_file("e5/config_sentence_transformers.json",
                 "{\"prompts\":{\"query\":\"q: \"}}", 0);
    assert_true(torture(load_use, &c) > 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_files_are_read),
        cmocka_unit_test(other_things_are_refused_by_name),
        cmocka_unit_test(labels_are_counted),
        cmocka_unit_test(names_tell_the_family),
        cmocka_unit_test(sentence_transformers_files_come_first),
        cmocka_unit_test(broken_files_are_refused_by_name),
        cmocka_unit_test(lowering_before_a_tokenizer_that_minds_case_is_refused),
        cmocka_unit_test(memory_may_run_out),
    };

    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
