/* tensor/model/host_score.c - packed sequences through the decoder's pass, then the
 * logits of the tokens that predict a target, some rows at a time.
 *
 * Sequences that continue another one wait for its keys and values: a *cut*, some
 * sequences whose prompts are among them, takes a pass over those that begin anew, and
 * then passes over the others, some at a time. Nothing depends on where it is cut, so
 * passes are as short as keeps threads busy, and the cache is small. */
#include "tensor/model/host_score.h"

#include "base/mem.h"
#include "tensor/model/host_pass.h"

#include <stdlib.h>
#include <string.h>

#define CHUNK_ROWS 1024

/* A target, and the token of the pass that predicts it. */
struct scored {
    int64_t place;
    size_t target;
};

struct host_score {
    sr1_model *m;
    const struct sr1__packed *in;
    const struct sr1__score_targets *targets;
    const struct sr1__sampling *how;
    float *log_probs;
    struct sr1__pool *pool;
    struct sr1__team *team;
    struct sr1__kv *kv;
    struct sr1__host_pass *pass;
    size_t chunk;
    size_t first, end; /* sequences of the cut; row i of the cache is first + i */
    size_t from, to;   /* those of a pass: */
    int anew;          /* they begin anew, or else they do not */
    struct sr1__kv_span *spans; /* [n_seqs] of a pass, and */
    size_t n_spans;
    int32_t *ids;            /* [tokens] its tokens */
    int64_t *places;         /* [tokens] of all packed: in the pass, or -1 */
    struct scored *scored;   /* [targets], and */
    size_t n_scored;         /* those of the pass, by place */
    int64_t *wanted;         /* [targets] their places, each once */
    size_t *hidden;          /* [targets] index in wanted of each */
    float *memory, **logits; /* [chunk] rows */
};

int sr1__host_scores(const sr1_model *m)
{
    return m->dtype == SR1__F32 && sr1__host_supports(m);
}

/* ---- cuts ---- */

static size_t find_root(const struct sr1__packed *in, size_t i)
{
    return in->continues && in->continues[i] >= 0 ? (size_t)in->continues[i] : i;
}

/* Does a sequence from i on continue one of [first, i)? */
static int is_continued(const struct sr1__packed *in, size_t first, size_t i)
{
    for (size_t k = i; k < in->n_seqs; k++)
        if (find_root(in, k) >= first && find_root(in, k) < i)
            return 1;
    return 0;
}

/* The end of the cut that begins with sequence `first`. */
static size_t find_cut_end(const struct sr1__packed *in, size_t first)
{
    size_t end = first + 1;

    while (end < in->n_seqs &&
           (in->cu_seqlens[end] - in->cu_seqlens[first] < SR1__SCORE_TOKENS ||
            is_continued(in, first, end)))
        end++;
    return end;
}

/* ---- one pass ---- */

static int is_taken(const struct host_score *h, size_t i)
{
    return (find_root(h->in, i) == i) == h->anew;
}

/* The tokens of a pass; returns how many. */
static int64_t list_pass(struct host_score *h)
{
    const struct sr1__packed *in = h->in;
    int64_t at = 0;

    h->n_spans = 0;
    for (size_t i = h->from; i < h->to; i++) {
        int64_t from = in->cu_seqlens[i], n = in->cu_seqlens[i + 1] - from;

        for (int64_t t = 0; t < n; t++)
            h->places[from + t] = is_taken(h, i) ? at + t : -1;
        if (!is_taken(h, i))
            continue;
        h->spans[h->n_spans++] = (struct sr1__kv_span){(int32_t)(i - h->first), at,
                                                       sr1__packed_start(in, i), n};
        memcpy(h->ids + at, in->ids + from, (size_t)n * sizeof *h->ids);
        at += n;
    }
    return at;
}

static int first_place_first(const void *a, const void *b)
{
    const struct scored *x = a, *y = b;

    if (x->place != y->place)
        return x->place < y->place ? -1 : 1;
    return x->target < y->target ? -1 : x->target > y->target;
}

/* The targets that the pass predicts; returns the number of tokens that do. */
static size_t list_scored(struct host_score *h)
{
    int64_t from = h->in->cu_seqlens[h->from], end = h->in->cu_seqlens[h->to];
    size_t n = 0;

    h->n_scored = 0;
    for (size_t i = 0; i < h->targets->n; i++) {
        int64_t row = h->targets->rows[i];

        if (row >= from && row < end && h->places[row] >= 0)
            h->scored[h->n_scored++] = (struct scored){h->places[row], i};
    }
    qsort(h->scored, h->n_scored, sizeof *h->scored, first_place_first);
    for (size_t i = 0; i < h->n_scored; i++) {
        if (n == 0 || h->wanted[n - 1] != h->scored[i].place)
            h->wanted[n++] = h->scored[i].place;
        h->hidden[i] = n - 1;
    }
    return n;
}

/* The prompts' keys and values become those of the sequences that continue them. */
static sr1_status fork_prompts(struct host_score *h)
{
    for (size_t i = h->from; i < h->to && !h->anew; i++)
        if (is_taken(h, i))
            SR1__TRY(h->kv->ops->fork(h->kv, (int32_t)(find_root(h->in, i) - h->first),
                                      (int32_t)(i - h->first),
                                      sr1__packed_start(h->in, i)));
    return SR1_OK;
}

/* ---- logits ---- */

struct logits_chunk {
    const struct host_score *h;
    size_t from;   /* the first hidden state */
    size_t scored; /* the first of its targets */
};

static sr1_status score_target(void *arg, size_t i)
{
    const struct logits_chunk *c = arg;
    const struct host_score *h = c->h;
    size_t at = c->scored + i, target = h->scored[at].target;

    return sr1__context(sr1__sample_log_prob(h->logits[h->hidden[at] - c->from],
                                             (size_t)h->m->config.vocab_size, h->how,
                                             h->targets->ids[target],
                                             &h->log_probs[target]),
                        "log-probs: token %zu", target);
}

static sr1_status score_hidden(struct host_score *h, size_t n)
{
    size_t at = 0;

    for (size_t from = 0; from < n; from += h->chunk) {
        size_t rows = n - from < h->chunk ? n - from : h->chunk;
        struct logits_chunk c = {h, from, at};

        sr1__host_pass_logits(h->pass, from, rows, h->logits);
        while (at < h->n_scored && h->hidden[at] < from + rows)
            at++;
        SR1__TRY(sr1__pool_run(h->pool, at - c.scored, score_target, &c));
    }
    return SR1_OK;
}

static sr1_status run_pass(struct host_score *h)
{
    struct sr1__host_input in = {.spans = h->spans, .ids = h->ids, .wanted = h->wanted};

    if (list_pass(h) == 0)
        return SR1_OK;
    in.n_spans = h->n_spans;
    in.n_wanted = list_scored(h);
    SR1__TRY(fork_prompts(h));
    SR1__TRY(h->kv->ops->reserve(h->kv, h->spans, h->n_spans));
    SR1__TRY(sr1__host_pass_reserve(h->pass, &in));
    SR1__TRY(sr1__host_pass_run(h->pass, &in));
    return score_hidden(h, in.n_wanted);
}

static void clear_rows(struct host_score *h, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++)
        h->kv->ops->clear(h->kv, (int32_t)(i - h->first));
}

/* The end of the next pass over those that continue a prompt. */
static size_t find_pass_end(const struct host_score *h)
{
    int64_t tokens = 0;
    size_t end = h->from;

    for (; end < h->end && tokens < SR1__SCORE_TOKENS; end++)
        if (is_taken(h, end))
            tokens += h->in->cu_seqlens[end + 1] - h->in->cu_seqlens[end];
    return end;
}

static sr1_status run_cut(struct host_score *h)
{
    h->anew = 1;
    h->from = h->first;
    h->to = h->end;
    SR1__TRY(run_pass(h));
    h->anew = 0;
    for (; h->from < h->end; h->from = h->to) {
        h->to = find_pass_end(h);
        SR1__TRY(run_pass(h));
        for (size_t i = h->from; i < h->to; i++)
            if (is_taken(h, i))
                clear_rows(h, i, i + 1);
    }
    clear_rows(h, h->first, h->end);
    return SR1_OK;
}

/* ---- the whole ---- */

static size_t choose_chunk(const sr1_model *m, int64_t asked, size_t targets)
{
    size_t fit = SR1__SCORE_LOGITS / sizeof(float) / (size_t)m->config.vocab_size;
    size_t rows = asked > 0 ? (size_t)asked : fit < CHUNK_ROWS ? fit : CHUNK_ROWS;

    rows = rows > 0 ? rows : 1;
    return rows < targets ? rows : targets;
}

static sr1_status make_logits(float **memory, float ***logits, size_t chunk, size_t vocab)
{
    SR1__CALLOC(*memory, chunk * vocab, "log-probs");
    *logits = sr1__calloc(chunk, sizeof(float *));
    SR1__CHECK_ALLOC(*logits, "log-probs");
    for (size_t i = 0; i < chunk; i++)
        (*logits)[i] = *memory + i * vocab;
    return SR1_OK;
}

static sr1_status make_arrays(struct host_score *h, int64_t chunk)
{
    size_t tokens = (size_t)h->in->cu_seqlens[h->in->n_seqs], n = h->targets->n;

    h->chunk = choose_chunk(h->m, chunk, n);
    SR1__CALLOC(h->spans, h->in->n_seqs, "log-probs");
    SR1__CALLOC(h->ids, tokens, "log-probs");
    SR1__CALLOC(h->places, tokens, "log-probs");
    SR1__CALLOC(h->scored, n, "log-probs");
    SR1__CALLOC(h->wanted, n, "log-probs");
    SR1__CALLOC(h->hidden, n, "log-probs");
    return make_logits(&h->memory, &h->logits, h->chunk, (size_t)h->m->config.vocab_size);
}

static sr1_status check_score_input(const struct host_score *h)
{
    int64_t tokens, top = 0;

    SR1__TRY(sr1__causal_lm_check_packed(h->m, h->in, &top));
    tokens = h->in->cu_seqlens[h->in->n_seqs];
    for (size_t i = 0; i < h->targets->n; i++)
        if (h->targets->rows[i] < 0 || h->targets->rows[i] >= tokens)
            return sr1__fail(SR1_E_INVALID, "log-probs: token %d is not in [0, %lld)",
                             (int)h->targets->rows[i], (long long)tokens);
    return sr1__model_reserve_positions(h->m, top);
}

static sr1_status run_host_score(struct host_score *h, int64_t chunk)
{
    int32_t threads = sr1__torch_threads_get();

    SR1__TRY(check_score_input(h));
    SR1__TRY(make_arrays(h, chunk));
    SR1__TRY(sr1__pool_new(&h->pool, threads));
    SR1__TRY(sr1__team_new(&h->team, threads));
    SR1__TRY(sr1__kv_paged_new(&h->kv, h->m, (int32_t)h->in->n_seqs, h->pool));
    SR1__TRY(sr1__host_pass_new(&h->pass, h->m, h->kv, h->team, 0));
    for (h->first = 0; h->first < h->in->n_seqs; h->first = h->end) {
        h->end = find_cut_end(h->in, h->first);
        SR1__TRY(run_cut(h));
    }
    return SR1_OK;
}

static void close_host_score(struct host_score *h)
{
    sr1__host_pass_free(h->pass);
    h->first = 0;
    if (h->kv) {
        clear_rows(h, 0, h->in->n_seqs);
        h->kv->ops->free(h->kv);
    }
    sr1__team_free(h->team);
    sr1__pool_free(h->pool);
    sr1__free(h->spans);
    sr1__free(h->ids);
    sr1__free(h->places);
    sr1__free(h->scored);
    sr1__free(h->wanted);
    sr1__free(h->hidden);
    sr1__free(h->memory);
    sr1__free((void *)h->logits);
}

sr1_status sr1__host_score(sr1_model *m, const struct sr1__packed *in,
                           const struct sr1__score_targets *targets,
                           const struct sr1__sampling *how, int64_t chunk,
                           float *log_probs)
{
    struct host_score h = {
        .m = m, .in = in, .targets = targets, .how = how, .log_probs = log_probs};
    sr1_status st = SR1_OK;

    if (targets->n > 0)
        st = run_host_score(&h, chunk);
    close_host_score(&h);
    return st;
}

/* ---- of a pass that was run ---- */

struct kept_score {
    float **logits; /* [chunk] */
    size_t vocab;
    const struct sr1__sampling *how;
    const int64_t *ids; /* of the chunk, as what follows */
    float *log_probs, *entropies;
};

static sr1_status score_kept_row(void *arg, size_t i)
{
    const struct kept_score *k = arg;
    struct sr1__sample told = {0};
    sr1_status st =
        sr1__sample_given(k->logits[i], k->vocab, k->how, (int32_t)k->ids[i], &told);

    k->log_probs[i] = told.log_prob;
    k->entropies[i] = told.entropy;
    return sr1__context(st, "log-probs: token %zu", i);
}

static sr1_status score_kept(struct sr1__host_pass *pass, struct sr1__pool *pool,
                             struct kept_score *k, size_t chunk, size_t n)
{
    for (size_t from = 0; from < n; from += chunk) {
        size_t rows = n - from < chunk ? n - from : chunk;

        sr1__host_pass_logits(pass, from, rows, k->logits);
        SR1__TRY(sr1__pool_run(pool, rows, score_kept_row, k));
        k->ids += rows;
        k->log_probs += rows;
        k->entropies += rows;
    }
    return SR1_OK;
}

sr1_status sr1__host_score_kept(const sr1_model *m, struct sr1__host_pass *pass,
                                struct sr1__pool *pool, const int64_t *ids, size_t n,
                                const struct sr1__sampling *how, float *log_probs,
                                float *entropies)
{
    size_t vocab = (size_t)m->config.vocab_size, chunk = choose_chunk(m, 0, n);
    struct kept_score k = {NULL, vocab, how, ids, log_probs, entropies};
    float *memory = NULL;
    sr1_status st = make_logits(&memory, &k.logits, chunk, vocab);

    if (st == SR1_OK)
        st = score_kept(pass, pool, &k, chunk, n);
    sr1__free(memory);
    sr1__free((void *)k.logits);
    return st;
}
