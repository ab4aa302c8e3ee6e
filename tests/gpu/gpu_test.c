/* The library on another device against the library on the CPU: logits, rollouts, one
 * update, kinds of training, mixed precision, resuming, keys that change no bit, text
 * encoders, exact search.
 * usage: gpu_test MODEL_FOLDER SCRATCH_FOLDER [DEVICE [ENCODERS_FOLDER]]
 *
 * DEVICE is cuda; with cpu the program checks itself. The model is one that bench_model
 * wrote; the encoders are those of tests/golden/encoder. Exit status: 0 passed, 1
 * something failed, 77 there is no such device. */
#include "bench/bench.h"

#include <searchr1/ext/dense.h>
#include <searchr1/ext/embed.h>
#include <searchr1/ext/model_details.h>
#include <searchr1/ext/trajectory_details.h>

#include <math.h>
#include <stdarg.h>

#define GROUP 4
#define QUESTIONS 4
#define ALL (GROUP * QUESTIONS)
#define NEW "32"

struct bed {
    const char *model;
    const char *scratch;
    const char *device;
    const char *encoders; /* NULL: none */
    char out[512];
    struct bench_questions q;
};

/* ---- reports ---- */

static int passed, failed;

static void check(int good, const char *what, const char *fmt, ...)
{
    va_list ap;

    passed += good;
    failed += !good;
    printf("%s %s: ", good ? "ok    " : "FAILED", what);
    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    printf("\n");
    fflush(stdout);
}

static void check_status(sr1_status st, const char *what)
{
    if (st != SR1_OK)
        check(0, what, "%s: %s", sr1_status_name(st), sr1_last_error());
}

/* ---- pieces ---- */

/* A configuration on a device, then more words up to NULL. */
static sr1_status configure(sr1_config **out, const struct bed *b, const char *device,
                            const char *dtype, const char *const *more)
{
    char model[1024], on[64], in[64], to[600];
    const char *words[16] = {
        model,      on, in, to, "max_tokens=" NEW, "group_size=4", "learning_rate=1e-4",
        "beta=0.04"};
    size_t n = 8;

    snprintf(model, sizeof model, "model_name_or_path=%s", b->model);
    snprintf(on, sizeof on, "device=%s", device);
    snprintf(in, sizeof in, "dtype=%s", dtype);
    snprintf(to, sizeof to, "out=%s", b->out);
    for (; more && *more && n < 15; more++)
        words[n++] = *more;
    return bench_config(out, words);
}

static sr1_status open_trainer(sr1_trainer **out, const struct bed *b, const char *device,
                               const char *dtype, const char *const *more)
{
    sr1_config *c = NULL;
    sr1_status st = configure(&c, b, device, dtype, more);

    if (st == SR1_OK)
        st = sr1_trainer_new(out, c, NULL);
    sr1_config_free(c);
    return st;
}

#define PROBE 48

/* Logits after PROBE fixed tokens; *out is the caller's. */
static sr1_status probe(sr1_model *m, float **out, size_t *n)
{
    int32_t ids[PROBE];

    for (int32_t i = 0; i < PROBE; i++)
        ids[i] = (i * 37 + 11) % 256;
    *n = PROBE * (size_t)sr1_model_info(m, SR1_MODEL_VOCAB);
    *out = calloc(*n, sizeof **out);
    return *out ? sr1_model_logits(m, ids, PROBE, *out)
                : sr1_set_error(SR1_E_NOMEM, "logits");
}

struct apart {
    double max;
    double mean;
};

static struct apart compare(const float *a, const float *b, size_t n)
{
    struct apart d = {0};

    for (size_t i = 0; i < n; i++) {
        double x = fabs((double)a[i] - b[i]);

        d.max = x <= d.max ? d.max : x; /* NaN stays */
        d.mean += x / (double)n;
    }
    return d;
}

static void free_all(sr1_trajectory **t)
{
    for (size_t i = 0; i < ALL; i++)
        sr1_trajectory_free(t[i]);
}

/* ---- logits ---- */

static sr1_status logits_of(const struct bed *b, const char *device, const char *dtype,
                            float **out, size_t *n)
{
    sr1_model_options o = {.struct_size = sizeof o, .device = device, .dtype = dtype};
    sr1_model *m = NULL;
    sr1_status st = sr1_model_open(&m, b->model, &o);

    if (st == SR1_OK)
        st = probe(m, out, n);
    sr1_model_free(m);
    return st;
}

static void test_logits(struct bed *b, const char *dtype, double limit)
{
    float *here = NULL, *there = NULL;
    char what[64];
    size_t n = 0;
    sr1_status st = logits_of(b, b->device, dtype, &there, &n);

    snprintf(what, sizeof what, "logits %s, fp32 CPU", dtype);
    if (st == SR1_OK)
        st = logits_of(b, "cpu", "fp32", &here, &n);
    check_status(st, what);
    if (st == SR1_OK) {
        struct apart d = compare(here, there, n);

        check(d.max <= limit, what, "largest difference %.3g (at most %g), mean %.3g",
              d.max, limit, d.mean);
    }
    free(here);
    free(there);
}

/* ---- rollouts against the training forward, on the device ---- */

static sr1_status differences(struct bed *b, const char *dtype, struct apart *d)
{
    sr1_config *c = NULL;
    sr1_rollout *r = NULL;
    sr1_trajectory *t[ALL] = {NULL};
    sr1_rollout_options o = {.struct_size = sizeof o, .group_size = GROUP, .seed = 5};
    float then[ALL * 64], now[ALL * 64];
    size_t total = 0;
    sr1_status st = configure(&c, b, b->device, dtype, NULL);

    if (st == SR1_OK)
        st = sr1_rollout_new(&r, c, NULL, NULL, NULL);
    if (st == SR1_OK)
        st = bench_make_questions(&b->q, sr1_rollout_tokenizer(r), QUESTIONS, 64);
    if (st == SR1_OK)
        st = sr1_rollout_generate(r, b->q.query, QUESTIONS, &o, t);
    for (size_t i = 0; st == SR1_OK && i < ALL; i++) {
        size_t n = sr1_trajectory_policy_count(t[i]);

        memcpy(then + total, sr1_trajectory_policy_log_probs(t[i]), n * sizeof *then);
        total += n;
    }
    if (st == SR1_OK)
        st = sr1_rollout_log_probs(r, (const sr1_trajectory *const *)t, ALL, now, total);
    if (st == SR1_OK)
        *d = compare(then, now, total);
    free_all(t);
    sr1_rollout_free(r);
    sr1_config_free(c);
    return st;
}

static void test_log_probs(struct bed *b, const char *dtype, double max, double mean)
{
    struct apart d = {0};
    char what[64];
    sr1_status st = differences(b, dtype, &d);

    snprintf(what, sizeof what, "rollout log-probs %s", dtype);
    check_status(st, what);
    if (st == SR1_OK)
        check(d.max <= max && d.mean <= mean, what,
              "against the training forward: largest %.3g, mean %.3g", d.max, d.mean);
}

static char lacking[400]; /* what decoding has said of kernels that it lacks */

static void keep_warning(void *user, int32_t level, const char *text)
{
    (void)user;
    if (level == SR1_LOG_WARN && strstr(text, "more in each layer"))
        snprintf(lacking, sizeof lacking, "%s", text);
}

/* After rollouts. */
static void test_own_kernels(void)
{
    check(!*lacking, "kernels of decoding", "%s", *lacking ? lacking : "none is missing");
}

/* ---- one update from the same trajectories ---- */

static sr1_status rewarded(sr1_trainer *tr, struct bed *b, sr1_trajectory **t)
{
    sr1_rollout *r = sr1_trainer_rollout(tr);
    sr1_rollout_options o = {.struct_size = sizeof o, .group_size = GROUP, .seed = 9};

    BENCH_TRY(bench_make_questions(&b->q, sr1_rollout_tokenizer(r), QUESTIONS, 64));
    BENCH_TRY(sr1_rollout_generate(r, b->q.query, QUESTIONS, &o, t));
    for (size_t i = 0; i < ALL; i++) {
        BENCH_TRY(sr1_trajectory_set_reward(t[i], (double)(i % GROUP)));
        BENCH_TRY(sr1_trajectory_set_advantage(t[i], (double)(i % GROUP) - 1.5));
    }
    return SR1_OK;
}

static sr1_status both_update(struct bed *b, sr1_step_report report[2], struct apart *d)
{
    sr1_trainer *tr[2] = {NULL, NULL}; /* the device's first: it comes before training */
    const char *device[2] = {b->device, "cpu"};
    sr1_trajectory *t[ALL] = {NULL};
    float *logits[2] = {NULL, NULL};
    size_t n = 0;
    sr1_status st = SR1_OK;

    for (int i = 0; i < 2 && st == SR1_OK; i++)
        st = open_trainer(&tr[i], b, device[i], "fp32", NULL);
    if (st == SR1_OK)
        st = rewarded(tr[1], b, t);
    for (int i = 0; i < 2 && st == SR1_OK; i++) {
        report[i] = (sr1_step_report){.struct_size = sizeof report[i]};
        st = sr1_trainer_update(tr[i], t, ALL, &report[i]);
        if (st == SR1_OK)
            st = probe(sr1_rollout_model(sr1_trainer_rollout(tr[i])), &logits[i], &n);
    }
    if (st == SR1_OK)
        *d = compare(logits[0], logits[1], n);
    free_all(t);
    for (int i = 0; i < 2; i++) {
        free(logits[i]);
        sr1_trainer_free(tr[i]);
    }
    return st;
}

static void test_update(struct bed *b)
{
    sr1_step_report r[2];
    struct apart d = {0};
    sr1_status st = both_update(b, r, &d);

    check_status(st, "one update fp32");
    if (st != SR1_OK)
        return;
    check(fabs(r[0].grad_norm - r[1].grad_norm) <= 1e-3 * r[1].grad_norm,
          "gradient norm fp32", "%.6g, on the CPU %.6g", r[0].grad_norm, r[1].grad_norm);
    check(d.max <= 0.02, "logits after one update fp32",
          "largest difference %.3g, mean %.3g", d.max, d.mean);
}

/* ---- whole steps in mixed precision ---- */

/* skipped: updates, of all steps and of the last one; *apart: log-probs, in the last one.
 */
static sr1_status steps(struct bed *b, const char *device, const char *dtype,
                        const char *const *more, int n, double skipped[2], double *apart,
                        sr1_step_report *last)
{
    sr1_trainer *tr = NULL;
    sr1_status st = open_trainer(&tr, b, device, dtype, more);

    if (st == SR1_OK)
        st = bench_add_reward(tr);
    if (st == SR1_OK)
        st = bench_make_questions(&b->q, sr1_rollout_tokenizer(sr1_trainer_rollout(tr)),
                                  QUESTIONS, 64);
    skipped[0] = skipped[1] = 0;
    for (int i = 0; i < n && st == SR1_OK; i++) {
        *last = (sr1_step_report){.struct_size = sizeof *last};
        st = sr1_trainer_train_step(tr, b->q.query, QUESTIONS, 0, last, NULL);
        if (st != SR1_OK)
            break;
        (void)sr1_step_metric(last, "training/skipped_updates", &skipped[1]);
        (void)sr1_step_metric(last, "sampling/sampling_logp_difference/mean", apart);
        skipped[0] += skipped[1];
    }
    sr1_trainer_free(tr);
    return st;
}

static void test_steps(struct bed *b, const char *dtype, const char *const *more, int n,
                       int overflows)
{
    double skipped[2] = {0, 0}, apart = 0;
    sr1_step_report r = {0};
    char what[64];
    sr1_status st = steps(b, b->device, dtype, more, n, skipped, &apart, &r);

    snprintf(what, sizeof what, "%d steps %s%s", n, dtype,
             overflows ? ", overflowing" : "");
    check_status(st, what);
    if (st == SR1_OK)
        check(isfinite(r.loss) && skipped[1] == 0 && (skipped[0] > 0) == overflows, what,
              "loss %.3g, gradient norm %.3g, %.0f skipped, log-probs apart %.2g", r.loss,
              r.grad_norm, skipped[0], apart);
}

/* ---- kinds of training, beside the CPU ---- */

static void test_kind(struct bed *b, const char *kind, const char *const *more)
{
    const char *device[2] = {b->device, "cpu"};
    double skipped[2] = {0, 0}, apart = 0;
    sr1_step_report r[2] = {{0}};
    char what[64];
    sr1_status st = SR1_OK;

    snprintf(what, sizeof what, "a step fp32, %s", kind);
    for (int i = 0; i < 2 && st == SR1_OK; i++)
        st = steps(b, device[i], "fp32", more, 1, skipped, &apart, &r[i]);
    check_status(st, what);
    if (st == SR1_OK)
        check(fabs(r[0].grad_norm - r[1].grad_norm) <= 0.01 * r[1].grad_norm &&
                  r[1].grad_norm > 0,
              what, "gradient norm %.6g, on the CPU %.6g", r[0].grad_norm,
              r[1].grad_norm);
}

static void test_kinds(struct bed *b)
{
    static const struct {
        const char *name;
        const char *const more[4];
    } kinds[] = {
        {"LoRA", {"lora_rank=8", "lora_alpha=16"}},
        {"checkpointing", {"gradient_checkpointing=true"}},
        {"PPO", {"advantage=gae", "kl_reference=frozen"}},
        {"int8 reference", {"kl_reference=frozen", "reference_quantization=int8"}},
        {"offloading",
         {"kl_reference=frozen", "optimizer_offload=true", "reference_offload=true"}},
        {"short micro-batches", {"micro_batch_tokens=256"}},
    };

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        test_kind(b, kinds[i].name, kinds[i].more);
}

/* ---- resuming ---- */

struct stopper {
    sr1_trainer *trainer;
    int64_t at; /* 0: never */
};

static sr1_status stop_at(void *user, const sr1_step_report *r, int64_t planned)
{
    struct stopper *s = user;

    (void)planned;
    if (r->step == s->at)
        sr1_trainer_stop(s->trainer);
    return SR1_OK;
}

static sr1_status run(sr1_trainer *tr, int64_t stop)
{
    struct stopper s = {tr, stop};
    sr1_run_callbacks cb = {.struct_size = sizeof cb, .user = &s, .step = stop_at};
    sr1_status st = sr1_trainer_run(tr, &cb);

    return stop && st == SR1_E_CANCELLED ? SR1_OK : st;
}

/* Four steps, stopped and resumed after the second if asked; the logits at the end. */
static sr1_status four_steps(struct bed *b, const char *name, const char *of,
                             const char *dtype, const char *const *data, int64_t stop,
                             float **out, size_t *n)
{
    sr1_trainer *tr = NULL;
    sr1_status st;

    snprintf(b->out, sizeof b->out, "%s/%s-%s", b->scratch, name, of);
    st = open_trainer(&tr, b, b->device, dtype, data);
    if (st == SR1_OK)
        st = run(tr, stop);
    if (st == SR1_OK && stop) {
        sr1_trainer_free(tr);
        tr = NULL;
        st = sr1_trainer_resume(&tr, b->out, NULL);
        if (st == SR1_OK)
            st = run(tr, 0);
    }
    if (st == SR1_OK)
        st = probe(sr1_rollout_model(sr1_trainer_rollout(tr)), out, n);
    sr1_trainer_free(tr);
    return st;
}

static sr1_status write_questions(const char *path)
{
    FILE *f = fopen(path, "w");

    for (int i = 0; f && i < 16; i++)
        fprintf(f, "{\"question\": \"what is %d?\", \"golden_answers\": [\"%d\"]}\n", i,
                i * i);
    return f && fclose(f) == 0 ? SR1_OK : sr1_set_error(SR1_E_IO, path);
}

static void test_resume(struct bed *b, const char *dtype)
{
    char file[600], path[512], what[64];
    const char *data[] = {file, "max_steps=4", "batch_size=2", "save_final_model=false",
                          NULL};
    float *whole = NULL, *parts = NULL;
    size_t n = 0;
    sr1_status st;

    snprintf(what, sizeof what, "resumed %s, bit for bit", dtype);
    snprintf(path, sizeof path, "%s/questions.jsonl", b->scratch);
    snprintf(file, sizeof file, "train_file=%s", path);
    st = write_questions(path);
    if (st == SR1_OK)
        st = four_steps(b, "whole", dtype, dtype, data, 0, &whole, &n);
    if (st == SR1_OK)
        st = four_steps(b, "parts", dtype, dtype, data, 2, &parts, &n);
    check_status(st, what);
    if (st == SR1_OK) {
        struct apart d = compare(whole, parts, n);

        check(memcmp(whole, parts, n * sizeof *whole) == 0, what,
              "logits after four steps differ by at most %.3g", d.max);
    }
    free(whole);
    free(parts);
}

/* ---- keys that change no bit ---- */

static void test_same(struct bed *b, const char *what, const char *one, const char *other)
{
    char file[600];
    const char *with[2][6] = {
        {file, "max_steps=4", "batch_size=2", "save_final_model=false", one},
        {file, "max_steps=4", "batch_size=2", "save_final_model=false", other}};
    float *a = NULL, *c = NULL;
    size_t n = 0;
    sr1_status st;

    snprintf(file, sizeof file, "train_file=%s/questions.jsonl", b->scratch);
    st = four_steps(b, "one", what, "bf16", with[0], 0, &a, &n);
    if (st == SR1_OK)
        st = four_steps(b, "other", what, "bf16", with[1], 0, &c, &n);
    check_status(st, what);
    if (st == SR1_OK)
        check(memcmp(a, c, n * sizeof *a) == 0, what,
              "logits after four steps differ by at most %.3g", compare(a, c, n).max);
    free(a);
    free(c);
}

/* ---- encoders: padded batches there, none here ---- */

#define TEXTS 5
#define DIM_MAX 64

static sr1_status vectors_of(const struct bed *b, const char *name, const char *device,
                             const char *dtype, float *out, size_t *n)
{
    static const char *const texts[TEXTS] = {"who built the tower", "rome",
                                             "the river stands in paris and rome is old",
                                             "what is the river of paris?", "the tower"};
    sr1_encoder_options o;
    sr1_embedder *e = NULL;
    char folder[600];
    sr1_status st;

    snprintf(folder, sizeof folder, "%s/%s", b->encoders, name);
    sr1_encoder_options_init(&o);
    o.device = device;
    o.dtype = dtype;
    st = sr1_embedder_open(&e, folder, &o);
    *n = TEXTS * (size_t)sr1_embedder_dim(e);
    if (st == SR1_OK)
        st = sr1_embedder_embed(e, texts, TEXTS, SR1_EMBED_QUERY, out);
    sr1_embedder_free(e);
    return st;
}

static void test_encoder(struct bed *b, const char *name, const char *dtype, double limit)
{
    float here[TEXTS * DIM_MAX], there[TEXTS * DIM_MAX];
    char what[64];
    size_t n = 0;
    sr1_status st = vectors_of(b, name, b->device, dtype, there, &n);

    snprintf(what, sizeof what, "encoder %s %s, fp32 CPU", name, dtype);
    if (st == SR1_OK)
        st = vectors_of(b, name, "cpu", "fp32", here, &n);
    check_status(st, what);
    if (st == SR1_OK) {
        struct apart d = compare(here, there, n);

        check(d.max <= limit, what, "largest difference %.3g (at most %g), mean %.3g",
              d.max, limit, d.mean);
    }
}

static void test_encoders(struct bed *b)
{
    static const char *const names[] = {"bert-gelu", "dpr-context", "t5-relu",
                                        "t5-encoder"};

    for (size_t i = 0; b->encoders && i < sizeof names / sizeof *names; i++) {
        test_encoder(b, names[i], "fp32", 1e-3);
        test_encoder(b, names[i], "bf16", 0.3);
        test_encoder(b, names[i], "fp16", 0.04);
    }
}

/* ---- exact search: hits of the device are those of the CPU, bit for bit ---- */

#define ROWS 20000
#define ASKED 100
#define WIDE 96
#define HITS 10

/* Numbers of row or query i, a few rows being twins of another. */
static void vector_of(uint64_t i, float *out)
{
    uint64_t h = (i % 16 == 5 ? i - 5 : i) * 0x9E3779B97F4A7C15u + 1;

    for (int k = 0; k < WIDE; k++) {
        h = (h ^ h >> 29) * 0xBF58476D1CE4E5B9u;
        out[k] = (float)((double)(h >> 40) * 0x1p-23 - 1.0);
    }
}

static sr1_status embed_number(void *self, const char *const *texts, size_t n,
                               int32_t kind, float *out)
{
    (void)self;
    (void)kind;
    for (size_t i = 0; i < n; i++)
        vector_of(ROWS + strtoul(texts[i], NULL, 10), out + i * WIDE);
    return SR1_OK;
}

static sr1_status make_dense(const char *corpus, const char *vectors, const char *index,
                             const char *dtype)
{
    sr1_dense_build_options o;
    FILE *c = fopen(corpus, "w");
    FILE *v = fopen(vectors, "wb");
    int good = c && v;
    float row[WIDE];

    for (uint64_t i = 0; good && i < ROWS; i++) {
        vector_of(i, row);
        good = fprintf(c, "{\"id\": %d, \"contents\": \"x\"}\n", (int)i) > 0 &&
               fwrite(row, sizeof row, 1, v) == 1;
    }
    good = (!c || fclose(c) == 0) && (!v || fclose(v) == 0) && good;
    if (!good)
        return sr1_set_error(SR1_E_IO, "vectors");
    sr1_dense_build_options_init(&o);
    o.dtype = dtype;
    return sr1_dense_import(corpus, vectors, WIDE, index, &o, NULL, NULL);
}

struct found {
    char id[16];
    double score;
};

static sr1_status search_dense(const char *index, const char *device,
                               struct found out[ASKED][HITS], sr1_dense_info *info)
{
    const sr1_embedder_ops ops = {
        .struct_size = sizeof ops, .name = "n", .embed = embed_number, .dim = WIDE};
    const char *queries[ASKED];
    char texts[ASKED][8];
    sr1_embedder *e = NULL;
    sr1_search *engine = NULL;
    sr1_search_results *r = NULL;
    sr1_dense_options o;
    sr1_status st = sr1_embedder_new(&e, &ops, NULL);

    for (size_t i = 0; i < ASKED; i++) {
        snprintf(texts[i], sizeof texts[i], "%zu", i);
        queries[i] = texts[i];
    }
    sr1_dense_options_init(&o);
    o.device = device;
    if (st == SR1_OK)
        st = sr1_search_open_dense(&engine, index, e, &o);
    if (st == SR1_OK)
        st = sr1_search_run(engine, queries, ASKED, HITS, &r);
    for (size_t i = 0; i < ASKED * HITS && st == SR1_OK; i++) {
        sr1_search_hit hit = {sizeof hit};

        st = sr1_search_results_hit(r, i / HITS, (int32_t)(i % HITS), &hit);
        if (st == SR1_OK) {
            snprintf(out[i / HITS][i % HITS].id, sizeof out[0][0].id, "%s", hit.id);
            out[i / HITS][i % HITS].score = hit.score;
        }
    }
    if (st == SR1_OK)
        st = sr1_dense_info_get(engine, info);
    sr1_search_results_free(r);
    sr1_search_free(engine);
    sr1_embedder_free(e);
    return st;
}

static void test_dense(struct bed *b, const char *dtype)
{
    static struct found here[ASKED][HITS], there[ASKED][HITS];
    sr1_dense_info info = {sizeof info};
    char corpus[600], vectors[600], index[600], what[64];
    int same = 0;
    sr1_status st;

    snprintf(corpus, sizeof corpus, "%s/dense.jsonl", b->scratch);
    snprintf(vectors, sizeof vectors, "%s/dense.raw", b->scratch);
    snprintf(index, sizeof index, "%s/dense.idx", b->scratch);
    snprintf(what, sizeof what, "exact search %s, CPU", dtype);
    st = make_dense(corpus, vectors, index, dtype);
    if (st == SR1_OK)
        st = search_dense(index, "cpu", here, &info);
    if (st == SR1_OK)
        st = search_dense(index, b->device, there, &info);
    check_status(st, what);
    if (st != SR1_OK)
        return;
    for (size_t q = 0; q < ASKED; q++)
        for (size_t k = 0; k < HITS; k++)
            same += strcmp(here[q][k].id, there[q][k].id) == 0 &&
                    here[q][k].score == there[q][k].score;
    check(same == ASKED * HITS && info.device_rescans <= ASKED / 10, what,
          "%d of %d hits the same on %s, %d of %d queries again on the CPU", same,
          ASKED * HITS, info.device, (int)info.device_rescans, (int)info.device_queries);
}

static void test_searches(struct bed *b)
{
    test_dense(b, "fp32");
    test_dense(b, "fp16");
    test_dense(b, "int8");
}

/* ---- all ---- */

static int device_is_there(const struct bed *b)
{
    sr1_model_options o = {.struct_size = sizeof o, .device = b->device};
    sr1_model *m = NULL;
    sr1_status st = sr1_model_open(&m, b->model, &o);

    if (st == SR1_OK)
        printf("device %s\n", sr1_model_device(m));
    else
        printf("%s\n", sr1_last_error());
    sr1_model_free(m);
    return st == SR1_OK;
}

int main(int argc, char **argv)
{
    static struct bed b;
    static const char *const high[] = {"initial_loss_scale=16777216", NULL};

    if (argc < 3) {
        fprintf(stderr, "usage: gpu_test MODEL_FOLDER SCRATCH_FOLDER [DEVICE "
                        "[ENCODERS_FOLDER]]\n");
        return 2;
    }
    b.model = argv[1];
    b.scratch = argv[2];
    b.device = argc > 3 ? argv[3] : "cuda";
    b.encoders = argc > 4 ? argv[4] : NULL;
    sr1_log_set(keep_warning, NULL);
    if (!device_is_there(&b))
        return 77;
    test_logits(&b, "fp32", 1e-3);
    test_logits(&b, "bf16", 0.1);
    test_logits(&b, "fp16", 0.02);
    test_log_probs(&b, "fp32", 1e-3, 1e-5);
    test_log_probs(&b, "bf16", 0.5, 0.02);
    test_log_probs(&b, "fp16", 0.1, 0.005);
    test_own_kernels();
    test_update(&b);
    test_steps(&b, "bf16", NULL, 3, 0);
    test_steps(&b, "fp16", NULL, 3, 0);
    test_steps(&b, "fp16", high, 12, 1);
    test_resume(&b, "fp32");
    test_resume(&b, "bf16");
    test_resume(&b, "fp16");
    test_kinds(&b);
    test_same(&b, "states on the host, bit for bit", "optimizer_offload=false",
              "optimizer_offload=true");
    test_same(&b, "steps as graphs and not, bit for bit", "enforce_eager=false",
              "enforce_eager=true");
    test_encoders(&b);
    test_searches(&b);
    test_same(&b, "full_determinism twice, bit for bit", "full_determinism=true",
              "full_determinism=true");
    printf("%d passed, %d failed, 0 skipped\n", passed, failed);
    return failed > 0;
}
