/* decode MODEL BATCH[,BATCH...] [PROMPT NEW REPS]: sampling at temperature 1 with fixed
 * lengths; one JSON object a batch, the same figures as a run of transformers'
 * generate(). decode MODEL greedy [PROMPT NEW]: the ids of one greedy continuation. */
#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "tensor/model/host_weights.h"
#include "tensor/model/model_decoder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* QUANTIZATION=int8, as the key `quantization`. */
static int asked_for_int8(void)
{
    const char *how = getenv("QUANTIZATION");

    return how && strcmp(how, "int8") == 0;
}

/* KV_CACHE_DTYPE=bfloat16, as the key `kv_cache_dtype`. */
static int asked_for_narrow_cache(void)
{
    const char *how = getenv("KV_CACHE_DTYPE");

    return how && strcmp(how, "bfloat16") == 0;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *v, size_t n)
{
    qsort(v, n, sizeof *v, by_value);
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

struct run {
    struct sr1__decoder *d;
    int32_t batch;
    int32_t *prompts; /* [batch, prompt] */
    size_t prompt;
};

/* Prefill and n_new - 1 decode steps: seconds until the first tokens are drawn, and until
 * the last are. */
static sr1_status generate(const struct run *r, size_t n_new, double *first, double *all)
{
    static const struct sr1__sampling sampling = {1.0, 0, 1.0};
    struct sr1__decode_input feeds[256];
    struct sr1__rng streams[256];
    struct sr1__rng *rngs[256];
    int32_t rows[256];
    int32_t next[256];
    float log_probs[256];
    double start = sr1__now();

    for (int32_t i = 0; i < r->batch; i++) {
        sr1__decoder_clear(r->d, i);
        sr1__rng_seed(&streams[i], 1, (uint64_t)i);
        rngs[i] = &streams[i];
        rows[i] = i;
        feeds[i] =
            (struct sr1__decode_input){i, r->prompts + (size_t)i * r->prompt, r->prompt};
    }
    for (size_t t = 0; t < n_new; t++) {
        SR1__TRY(sr1__decoder_decode(r->d, feeds, (size_t)r->batch));
        SR1__TRY(sr1__decoder_sample(r->d, rows, (size_t)r->batch, &sampling, rngs, next,
                                     log_probs, NULL));
        for (int32_t i = 0; i < r->batch; i++)
            feeds[i] = (struct sr1__decode_input){i, &next[i], 1};
        if (t == 0)
            *first = sr1__now() - start;
    }
    *all = sr1__now() - start;
    return SR1_OK;
}

/* Bytes of weights that a step reads, and products of two numbers that a token takes in
 * them. */
static double count_step_bytes(const sr1_model *m)
{
    return sr1__host_panels_bytes(&m->config, m->dtype == SR1__BF16, asked_for_int8());
}

/* What the first decoding after an update costs more: weights packed, by two threads. */
static int measure_packing(sr1_model *m)
{
    double seconds[3];
    struct sr1__team *team = NULL;
    struct sr1__host_weights *w = NULL;
    sr1_status st = SR1_OK;

    if (!sr1__host_supports(m))
        return 0;
    st = sr1__team_new(&team, 2);
    for (size_t i = 0; i < 3 && st == SR1_OK; i++) {
        seconds[i] = sr1__now();
        st = sr1__host_weights_renew(&w, m, asked_for_int8(), team);
        seconds[i] = sr1__now() - seconds[i];
        sr1__host_weights_release(&w, m);
    }
    sr1__team_free(team);
    if (st != SR1_OK)
        return 1;
    printf("{\"what\": \"packing\", \"dtype\": \"%s\", \"bytes\": %.0f, "
           "\"pack_s\": %.4f}\n",
           sr1_model_dtype(m), count_step_bytes(m), median(seconds, 3));
    return 0;
}

/* Bytes of keys and values that a step in the middle reads, all rows together. */
static double count_cache_reads(const sr1_model *m, const struct run *r, size_t n_new)
{
    const struct sr1__hf_config *c = &m->config;

    return (double)r->batch * ((double)r->prompt + (double)n_new / 2) *
           (double)(2 * c->n_layers * c->n_kv_heads * c->head_dim) *
           (asked_for_narrow_cache() ? 2.0 : (double)sr1__torch_dtype_size(m->dtype));
}

/* What only a device has: its graphs of steps, and the highest that it held. */
static void print_device(const sr1_model *m, const struct run *r, size_t n_new)
{
    struct sr1__decoder_stats stats;
    int64_t now = 0, peak = 0;

    if (m->device == SR1__CPU)
        return;
    sr1__decoder_stats(r->d, &stats);
    (void)sr1__device_memory(m->device, &now, &peak);
    printf(", \"graph_captures\": %lld, \"graph_replays\": %lld, "
           "\"cache_step_bytes\": %.0f, \"device_peak_bytes\": %lld",
           (long long)stats.graphs.captures, (long long)stats.graphs.replays,
           count_cache_reads(m, r, n_new), (long long)peak);
}

static int32_t *make_prompts(const sr1_model *m, size_t n)
{
    int32_t *ids = malloc(n * sizeof *ids);
    struct sr1__rng rng;

    sr1__rng_seed(&rng, 3, 0);
    for (size_t i = 0; i < n; i++)
        ids[i] = (int32_t)(3 + sr1__rng_below(&rng, (uint64_t)m->config.vocab_size - 3));
    return ids;
}

static void print_ids(const char *name, const int32_t *ids, size_t n)
{
    printf(", \"%s\": [", name);
    for (size_t i = 0; i < n; i++)
        printf("%s%d", i > 0 ? ", " : "", (int)ids[i]);
    printf("]");
}

static int print_greedy(sr1_model *m, size_t prompt, size_t n_new)
{
    static const struct sr1__sampling greedy = {0.0, 0, 1.0};
    static const int32_t row;
    int32_t *ids = make_prompts(m, prompt), *next = calloc(n_new, sizeof *next);
    struct sr1__decode_input feed = {0, ids, prompt};
    struct sr1__decoder *d = NULL;
    sr1_status st = sr1__decoder_new(&d, m, 1, (int64_t)(prompt + n_new));

    for (size_t i = 0; i < n_new && st == SR1_OK; i++) {
        st = sr1__decoder_decode(d, &feed, 1);
        if (st == SR1_OK)
            st = sr1__decoder_sample(d, &row, 1, &greedy, NULL, &next[i], NULL, NULL);
        feed = (struct sr1__decode_input){0, &next[i], 1};
    }
    printf("{\"what\": \"greedy\"");
    print_ids("prompt", ids, prompt);
    print_ids("ids", next, n_new);
    printf("}\n");
    sr1__decoder_free(d);
    free(next);
    free(ids);
    return st != SR1_OK;
}

static int measure(sr1_model *m, int32_t batch, size_t prompt, size_t n_new, size_t reps)
{
    struct run r = {.batch = batch, .prompt = prompt};
    double one[100];
    double full[100];
    struct sr1__decoder_stats stats;
    double first = 0;
    double all = 0;

    r.prompts = make_prompts(m, (size_t)batch * prompt);
    if (sr1__decoder_new(&r.d, m, batch, (int64_t)(prompt + n_new)) != SR1_OK ||
        (asked_for_int8() && sr1__decoder_quantize(r.d) != SR1_OK) ||
        (asked_for_narrow_cache() && sr1__decoder_narrow_cache(r.d) != SR1_OK))
        return 1;
    for (size_t i = 0; i <= reps; i++) { /* the first is a warm-up */
        size_t kept = i > 0 ? i - 1 : 0;

        if (generate(&r, i > 0 ? n_new : 4, &one[kept], &full[kept]) != SR1_OK)
            return 1;
    }
    sr1__decoder_stats(r.d, &stats);
    first = median(one, reps);
    all = median(full, reps);
    printf(
        "{\"what\": \"decode\", \"dtype\": \"%s\", \"batch\": %d, \"prompt\": %zu, "
        "\"new\": %zu, "
        "\"tok_s\": %.2f, \"total_s\": %.4f, \"prefill_plus_1_s\": %.4f, "
        "\"decode_tok_s\": %.2f, \"ms_per_decode_step\": %.3f, "
        "\"prefill_tok_s\": %.1f, \"step_bytes\": %.0f, \"head_params\": %lld, "
        "\"cache_mib\": %.1f, \"peak_rss_mib\": %lld",
        sr1_model_dtype(m), (int)batch, prompt, n_new,
        (double)batch * (double)n_new / all, all, first,
        (double)batch * (double)(n_new - 1) / (all - first),
        (all - first) / (double)(n_new - 1) * 1e3, (double)batch * (double)prompt / first,
        count_step_bytes(m), (long long)(m->config.vocab_size * m->config.hidden_size),
        (double)stats.cache_bytes / 1048576.0, (long long)(sr1__peak_rss_bytes() >> 20));
    print_device(m, &r, n_new);
    printf("}\n");
    fflush(stdout);
    sr1__decoder_free(r.d);
    free(r.prompts);
    return 0;
}

int main(int argc, char **argv)
{
    sr1_model_options options = {.struct_size = sizeof options, .device = "cpu"};
    sr1_model *m = NULL;
    size_t prompt = argc > 3 ? (size_t)atoi(argv[3]) : 128;
    size_t n_new = argc > 4 ? (size_t)atoi(argv[4]) : 128;
    size_t reps = argc > 5 ? (size_t)atoi(argv[5]) : 3;
    int failed = 0;

    if (argc < 3 || prompt < 1 || n_new < 2 || reps < 1 || reps > 100) {
        fprintf(stderr, "usage: decode MODEL BATCH[,BATCH...] [PROMPT NEW REPS]\n");
        return 2;
    }
    if (getenv("DEVICE"))
        options.device = getenv("DEVICE"); /* cpu or cuda; the default is cpu */
    options.dtype = getenv("DTYPE");       /* fp32 or bf16; the default is fp32 */
    options.threads = getenv("THREADS") ? atoi(getenv("THREADS")) : 2;
    failed = sr1_model_open(&m, argv[1], &options) != SR1_OK;
    if (!failed && strcmp(argv[2], "greedy") == 0) {
        failed = print_greedy(m, prompt, n_new);
        sr1_model_free(m);
        return failed;
    }
    failed = failed || measure_packing(m);
    for (char *b = failed ? NULL : strtok(argv[2], ","); b && !failed;
         b = strtok(NULL, ","))
        failed = atoi(b) < 1 || atoi(b) > 256 ||
                 measure(m, (int32_t)atoi(b), prompt, n_new, reps);
    if (failed)
        fprintf(stderr, "decode: %s\n", sr1_last_error());
    sr1_model_free(m);
    return failed;
}
