/* Rollouts of fixed length: when the first token is there, tokens a second, and how far
 * the log-probs noted while sampling lie from those of the training forward.
 * usage: bench_rollout model_name_or_path=FOLDER [key=value ...] [bench.questions=8]
 *        [bench.group=8] [bench.prompt=64] [bench.first_only=0] */
#include "bench.h"

#include <searchr1/ext/trajectory_details.h>

#include <math.h>

static sr1_status on_progress(void *user, int64_t finished, int64_t total, int64_t tokens)
{
    int *seen = user;

    (void)finished;
    (void)total;
    if (tokens > 0 && !*seen) {
        *seen = 1;
        printf("{\"what\": \"rollout\", \"event\": \"first token\"}\n");
        fflush(stdout);
    }
    return SR1_OK;
}

/* Over all tokens but those at the edge of a nucleus that the training forward, rounding
 * otherwise, finds outside it: their log-prob is minus infinity there. */
struct difference {
    double max;
    double mean;
    size_t tokens;
    size_t outside;
};

static sr1_status compare(sr1_rollout *r, sr1_trajectory **t, size_t n,
                          struct difference *d)
{
    float *again;
    size_t at = 0;
    sr1_status st;

    *d = (struct difference){0};
    for (size_t i = 0; i < n; i++)
        d->tokens += sr1_trajectory_policy_count(t[i]);
    again = calloc(d->tokens + 1, sizeof *again);
    if (!again)
        return sr1_set_error(SR1_E_NOMEM, "log-probs");
    st = sr1_rollout_log_probs(r, (const sr1_trajectory *const *)t, n, again, d->tokens);
    for (size_t i = 0; i < n && st == SR1_OK; i++) {
        const float *then = sr1_trajectory_policy_log_probs(t[i]);

        for (size_t k = 0; k < sr1_trajectory_policy_count(t[i]); k++) {
            double apart = fabs((double)then[k] - again[at++]);

            if (isinf(apart)) {
                d->outside++;
                continue;
            }
            d->max = fmax(d->max, apart);
            d->mean += apart;
        }
    }
    d->mean /= (double)(d->tokens - d->outside + (d->tokens == d->outside));
    free(again);
    return st;
}

static sr1_status measure(sr1_rollout *r, const char *const *words)
{
    static struct bench_questions q;
    static sr1_trajectory *t[BENCH_QUESTIONS * 256];
    int n = bench_number(words, "questions", 8);
    int seen = 0;
    sr1_rollout_options o = {.struct_size = sizeof o,
                             .seed = 3,
                             .group_size = bench_number(words, "group", 8),
                             .progress = on_progress,
                             .user = &seen};
    size_t all = (size_t)n * (size_t)o.group_size;
    struct difference d;
    double began, seconds;
    sr1_status st;

    if (o.group_size < 1 || o.group_size > 256)
        return sr1_set_error(SR1_E_INVALID, "bench.group: 1 to 256");
    BENCH_TRY(bench_make_questions(&q, sr1_rollout_tokenizer(r), n,
                                   bench_number(words, "prompt", 64)));
    began = bench_now();
    BENCH_TRY(sr1_rollout_generate(r, q.query, (size_t)n, &o, t));
    seconds = bench_now() - began;
    st = bench_number(words, "first_only", 0) ? SR1_E_CANCELLED : compare(r, t, all, &d);
    if (st == SR1_OK)
        printf("{\"what\": \"rollout\", \"event\": \"log-probs\", \"dtype\": \"%s\", "
               "\"temperature\": %g, \"top_p\": %g, \"tokens\": %zu, \"seconds\": %.4f, "
               "\"outside\": %zu, \"diff_max\": %.3g, \"diff_mean\": %.3g}\n",
               sr1_model_dtype(sr1_rollout_model(r)), sr1_trajectory_temperature(t[0]),
               sr1_trajectory_top_p(t[0]), d.tokens, seconds, d.outside, d.max, d.mean);
    for (size_t i = 0; i < all; i++)
        sr1_trajectory_free(t[i]);
    return st == SR1_E_CANCELLED ? SR1_OK : st;
}

int main(int argc, char **argv)
{
    const char *const *words = (const char *const *)argv + 1;
    sr1_config *c = NULL;
    sr1_rollout *r = NULL;
    sr1_status st;

    if (argc < 2) {
        fprintf(stderr, "usage: bench_rollout model_name_or_path=FOLDER "
                        "[key=value ...]\n");
        return 2;
    }
    st = bench_config(&c, words);
    if (st == SR1_OK)
        st = sr1_rollout_new(&r, c, NULL, NULL, NULL);
    if (st == SR1_OK)
        st = measure(r, words);
    if (st != SR1_OK)
        fprintf(stderr, "bench_rollout: %s\n", sr1_last_error());
    sr1_rollout_free(r);
    sr1_config_free(c);
    return st != SR1_OK;
}
