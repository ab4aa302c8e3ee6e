/* A model of the Qwen3-0.6B shape that searches whatever it is asked: its head is made
 * from its embedding so that each token is followed by the next one of a text that ends
 * in a search, and its layers, random as ever, add too little to disturb that. Rollouts
 * then have the inserted passages of real ones. The head cannot share the embedding.
 * usage: bench_searcher TOKENIZER_FOLDER FOLDER [fp32|bf16] */
#include "base/rng.h"
#include "tensor/model/model.h"

#include <searchr1/searchr1.h>
#include <searchr1/ext/model_details.h>
#include <searchr1/ext/tokenizer.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HIDDEN 1024
#define GAIN 20.0  /* logit of the token that follows; the others stay near 0 */
#define QUIET 0.01 /* what is left of the layers' outputs */

static const char config[] =
    "{\"model_type\": \"qwen3\", \"architectures\": [\"Qwen3ForCausalLM\"], "
    "\"hidden_size\": 1024, \"num_hidden_layers\": 28, \"num_attention_heads\": 16, "
    "\"num_key_value_heads\": 8, \"head_dim\": 128, \"intermediate_size\": 3072, "
    "\"vocab_size\": 151936, \"max_position_embeddings\": 40960, \"rms_norm_eps\": 1e-6, "
    "\"rope_theta\": 1000000.0, \"hidden_act\": \"silu\", \"attention_bias\": false, "
    "\"tie_word_embeddings\": false}";

/* About 60 tokens, none twice but the marks of the tags. */
static const char text[] =
    "I should first find out what is known about these events, who took part in them, "
    "when they happened, and where each side came from before writing any reply; a good "
    "source would be one that names kings, dates or battles together with their later "
    "effects on law <search>Norman conquest of England</search>";

/* What the text begins after: a prompt, and an inserted block. */
static const char *const before[] = {"assistant\n", "</information>\n\n",
                                     "</information>\n", "\n\n", "\n"};

struct rules {
    const sr1_tokenizer *tokenizer;
    const float *embed;
    float *head;
    int32_t *text;
    size_t n;
};

static void follow(const struct rules *r, int32_t from, int32_t to)
{
    const float *e = r->embed + (size_t)from * HIDDEN;
    float *h = r->head + (size_t)to * HIDDEN;

    for (size_t i = 0; i < HIDDEN; i++)
        h[i] += (float)(GAIN / HIDDEN) * e[i];
}

/* The rule i -> i + 1 is not there yet. */
static int is_new(const int32_t *text_ids, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (text_ids[k] == text_ids[i] && text_ids[k + 1] == text_ids[i + 1])
            return 0;
    return 1;
}

static sr1_status make_rules(struct rules *r)
{
    int32_t seen[8];
    size_t n_seen = 0;

    SR1__TRY(sr1_tokenizer_encode(r->tokenizer, text, strlen(text), SR1_ENCODE_ALL_ADDED,
                                  &r->text, &r->n));
    for (size_t i = 0; i + 1 < r->n; i++)
        if (is_new(r->text, i))
            follow(r, r->text[i], r->text[i + 1]);
    for (size_t i = 0; i < sizeof before / sizeof *before; i++) {
        int32_t *ids = NULL, last;
        size_t n = 0, k = 0;

        SR1__TRY(sr1_tokenizer_encode(r->tokenizer, before[i], strlen(before[i]),
                                      SR1_ENCODE_ALL_ADDED, &ids, &n));
        last = ids[n - 1];
        sr1_free(ids);
        while (k < n_seen && seen[k] != last)
            k++;
        if (k < n_seen)
            continue;
        seen[n_seen++] = last;
        follow(r, last, r->text[0]);
    }
    printf("{\"what\": \"searcher\", \"text_tokens\": %zu}\n", r->n);
    return SR1_OK;
}

static sr1_status overwrite(sr1_tensor *t, const float *v, int64_t rows)
{
    sr1_scope *s = sr1__scope_open(SR1__CPU, "weights");

    sr1__scope_no_grad(s);
    t_copy_(s, t, t_from_f32(s, v, T_SHAPE(rows, HIDDEN)));
    return sr1__scope_close(s);
}

static sr1_status quieten(sr1_model *m)
{
    sr1_scope *s = sr1__scope_open(SR1__CPU, "weights");

    sr1__scope_no_grad(s);
    for (int64_t i = 0; i < m->config.n_layers; i++) {
        t_mul_scalar_(s, m->layers[i].o, QUIET);
        t_mul_scalar_(s, m->layers[i].down, QUIET);
    }
    return sr1__scope_close(s);
}

static sr1_status teach(sr1_model *m, const sr1_tokenizer *t)
{
    size_t rows = (size_t)m->config.vocab_size;
    float *embed = calloc(rows * HIDDEN, sizeof *embed);
    struct rules r = {
        .tokenizer = t, .embed = embed, .head = calloc(rows * HIDDEN, sizeof *embed)};
    struct sr1__rng rng;
    sr1_status st = embed && r.head ? SR1_OK : sr1_set_error(SR1_E_NOMEM, "embedding");

    sr1__rng_seed(&rng, 3, 0);
    for (size_t i = 0; st == SR1_OK && i < rows * HIDDEN; i++)
        embed[i] = (float)sr1__rng_normal(&rng);
    if (st == SR1_OK)
        st = make_rules(&r);
    if (st == SR1_OK)
        st = overwrite(m->embed, embed, m->config.vocab_size);
    if (st == SR1_OK)
        st = overwrite(m->head, r.head, m->config.vocab_size);
    if (st == SR1_OK)
        st = quieten(m);
    sr1_free(r.text);
    free(r.head);
    free(embed);
    return st;
}

int main(int argc, char **argv)
{
    sr1_model_options o = {.struct_size = sizeof o, .device = "cpu", .dtype = "fp32"};
    sr1_tokenizer *t = NULL;
    sr1_model *m = NULL;
    sr1_status st;

    if (argc < 3 || argc > 4) {
        fprintf(stderr, "usage: bench_searcher TOKENIZER_FOLDER FOLDER [fp32|bf16]\n");
        return 2;
    }
    if (argc > 3)
        o.dtype = argv[3];
    st = sr1_tokenizer_open(&t, argv[1]);
    if (st == SR1_OK)
        st = sr1_model_new_random(&m, config, 1, &o);
    if (st == SR1_OK)
        st = teach(m, t);
    if (st == SR1_OK)
        st = sr1_model_save(m, argv[2]);
    if (st != SR1_OK)
        fprintf(stderr, "bench_searcher: %s\n", sr1_last_error());
    sr1_model_free(m);
    sr1_tokenizer_free(t);
    return st != SR1_OK;
}
