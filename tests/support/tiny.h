/* support/tiny.h - a policy small enough for tests, whose words can be foretold.
 *
 * A Qwen3 model of few layers over a vocabulary trained here. Its embedding is random and
 * its head is made from it, so that a token is followed by those that a list of rules
 * names:
 *
 *     {"<search>", " tower"}     after <search> comes " tower"
 *     {"<answer>", " Paris"}, {"<answer>", " Rome"}     one or the other
 *     {"", "<search>"}           "" is the last token of the prompt
 *
 * The layers between are random and small, and every weight has a gradient. */
#ifndef SR1_TESTS_TINY_H
#define SR1_TESTS_TINY_H

#include "support/device.h"
#include "support/files.h"
#include "support/wait.h"

#include "base/mem.h"
#include "base/rng.h"
#include "config/added_choices.h"
#include "tensor/model/model.h"

#include <searchr1/searchr1.h>
#include <searchr1/ext/config_names.h>
#include <searchr1/ext/engines.h>
#include <searchr1/ext/model_details.h>
#include <searchr1/ext/tokenizer.h>

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/stat.h>

#include <cmocka.h>

#define OK(expr) tiny_ok((expr), #expr, __FILE__, __LINE__)

static inline void tiny_ok(sr1_status st, const char *what, const char *file, int line)
{
    if (st == SR1_OK)
        return;
    fprintf(stderr, "%s:%d: %s\n    %s: %s\n", file, line, what, sr1_status_name(st),
            sr1_last_error());
    fail();
}

static inline void tiny_near(double a, double b, double tolerance)
{
    if (!(fabs(a - b) <= tolerance))
        fail_msg("%.9g is not within %.3g of %.9g", a, tolerance, b);
}

/* The status is `want` and the text names what is wrong. */
#define REFUSED(expr, want, text)                                                        \
    do {                                                                                 \
        assert_int_equal(expr, want);                                                    \
        if (!strstr(sr1_last_error(), text))                                             \
            fail_msg("'%s' is not in: %s", text, sr1_last_error());                      \
    } while (0)

/* ---- the tokenizer: protocol tags, then words that rules may use ---- */

#define TINY_CALL "{\"name\": \"wiki_search\", \"args\": {\"query\": \"tower\"}}"

#ifndef TINY_MORE_WORDS
#define TINY_MORE_WORDS /* words of one test, which other tests' ids do not know */
#endif

static const char *const tiny_words[] = {
    "<think>",        "</think>",     "<search>",  "</search>", "<information>",
    "</information>", "<answer>",     "</answer>", " tower",    " nothing",
    " Paris",         " Rome",        " well",     " so",       "x<sea",
    "rch>",           "</sear",       "ch> and",   "<tool>",    "</tool>",
    "<result>",       "</result>",    TINY_CALL,   "{oops",     "<level>",
    "</level>",       "<action>",     "</action>", "</thin",    "k><act",
    "ion> so",        TINY_MORE_WORDS};
#define TINY_WORDS (sizeof tiny_words / sizeof *tiny_words)

static inline void tiny_tokenizer(const char *folder)
{
    static const char *const texts[] = {
        "user assistant system question answer The tower stands in Paris. Rome is old.",
        "Where is the tower? What is in Rome? The tower stands in Paris."};
    sr1_tokenizer_train_options o = {.struct_size = sizeof o,
                                     .vocab_size = 340,
                                     .added_tokens = tiny_words,
                                     .n_added_tokens = TINY_WORDS};

    OK(sr1_tokenizer_train(texts, NULL, NULL, 2, &o, folder));
}

/* ---- the model ---- */

struct tiny_rule {
    const char *from;
    const char *to;
};

#define TINY_HIDDEN 64

static inline int32_t tiny_last_of_prompt(const sr1_tokenizer *t)
{
    const char *role = "user", *text = "q";
    sr1_chat_options o = {.struct_size = sizeof o, .add_generation_prompt = 1};
    int32_t *ids = NULL, last;
    size_t n = 0;

    OK(sr1_tokenizer_chat(t, &role, &text, NULL, 1, &o, NULL, NULL, &ids, &n));
    last = ids[n - 1];
    sr1_free(ids);
    return last;
}

static inline int32_t tiny_id(const sr1_tokenizer *t, const char *word)
{
    int32_t *ids = NULL, id;
    size_t n = 0;

    if (!*word)
        return tiny_last_of_prompt(t);
    id = sr1_tokenizer_token_to_id(t, word); /* as tokenizer.json writes it, or added */
    if (id >= 0)
        return id;
    OK(sr1_tokenizer_encode(t, word, strlen(word), SR1_ENCODE_ALL_ADDED, &ids, &n));
    if (n != 1)
        fail_msg("'%s' is %zu tokens", word, n);
    id = ids[0];
    sr1_free(ids);
    return id;
}

static inline void tiny_overwrite(sr1_tensor *t, const float *v, int64_t rows)
{
    sr1_scope *s = sr1__scope_open(SR1__CPU, "tiny weights");

    sr1__scope_no_grad(s);
    t_copy_(s, t, t_from_f32(s, v, T_SHAPE(rows, TINY_HIDDEN)));
    OK(sr1__scope_close(s));
}

/* gain: logit of a rule's token; about 12 makes it almost certain. */
static inline void tiny_teach(sr1_model *m, const sr1_tokenizer *t,
                              const struct tiny_rule *rules, size_t n, double gain)
{
    int64_t vocab = m->config.vocab_size;
    float *embed = calloc((size_t)vocab * TINY_HIDDEN, sizeof *embed);
    float *head = calloc((size_t)vocab * TINY_HIDDEN, sizeof *head);
    struct sr1__rng rng;

    sr1__rng_seed(&rng, 3, 0);
    for (int64_t i = 0; i < vocab * TINY_HIDDEN; i++)
        embed[i] = (float)sr1__rng_normal(&rng);
    for (size_t r = 0; r < n; r++) {
        const float *from = embed + tiny_id(t, rules[r].from) * TINY_HIDDEN;
        float *to = head + tiny_id(t, rules[r].to) * TINY_HIDDEN;

        for (size_t i = 0; i < TINY_HIDDEN; i++)
            to[i] += (float)(gain / TINY_HIDDEN) * from[i];
    }
    tiny_overwrite(m->embed, embed, vocab);
    tiny_overwrite(m->head, head, vocab);
    sr1__model_touch(m);
    free(embed);
    free(head);
}

#ifndef TINY_WIDTH
#define TINY_WIDTH "64" /* of the feed-forward layers */
#endif

static const char tiny_shape[] =
    "{\"architectures\": [\"Qwen3ForCausalLM\"], \"model_type\": \"qwen3\", "
    "\"hidden_size\": 64, \"num_hidden_layers\": %d, \"num_attention_heads\": 2, "
    "\"num_key_value_heads\": 1, \"head_dim\": 32, \"intermediate_size\": " TINY_WIDTH
    ", "
    "\"vocab_size\": 384, \"max_position_embeddings\": 512, \"rms_norm_eps\": 1e-6, "
    "\"rope_theta\": 10000.0, \"tie_word_embeddings\": false}";

/* Write tokenizer and model into scratch_path(name). */
static inline void tiny_deep_model(const char *name, int layers,
                                   const struct tiny_rule *rules, size_t n, double gain)
{
    char folder[512], shape[1024];
    sr1_model_options o = {.struct_size = sizeof o, .device = "cpu", .dtype = "fp32"};
    sr1_tokenizer *t = NULL;
    sr1_model *m = NULL;

    snprintf(folder, sizeof folder, "%s", scratch_path(name));
    tiny_tokenizer(folder);
    OK(sr1_tokenizer_open(&t, folder));
    snprintf(shape, sizeof shape, tiny_shape, layers);
    OK(sr1_model_new_random(&m, shape, 7, &o));
    tiny_teach(m, t, rules, n, gain);
    OK(sr1_model_save(m, folder));
    sr1_model_free(m);
    sr1_tokenizer_free(t);
}

static inline void tiny_model(const char *name, const struct tiny_rule *rules, size_t n,
                              double gain)
{
    tiny_deep_model(name, 2, rules, n, gain);
}

/* A model of this shape that says anything. */
static inline void tiny_random_model(const char *name, const char *shape)
{
    sr1_model_options o = {
        .struct_size = sizeof o, .device = "cpu", .dtype = "fp32", .init = "fan_in"};
    char folder[512];
    sr1_model *m = NULL;

    snprintf(folder, sizeof folder, "%s", scratch_path(name));
    tiny_tokenizer(folder);
    OK(sr1_model_new_random(&m, shape, 7, &o));
    OK(sr1_model_save(m, folder));
    sr1_model_free(m);
}

/* Likewise a mixture of experts, which its first and last layers have. */
static inline void tiny_mixture(const char *name)
{
    static const char shape[] =
        "{\"architectures\": [\"Qwen3MoeForCausalLM\"], \"hidden_size\": 32, "
        "\"num_hidden_layers\": 3, \"num_attention_heads\": 4, "
        "\"num_key_value_heads\": 2, \"head_dim\": 8, \"intermediate_size\": 48, "
        "\"num_experts\": 6, \"num_experts_per_tok\": 2, \"moe_intermediate_size\": 16, "
        "\"mlp_only_layers\": [1], \"norm_topk_prob\": true, \"vocab_size\": 384, "
        "\"max_position_embeddings\": 512, \"eos_token_id\": 1, \"rope_theta\": 10000.0}";

    tiny_random_model(name, shape);
}

/* A chat template of the model's own, which begins with the date. */
static inline void tiny_dated_template(const char *model)
{
    static const char text[] =
        "<|im_start|>system\n{{ strftime_now('%d %B %Y') }}<|im_end|>\n"
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n"
        "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
    char path[64];

    snprintf(path, sizeof path, "%s/chat_template.jinja", model);
    scratch_file(path, text, sizeof text - 1);
}

/* Searches for the tower, reads, answers right or wrong. */
static const struct tiny_rule tiny_searcher[] = {
    {"", "<search>"},        {"<search>", " tower"},
    {" tower", "</search>"}, {"</information>", "<answer>"},
    {"<answer>", " Paris"},  {"<answer>", " Rome"},
    {" Paris", "</answer>"}, {" Rome", "</answer>"}};
#define TINY_SEARCHER tiny_searcher, sizeof tiny_searcher / sizeof *tiny_searcher

/* ---- a configuration ---- */

static int tiny_lasting; /* blocks of memory that nothing gives back: choices */

/* The tests' device, which the key of devices may not know. */
static inline void tiny_device(sr1_config *c)
{
    if (!test_on_cpu() && !tiny_lasting) {
        OK(sr1__added_choice("device", test_device(), "tests"));
        tiny_lasting = 1;
    }
    OK(sr1_config_set(c, "device", test_device()));
    if (!test_on_cpu()) /* whose default is another */
        OK(sr1_config_set(c, "dtype", "fp32"));
}

/* Defaults of the tests, then key=value words up to NULL. */
static inline sr1_config *tiny_config(const char *model, ...)
{
    static const char *const base[] = {"workers=1",
                                       "threads=1",
                                       "prompt_template=none",
                                       "search_engine=mock",
                                       "document_format=plain",
                                       "max_tokens=24",
                                       "max_turns=2",
                                       "group_size=4",
                                       "batch_size=2",
                                       "max_rows=16",
                                       "update_times=2",
                                       "learning_rate=1e-3",
                                       "seed=11"};
    sr1_config *c = NULL;
    const char *pair;
    va_list more;

    OK(sr1_config_new(&c));
    OK(sr1_config_set(c, "model_name_or_path", scratch_path(model)));
    tiny_device(c);
    for (size_t i = 0; i < sizeof base / sizeof *base; i++)
        OK(sr1_config_set_pair(c, base[i]));
    if (getenv("SR1_DIST_DEBUG")) /* tests/dist/run */
        OK(sr1_config_set(c, "distributed_debug", "true"));
    va_start(more, model);
    while ((pair = va_arg(more, const char *)))
        OK(sr1_config_set_pair(c, pair));
    va_end(more);
    return c;
}

/* The engine that knows where the tower is. */
static inline sr1_search *tiny_engine(void)
{
    static const char *const keys[] = {"tower"};
    static const char *const facts[] = {"The tower stands in Paris."};
    sr1_search *e = NULL;

    OK(sr1_search_open_mock(&e, keys, facts, 1));
    return e;
}

/* Of a configuration and an engine, both taken over. */
static inline sr1_rollout *tiny_rollout(sr1_config *c, sr1_search *e)
{
    sr1_rollout *r = NULL;

    OK(sr1_rollout_new(&r, c, NULL, NULL, e));
    sr1_config_free(c);
    sr1_search_free(e);
    return r;
}

static const char *const tiny_gold[] = {"Paris"};

static inline sr1_query tiny_query(const char *text)
{
    return (sr1_query){.struct_size = sizeof(sr1_query),
                       .text = text,
                       .text_len = text ? strlen(text) : 0,
                       .answers = tiny_gold,
                       .n_answers = 1};
}

static inline void tiny_free_all(sr1_trajectory **t, size_t n)
{
    for (size_t i = 0; i < n; i++)
        sr1_trajectory_free(t[i]);
}

/* The first of n samples (64 at most) that answers after so many searches and turns. */
static inline sr1_trajectory *tiny_find_answer(sr1_rollout *r, size_t n, size_t searches,
                                               int32_t turns)
{
    sr1_rollout_options o = {
        .struct_size = sizeof o, .group_size = (int64_t)n, .seed = 3};
    sr1_query q = tiny_query("Where?");
    sr1_trajectory *t[64] = {NULL}, *found = NULL;

    OK(sr1_rollout_generate(r, &q, 1, &o, t));
    for (size_t i = 0; i < n && !found; i++)
        if (sr1_trajectory_search_count(t[i]) == searches &&
            sr1_trajectory_turn_count(t[i]) == turns &&
            sr1_trajectory_stop_reason(t[i]) == SR1_STOP_ANSWER)
            found = sr1_trajectory_retain(t[i]);
    tiny_free_all(t, n);
    assert_non_null(found);
    return found;
}

/* Rows of questions for a run, in a file of the scratch folder. */
static inline const char *tiny_questions(const char *name, size_t n)
{
    const char *path = scratch_path(name);
    FILE *f = fopen(path, "w");

    for (size_t i = 0; f && i < n; i++)
        fprintf(f,
                "{\"id\": \"q%zu\", \"question\": \"Where is tower %zu?\", "
                "\"golden_answers\": [\"Paris\"], \"data_source\": \"towers\"}\n",
                i, i);
    if (!f || fclose(f) != 0)
        abort();
    return path;
}

static inline const char *tiny_knowledge(const char *name)
{
    return scratch_file(name, "{\"tower\": \"The tower stands in Paris.\"}\n", 0);
}

/* The last test of a program: every block of memory was given back. A call that was
 * abandoned gives back its own when its thread ends, in its own time. */
static inline void tiny_nothing_leaks(void **state)
{
    double until = sr1__now() + PATIENCE;

    (void)state;
    while (sr1__mem_live() != tiny_lasting && sr1__now() < until)
        nap(0.01);
    assert_int_equal(sr1__mem_live(), tiny_lasting);
}

/* All weights of a model, flat; *n numbers. Free with free. */
static inline float *tiny_weights(sr1_model *m, size_t *n)
{
    size_t total = 0, at = 0;
    float *v;

    for (size_t i = 0; i < m->n_params; i++)
        total += (size_t)t_numel(m->params[i].tensor);
    v = calloc(total, sizeof *v);
    for (size_t i = 0; i < m->n_params; i++) {
        sr1_scope *s = sr1__scope_open(SR1__CPU, "weights");
        size_t k = (size_t)t_numel(m->params[i].tensor);

        t_to_host_f32(s, m->params[i].tensor, v + at, k);
        OK(sr1__scope_close(s));
        at += k;
    }
    *n = total;
    return v;
}

/* A trainer with the tiny engine; frees the configuration. */
static inline sr1_trainer *tiny_trainer(sr1_config *c)
{
    sr1_search *e = tiny_engine();
    sr1_trainer *tr = NULL;

    OK(sr1_trainer_new(&tr, c, e));
    sr1_config_free(c);
    sr1_search_free(e);
    return tr;
}

#endif
