/* The reward "embedding" in training and evaluation, by a small BERT with random weights
 * (tests/golden/make_encoder_vectors.py): what the policy is paid is the cosine that the
 * public embedder gives. */
#include "runs.h"
#include "step_metric.h"

#include <searchr1/ext/embed.h>

#include <math.h>

#define N 8

static const char *encoder(void)
{
    static char path[1024];
    const char *src = getenv("SR1_SRC");

    snprintf(path, sizeof path, "%s/tests/golden/encoder/bert-gelu", src ? src : ".");
    return path;
}

static const char *encoder_pair(void)
{
    static char pair[1100];

    snprintf(pair, sizeof pair, "reward_embedder=%s", encoder());
    return pair;
}

/* Cosine of the two texts, not below 0. */
static double cosine(sr1_embedder *e, const char *a, const char *b)
{
    const char *texts[2] = {a, b};
    size_t dim = (size_t)sr1_embedder_dim(e);
    float *v = calloc(2 * dim, sizeof *v);
    double dot = 0, aa = 0, bb = 0;

    OK(sr1_embedder_embed(e, texts, 2, SR1_EMBED_QUERY, v));
    for (size_t i = 0; i < dim; i++) {
        dot += (double)v[i] * v[dim + i];
        aa += (double)v[i] * v[i];
        bb += (double)v[dim + i] * v[dim + i];
    }
    free(v);
    return fmax(dot / sqrt(aa * bb), 0);
}

static sr1_embedder *open_encoder(void)
{
    sr1_encoder_options o;
    sr1_embedder *e = NULL;

    sr1_encoder_options_init(&o);
    o.device = "cpu";
    OK(sr1_embedder_open(&e, encoder(), &o));
    return e;
}

/* What a trajectory is to be paid: gold is "Paris". */
static double worth(sr1_embedder *e, const sr1_trajectory *t)
{
    return sr1_trajectory_stop_reason(t) == SR1_STOP_ANSWER
               ? cosine(e, sr1_trajectory_final_answer(t, NULL), "Paris")
               : 0;
}

static void a_step_is_paid_by_meaning(void **state)
{
    sr1_trainer *tr = tiny_trainer(
        tiny_config("model", "rewards=embedding", encoder_pair(), "beta=0", NULL));
    sr1_query q[2] = {tiny_query("one?"), tiny_query("Where is the tower?")};
    sr1_step_report r = {.struct_size = sizeof r};
    sr1_embedder *e = open_encoder();
    sr1_trajectory *t[N];
    double mean = 0, least = 2, most = -1;

    (void)state;
    OK(sr1_trainer_train_step(tr, q, 2, 4, &r, t));
    for (size_t i = 0; i < N; i++) {
        double paid = sr1_trajectory_reward(t[i]);

        tiny_near(paid, worth(e, t[i]), 1e-5);
        mean += paid / N;
        least = fmin(least, paid);
        most = fmax(most, paid);
    }
    tiny_near(r.avg_reward, mean, 1e-9);
    assert_true(most > least); /* " Paris" and " Rome" are not worth the same */
    assert_true(r.grad_norm > 0 && step_metric(&r, "training/skipped_updates") == 0);
    tiny_free_all(t, N);
    sr1_embedder_free(e);
    sr1_trainer_free(tr);
}

/* A run learns the answer that means the same; evaluation says how near it is. */
static void a_run_learns_by_meaning(void **state)
{
    sr1_trainer *tr =
        open_trainer(RUN("meaning", "rewards=embedding", encoder_pair(),
                         "learning_rate=3e-3", "group_size=8", "beta=0", "max_steps=12"));
    sr1_eval_options o = {.struct_size = sizeof o, .greedy = 1};
    sr1_evaluation *e = NULL;
    sr1_eval_scores s = {.struct_size = sizeof s};
    sr1_dataset *d = NULL;
    const char *path = scratch_path("train.jsonl");
    json_t *rows;
    double first, last;

    (void)state;
    OK(sr1_trainer_run(tr, NULL));
    rows = metrics("meaning");
    first = metric(rows, 0, "avg_reward");
    last = metric(rows, 11, "avg_reward");
    assert_true(last > first && last > 0.95);
    json_decref(rows);
    OK(sr1_dataset_open(&d, &path, 1, NULL));
    o.embedder = open_encoder();
    OK(sr1_evaluate(&e, sr1_trainer_rollout(tr), d, &o));
    OK(sr1_evaluation_scores(e, 0, &s));
    tiny_near(s.embedding, 1, 1e-4);
    tiny_near(s.exact_match, 1, 0);
    sr1_evaluation_free(e);
    sr1_embedder_free(o.embedder);
    sr1_dataset_free(d);
    sr1_trainer_free(tr);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_is_paid_by_meaning),
        cmocka_unit_test(a_run_learns_by_meaning),
        cmocka_unit_test(tiny_nothing_leaks),
    };

    return cmocka_run_group_tests(tests, runs_make, scratch_remove);
}
