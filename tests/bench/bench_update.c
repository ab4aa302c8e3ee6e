/* One policy update on equal work: forward with log-probs of the completion tokens,
 * backward, clipping and AdamW, for SEQS sequences of PROMPT + NEW tokens without
 * padding. usage: bench_update [threads] [seqs] [prompt] [new] [reps] [checkpoint] Prints
 * medians in seconds; the same work in plain PyTorch is the peer. */
#include "base/clock.h"
#include "base/rng.h"
#include "tensor/model/model.h"

#include <searchr1/ext/model_details.h>

#include <stdio.h>
#include <stdlib.h>

static const char tiny[] =
    "{\"model_type\":\"qwen3\",\"architectures\":[\"Qwen3ForCausalLM\"],\"hidden_size\":"
    "256,"
    "\"num_hidden_layers\":4,\"num_attention_heads\":4,\"num_key_value_heads\":2,"
    "\"head_dim\":64,\"intermediate_size\":768,\"vocab_size\":1024,"
    "\"max_position_embeddings\":4096,\"rms_norm_eps\":1e-6,\"rope_theta\":1000000.0,"
    "\"tie_word_embeddings\":true,\"hidden_act\":\"silu\",\"torch_dtype\":\"float32\"}";

struct work {
    int64_t seqs;
    int64_t prompt;
    int64_t fresh;
    int checkpoint;
    int32_t *ids;
    int64_t *cu_seqlens;
    int64_t *rows;
    int64_t *targets;
    float *grad;
};

static void fill(struct work *w, int64_t vocab)
{
    int64_t len = w->prompt + w->fresh;
    int64_t at = 0;
    struct sr1__rng rng;

    sr1__rng_seed(&rng, 9, 0);
    w->ids = malloc((size_t)(w->seqs * len) * sizeof *w->ids);
    w->cu_seqlens = malloc((size_t)(w->seqs + 1) * sizeof *w->cu_seqlens);
    w->rows = malloc((size_t)(w->seqs * w->fresh) * sizeof *w->rows);
    w->targets = malloc((size_t)(w->seqs * w->fresh) * sizeof *w->targets);
    w->grad = malloc((size_t)(w->seqs * w->fresh) * sizeof *w->grad);
    for (int64_t i = 0; i < w->seqs * len; i++)
        w->ids[i] = (int32_t)sr1__rng_below(&rng, (uint64_t)vocab);
    for (int64_t b = 0; b <= w->seqs; b++)
        w->cu_seqlens[b] = b * len;
    for (int64_t b = 0; b < w->seqs; b++)
        for (int64_t t = 0; t < w->fresh; t++, at++) {
            w->rows[at] = b * len + w->prompt - 1 + t;
            w->targets[at] = w->ids[w->rows[at] + 1];
            w->grad[at] = (float)(sr1__rng_normal(&rng) / (double)(w->seqs * w->fresh));
        }
}

/* seconds[0..2]: forward, backward, clip and AdamW */
static sr1_status step(sr1_model *m, struct sr1__optimizer *o, const struct work *w,
                       double *seconds)
{
    sr1_scope *s = sr1__scope_open(m->device, "bench");
    struct sr1__packed in = {w->ids, w->cu_seqlens, (size_t)w->seqs};
    struct sr1__forward_options opt = {w->checkpoint};
    int64_t n = w->seqs * w->fresh;
    double t0 = sr1__now();
    sr1_tensor *h = sr1__causal_lm_forward(s, m, &in, &opt);
    sr1_tensor *lp;

    h = t_index_select(s, h, 0, t_from_i64(s, w->rows, T_SHAPE(n)));
    lp = sr1__nn_token_log_probs(s, h, m->head, t_from_i64(s, w->targets, T_SHAPE(n)),
                                 1.0, 0, NULL);
    (void)t_item(s, t_sum(s, lp));
    seconds[0] = sr1__now() - t0;
    t_backward_with(s, lp, t_from_f32(s, w->grad, T_SHAPE(n)));
    seconds[1] = sr1__now() - t0 - seconds[0];
    SR1__TRY(sr1__scope_close(s));
    SR1__TRY(sr1__optimizer_step(o, NULL, 1e-6, 1.0, 1.0, NULL));
    seconds[2] = sr1__now() - t0 - seconds[0] - seconds[1];
    return SR1_OK;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return x < y ? -1 : x > y;
}

static double median(double *v, int n)
{
    qsort(v, (size_t)n, sizeof *v, ascending);
    return v[n / 2];
}

static sr1_status run(struct work *w, int reps, int32_t threads)
{
    sr1_model_options mo = {
        .struct_size = sizeof mo, .device = "cpu", .threads = threads};
    struct sr1__adamw adamw = {0.9, 0.999, 1e-8, 0.0};
    struct sr1__optimizer *o = NULL;
    sr1_model *m = NULL;
    double all[4][100];

    SR1__TRY(sr1_model_new_random(&m, tiny, 1, &mo));
    SR1__TRY(sr1__model_train(m, 1));
    SR1__TRY(sr1__optimizer_new(&o, m->params, m->n_params, &adamw, m->device));
    fill(w, sr1_model_info(m, SR1_MODEL_VOCAB));
    for (int r = -1; r < reps; r++) {
        double s[3];

        SR1__TRY(step(m, o, w, s));
        for (int i = 0; i < 3 && r >= 0; i++)
            all[i][r] = s[i];
        if (r >= 0)
            all[3][r] = s[0] + s[1] + s[2];
    }
    printf("{\"what\": \"update\", \"threads\": %d, \"seqs\": %lld, \"tokens\": %lld, "
           "\"forward\": %.4f, \"backward\": %.4f, \"clip_and_adamw\": %.4f, "
           "\"step\": %.4f, \"peak_rss_mib\": %lld}\n",
           (int)sr1__torch_threads_get(), (long long)w->seqs,
           (long long)(w->seqs * (w->prompt + w->fresh)), median(all[0], reps),
           median(all[1], reps), median(all[2], reps), median(all[3], reps),
           (long long)(sr1__peak_rss_bytes() >> 20));
    sr1__optimizer_free(o);
    sr1_model_free(m);
    return SR1_OK;
}

static int arg(int argc, char **argv, int i, int otherwise)
{
    return argc > i ? atoi(argv[i]) : otherwise;
}

int main(int argc, char **argv)
{
    struct work w = {.seqs = arg(argc, argv, 2, 64),
                     .prompt = arg(argc, argv, 3, 64),
                     .fresh = arg(argc, argv, 4, 64),
                     .checkpoint = arg(argc, argv, 6, 0)};
    int reps = arg(argc, argv, 5, 7);

    if (reps > 100 || run(&w, reps, arg(argc, argv, 1, 2)) != SR1_OK) {
        fprintf(stderr, "%s\n", sr1_last_error());
        return 1;
    }
    return 0;
}
