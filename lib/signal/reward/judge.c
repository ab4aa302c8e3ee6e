/* signal/reward/judge.c - a model behind a server scores answers. All replies that a call
 * needs and the cache does not have are requests of one call of the client. */
#include <searchr1/ext/judge.h>
#include <searchr1/ext/openai.h>

#include "base/clock.h"
#include "base/hash_index.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/struct.h"
#include "retrieval/search/disk_store.h"
#include "signal/reward/judge_text.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define SAMPLES_MAX 64
#define CACHE_BYTES ((uint64_t)1 << 30)

struct sr1_judge {
    atomic_int references;
    sr1_openai *client;
    char *prompt;
    struct sr1__disk_store *cache; /* NULL: none */
    sr1_judge_options o;           /* its texts are not used once it is open */
    atomic_llong items, requests, cached, unreadable, cut, failed, unknown, tokens;
};

/* ---- one call ---- */

/* A distinct question to the judge, and the scores of its replies. */
struct judged_prompt {
    struct sr1__buf text;
    double scores[SAMPLES_MAX]; /* [n] */
    size_t n;
    double value; /* NaN: unknown */
};

struct judge_call {
    sr1_judge *judge;
    struct judged_prompt *prompts; /* [n_prompts] */
    size_t n_prompts;
    struct sr1__hash_index index;
    size_t *prompt_of;            /* [n] of an item */
    sr1_openai_request *requests; /* [n_requests] */
    size_t *asked;                /* [n_requests] prompt * SAMPLES_MAX + sample */
    size_t n_requests;
};

static void judge_call_free(struct judge_call *c)
{
    for (size_t i = 0; c->prompts && i < c->n_prompts; i++)
        sr1__buf_free(&c->prompts[i].text);
    sr1__hash_index_free(&c->index);
    sr1__free(c->prompts);
    sr1__free(c->prompt_of);
    sr1__free(c->requests);
    sr1__free(c->asked);
}

static sr1_status add_prompt(struct judge_call *c, const sr1_judge_item *item, size_t *at)
{
    struct judged_prompt *p = &c->prompts[c->n_prompts];
    struct sr1__hash_probe probe = {0};

    sr1__buf_init(&p->text, 0);
    sr1__judge_prompt_write(&p->text, c->judge->prompt, item);
    c->n_prompts++;
    SR1__TRY(sr1__buf_status(&p->text, "a judge's prompt"));
    probe.hash = sr1__hash64(p->text.data, p->text.len, 0);
    while (sr1__hash_index_next(&c->index, &probe))
        if (strcmp(c->prompts[probe.item].text.data, p->text.data) == 0) {
            *at = probe.item;
            sr1__buf_free(&p->text);
            c->n_prompts--;
            return SR1_OK;
        }
    SR1__TRY(sr1__hash_index_reserve(&c->index));
    *at = c->n_prompts - 1;
    return sr1__hash_index_add(&c->index, probe.hash, *at);
}

static sr1_status read_items(struct judge_call *c, const sr1_judge_item *items, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        sr1_judge_item item = {0};

        SR1__TRY(sr1__struct_take(
            &item, sizeof(item),
            (const char *)items + i * (items->struct_size ? items->struct_size : 1),
            SR1__STRUCT_END(sr1_judge_item, n_truths), "judge: item"));
        if (!item.question || !item.answer || (item.n_truths && !item.truths))
            return sr1__fail(SR1_E_INVALID, "judge: item %zu lacks a text", i);
        for (size_t k = 0; k < item.n_truths; k++)
            if (!item.truths[k])
                return sr1__fail(SR1_E_INVALID, "judge: item %zu lacks a ground truth",
                                 i);
        SR1__TRY(add_prompt(c, &item, &c->prompt_of[i]));
    }
    return SR1_OK;
}

/* ---- the cache ---- */

/* All that a reply depends on. The number in it is kept, whatever max_score makes of
 * it. */
static void write_cache_key(struct sr1__buf *b, const sr1_judge *j,
                            const struct judged_prompt *p, size_t sample)
{
    sr1__buf_fmt(b, "judge 2\n%s\n%zu %.17g %lld %llu\n", sr1_openai_model(j->client),
                 sample, j->o.temperature, (long long)j->o.max_tokens,
                 (unsigned long long)j->o.seed);
    sr1__buf_add(b, p->text.data, p->text.len);
}

static int read_cached(const sr1_judge *j, const struct judged_prompt *p, size_t sample,
                       double *score)
{
    struct sr1__buf key, value;
    int64_t time = 0;
    int found = 0;

    if (!j->cache)
        return 0;
    sr1__buf_init(&key, 0);
    sr1__buf_init(&value, 0);
    write_cache_key(&key, j, p, sample);
    if (key.status == SR1_OK &&
        sr1__disk_store_get(j->cache, key.data, key.len, &value, &time) &&
        value.len == sizeof(*score)) {
        memcpy(score, value.data, sizeof(*score));
        *score /= j->o.max_score;
        found = *score >= 0 && *score <= 1;
    }
    sr1__buf_free(&key);
    sr1__buf_free(&value);
    return found;
}

static void keep_score(const sr1_judge *j, const struct judged_prompt *p, size_t sample,
                       double number)
{
    struct sr1__buf key;

    if (!j->cache)
        return;
    sr1__buf_init(&key, 0);
    write_cache_key(&key, j, p, sample);
    if (key.status == SR1_OK)
        sr1__disk_store_put(j->cache, key.data, key.len, &number, sizeof(number),
                            (int64_t)time(NULL) * 1000);
    sr1__buf_free(&key);
}

/* ---- the requests ---- */

static const char *const user_role[] = {"user"};

static void add_request(struct judge_call *c, size_t prompt, size_t sample)
{
    const sr1_judge_options *o = &c->judge->o;

    c->asked[c->n_requests] = prompt * SAMPLES_MAX + sample;
    c->requests[c->n_requests++] = (sr1_openai_request){
        .struct_size = sizeof(sr1_openai_request),
        .roles = user_role,
        .contents = (const char *const *)&c->prompts[prompt].text.data,
        .n_messages = 1,
        .max_tokens = o->max_tokens,
        .temperature = o->temperature,
        .seed = o->temperature > 0 ? (int64_t)((o->seed + sample) % INT64_MAX) + 1 : 0};
}

/* Take what the cache has; the rest are requests. */
static sr1_status make_judge_requests(struct judge_call *c)
{
    size_t samples = (size_t)c->judge->o.samples, most = c->n_prompts * samples;

    c->requests = sr1__calloc(most + 1, sizeof(*c->requests));
    c->asked = sr1__calloc(most + 1, sizeof(*c->asked));
    SR1__CHECK_ALLOC(c->requests && c->asked, "a judge's requests");
    for (size_t i = 0; i < c->n_prompts; i++)
        for (size_t k = 0; k < samples; k++) {
            struct judged_prompt *p = &c->prompts[i];

            if (read_cached(c->judge, p, k, &p->scores[p->n]))
                p->n++;
            else
                add_request(c, i, k);
        }
    atomic_fetch_add(&c->judge->cached, (long long)(most - c->n_requests));
    return SR1_OK;
}

/* A budget is a promise: nothing is sent that may go beyond the number of requests, and
 * nothing once the tokens are spent. */
static sr1_status check_budget(struct judge_call *c)
{
    const sr1_judge_options *o = &c->judge->o;
    long long n = (long long)c->n_requests;
    long long asked = atomic_load(&c->judge->requests);
    long long tokens = atomic_load(&c->judge->tokens);
    const char *key;

    do {
        key = o->max_requests > 0 && asked + n > o->max_requests ? "judge_max_requests"
              : o->max_total_tokens > 0 && tokens >= o->max_total_tokens
                  ? "judge_max_total_tokens"
                  : NULL;
        if (!key && atomic_compare_exchange_weak(&c->judge->requests, &asked, asked + n))
            return SR1_OK;
    } while (!key);
    return sr1__fail(
        SR1_E_LIMIT,
        "the judge's budget is spent after %lld requests and %lld tokens, and "
        "%lld answers wait; raise %s, and go on from the newest checkpoint",
        asked, tokens, n, key);
}

/* What it says before its end may be the rubric's words, not its score. */
static void refuse_cut_reply(sr1_judge *j)
{
    atomic_fetch_add(&j->unreadable, 1);
    if (atomic_fetch_add(&j->cut, 1) == 0)
        sr1__log(SR1_LOG_WARN,
                 "judge: a reply was cut off after %lld tokens, before its score; raise "
                 "judge_max_tokens",
                 (long long)j->o.max_tokens);
}

static sr1_status take_reply(struct judge_call *c, size_t i, const sr1_openai_result *r)
{
    sr1_judge *j = c->judge;
    struct judged_prompt *p = &c->prompts[c->asked[i] / SAMPLES_MAX];
    double number, score;

    if (r->status == SR1_E_NOMEM || r->status == SR1_E_CANCELLED)
        return sr1__fail(r->status, "judge: %s", r->message);
    if (r->http_code == 401 || r->http_code == 403)
        return sr1__fail(
            SR1_E_CONFIG,
            "judge: %.600s; name the environment variable that holds its key "
            "(judge_api_key_env)",
            r->message);
    if (r->status != SR1_OK) {
        if (atomic_fetch_add(&j->failed, 1) == 0)
            sr1__log(SR1_LOG_WARN, "judge: %.300s", r->message);
        return SR1_OK;
    }
    atomic_fetch_add(&j->tokens,
                     (r->prompt_tokens > 0 ? r->prompt_tokens : 0) +
                         (r->completion_tokens > 0 ? r->completion_tokens : 0));
    if (r->finish == SR1_OPENAI_FINISH_LENGTH) {
        refuse_cut_reply(j);
        return SR1_OK;
    }
    number = sr1__judge_reply_score(r->text, r->text_len, j->o.max_score);
    score = number / j->o.max_score;
    if (!(score >= 0 && score <= 1)) {
        if (atomic_fetch_add(&j->unreadable, 1) == 0)
            sr1__log(SR1_LOG_WARN,
                     "judge: a reply has no line \"Score: N\" from 0 to %g: %.200s",
                     j->o.max_score, r->text);
        return SR1_OK;
    }
    p->scores[p->n++] = score;
    keep_score(j, p, c->asked[i] % SAMPLES_MAX, number);
    return SR1_OK;
}

static sr1_status ask_judge(struct judge_call *c)
{
    sr1_openai_results *results = NULL;
    sr1_status st = SR1_OK;

    if (c->n_requests == 0)
        return SR1_OK;
    SR1__TRY(check_budget(c));
    SR1__TRY(sr1_openai_run(c->judge->client, c->requests, c->n_requests, &results));
    for (size_t i = 0; i < c->n_requests && st == SR1_OK; i++) {
        sr1_openai_result r = {.struct_size = sizeof(r)};

        st = sr1_openai_results_get(results, i, &r);
        if (st == SR1_OK)
            st = take_reply(c, i, &r);
    }
    sr1_openai_results_free(results);
    return st;
}

static void fill_judge_scores(struct judge_call *c, size_t n, double *out)
{
    for (size_t i = 0; i < c->n_prompts; i++) {
        struct judged_prompt *p = &c->prompts[i];

        p->value = p->n ? sr1__judge_vote(p->scores, p->n, c->judge->o.vote) : NAN;
    }
    for (size_t i = 0; i < n; i++) {
        out[i] = c->prompts[c->prompt_of[i]].value;
        atomic_fetch_add(&c->judge->unknown, isnan(out[i]) ? 1 : 0);
    }
    atomic_fetch_add(&c->judge->items, (long long)n);
}

sr1_status sr1_judge_score(sr1_judge *judge, const sr1_judge_item *items, size_t n,
                           double *out)
{
    struct judge_call c = {.judge = judge};
    sr1_status st;

    SR1__REQUIRE(judge && (n == 0 || (items && out)), "judge: judge, items and out");
    if (n == 0)
        return SR1_OK;
    c.prompts = sr1__calloc(n, sizeof(*c.prompts));
    c.prompt_of = sr1__calloc(n, sizeof(*c.prompt_of));
    st = c.prompts && c.prompt_of ? read_items(&c, items, n) : sr1__fail_nomem("judge");
    if (st == SR1_OK)
        st = make_judge_requests(&c);
    if (st == SR1_OK)
        st = ask_judge(&c);
    if (st == SR1_OK)
        fill_judge_scores(&c, n, out);
    judge_call_free(&c);
    return st;
}

/* ---- opening ---- */

static const sr1_judge_options defaults = {.struct_size = sizeof(sr1_judge_options),
                                           .timeout_s = 120,
                                           .retries = 3,
                                           .concurrency = 32,
                                           .max_score = 1,
                                           .samples = 1,
                                           .max_tokens = 1024};

void sr1_judge_options_init(sr1_judge_options *options)
{
    sr1__struct_init(options, &defaults, sizeof(defaults));
}

static sr1_status check_judge_options(const sr1_judge_options *o)
{
    if (!o->base_url || !*o->base_url)
        return sr1__fail(SR1_E_CONFIG,
                         "judge: it has no server; set judge_base_url, such "
                         "as http://127.0.0.1:8000/v1");
    if (o->samples < 1 || o->samples > SAMPLES_MAX || o->vote < SR1_JUDGE_MEAN ||
        o->vote > SR1_JUDGE_MAJORITY || o->max_tokens < 1 || o->max_requests < 0 ||
        o->max_total_tokens < 0 || !(o->temperature >= 0 && o->temperature <= 100) ||
        !(o->max_score > 0 && o->max_score <= 1e6))
        return sr1__fail(SR1_E_INVALID,
                         "judge: samples (1 to %d), vote, temperature, max_tokens, "
                         "max_score or a budget is out of range",
                         SAMPLES_MAX);
    if (o->samples > 1 && o->temperature == 0)
        return sr1__fail(SR1_E_CONFIG,
                         "judge: %d samples at temperature 0 are the same reply; set "
                         "judge_temperature",
                         (int)o->samples);
    return sr1__judge_prompt_check(o->prompt);
}

static sr1_status open_judge_client(sr1_judge *j)
{
    sr1_openai_options c;

    sr1_openai_options_init(&c);
    c.base_url = j->o.base_url;
    c.model = j->o.model;
    c.key_env = j->o.key_env ? j->o.key_env : "";
    c.ca_file = j->o.ca_file;
    c.timeout_s = j->o.timeout_s;
    if (c.connect_timeout_s > c.timeout_s)
        c.connect_timeout_s = c.timeout_s;
    c.retries = j->o.retries;
    c.concurrency = j->o.concurrency;
    c.seed = j->o.seed;
    return sr1__context(sr1_openai_new(&j->client, &c), "judge");
}

static sr1_status fill_judge(sr1_judge *j, const sr1_judge_options *options)
{
    atomic_init(&j->references, 1);
    j->o = defaults;
    SR1__TRY(sr1__struct_take(&j->o, sizeof(j->o), options,
                              SR1__STRUCT_END(sr1_judge_options, base_url),
                              "judge options"));
    if (!j->o.prompt || !*j->o.prompt)
        j->o.prompt = sr1__judge_prompt;
    SR1__TRY(check_judge_options(&j->o));
    j->prompt = sr1__strdup(j->o.prompt);
    SR1__CHECK_ALLOC(j->prompt, "judge");
    if (j->o.cache_dir && *j->o.cache_dir)
        SR1__TRY(sr1__context(
            sr1__disk_store_open(&j->cache, j->o.cache_dir, CACHE_BYTES), "judge"));
    return open_judge_client(j);
}

sr1_status sr1_judge_open(sr1_judge **out, const sr1_judge_options *options)
{
    sr1_judge *j;

    SR1__REQUIRE(out && options, "judge: out and options");
    SR1__CALLOC(j, 1, "judge");
    SR1__RETURN_NEW(out, j, fill_judge(j, options), sr1_judge_free);
}

sr1_judge *sr1_judge_retain(sr1_judge *judge)
{
    if (judge)
        atomic_fetch_add(&judge->references, 1);
    return judge;
}

void sr1_judge_free(sr1_judge *judge)
{
    if (!judge || atomic_fetch_sub(&judge->references, 1) != 1)
        return;
    sr1_openai_free(judge->client);
    sr1__disk_store_close(judge->cache);
    sr1__free(judge->prompt);
    sr1__free(judge);
}

sr1_status sr1_judge_counters_get(const sr1_judge *judge, sr1_judge_counters *out)
{
    sr1_judge_counters c = {.struct_size = sizeof(c)};

    SR1__REQUIRE(judge, "judge");
    c.items = atomic_load(&judge->items);
    c.requests = atomic_load(&judge->requests);
    c.cached = atomic_load(&judge->cached);
    c.unreadable = atomic_load(&judge->unreadable);
    c.failed = atomic_load(&judge->failed);
    c.unknown = atomic_load(&judge->unknown);
    c.tokens = atomic_load(&judge->tokens);
    return sr1__struct_give(out, &c, sizeof(c), "judge counters");
}
