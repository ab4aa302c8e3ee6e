/* Whole GRPO steps through the public header.
 * usage: bench_step model_name_or_path=FOLDER [key=value ...] [bench.steps=6]
 *        [bench.questions=8] [bench.prompt=64]
 * Without train_file the questions are made up, with prompts of bench.prompt tokens, and
 * completions have max_tokens tokens each; with it they are its first rows. Prints a line
 * after the first step and one with medians over the steps but the first. */
#include "bench.h"

#include <searchr1/ext/model_details.h>

#define STEPS_MAX 100

enum { WHOLE, ROLLOUT, SEARCH, REFERENCE, UPDATE, PHASES };

struct run {
    sr1_trainer *trainer;
    struct bench_questions made;
    sr1_dataset *data;
    sr1_row *rows[BENCH_QUESTIONS];
    const char *answers[BENCH_QUESTIONS];
    int n;
    double seconds[PHASES][STEPS_MAX];
    sr1_step_report last;
};

static sr1_status read_questions(struct run *r, const char *path)
{
    BENCH_TRY(sr1_dataset_open(&r->data, &path, 1, NULL));
    for (int i = 0; i < r->n; i++) {
        BENCH_TRY(sr1_dataset_read(r->data, i, &r->rows[i]));
        r->answers[i] = sr1_row_answer(r->rows[i], 0);
        r->made.query[i] = (sr1_query){.struct_size = sizeof(sr1_query),
                                       .text = sr1_row_question(r->rows[i]),
                                       .text_len = strlen(sr1_row_question(r->rows[i])),
                                       .id = sr1_row_id(r->rows[i]),
                                       .answers = &r->answers[i],
                                       .n_answers = 1};
    }
    return SR1_OK;
}

static double figure(const sr1_step_report *s, const char *name)
{
    double value = 0;

    (void)sr1_step_metric(s, name, &value);
    return value;
}

static void print_report(const char *event, const sr1_step_report *s)
{
    printf(
        "{\"what\": \"step\", \"event\": \"%s\", \"step_s\": %.4f, \"rollout_s\": %.4f, "
        "\"search_s\": %.4f, \"reference_s\": %.4f, \"update_s\": %.4f, "
        "\"trajectories\": %lld, \"prompt_tokens\": %.1f, \"policy_tokens\": %.0f, "
        "\"environment_tokens\": %.0f, \"searches\": %.0f, \"loss\": %.6g, "
        "\"kl\": %.6g, \"grad_norm\": %.6g, \"diff_max\": %.3g, \"diff_mean\": %.3g}\n",
        event, s->seconds, figure(s, "timing_s/gen"), figure(s, "timing_s/search"),
        figure(s, "timing_s/ref"), figure(s, "timing_s/update_actor"),
        (long long)s->trajectories, figure(s, "prompt_length/mean"),
        figure(s, "training/policy_tokens"), figure(s, "env/tokens"),
        figure(s, "env/number_of_searches"), s->loss, s->kl_div, s->grad_norm,
        figure(s, "sampling/sampling_logp_difference/max"),
        figure(s, "sampling/sampling_logp_difference/mean"));
    fflush(stdout);
}

static sr1_status step(struct run *r, int i)
{
    sr1_step_report s = {.struct_size = sizeof s};

    BENCH_TRY(
        sr1_trainer_train_step(r->trainer, r->made.query, (size_t)r->n, 0, &s, NULL));
    if (i == 0)
        print_report("first", &s);
    r->last = s;
    r->seconds[WHOLE][i] = s.seconds;
    r->seconds[ROLLOUT][i] = figure(&s, "timing_s/gen");
    r->seconds[SEARCH][i] = figure(&s, "timing_s/search");
    r->seconds[REFERENCE][i] = figure(&s, "timing_s/ref");
    r->seconds[UPDATE][i] = figure(&s, "timing_s/update_actor");
    return SR1_OK;
}

/* Multiplications and additions of weights in one forward pass over the tokens that have
 * to be computed: a group's prompt once, the head where a token is predicted. */
static double count_products(const struct run *r)
{
    const sr1_model *m = sr1_rollout_model(sr1_trainer_rollout(r->trainer));
    double head = (double)sr1_model_info(m, SR1_MODEL_VOCAB) *
                  (double)sr1_model_info(m, SR1_MODEL_HIDDEN);
    double body = (double)sr1_model_info(m, SR1_MODEL_PARAMETERS) -
                  head * (sr1_model_info(m, SR1_MODEL_TIED) ? 1 : 2);
    double sampled = figure(&r->last, "training/policy_tokens");
    double tokens = r->n * figure(&r->last, "prompt_length/mean") + sampled +
                    figure(&r->last, "env/tokens") - (double)r->last.trajectories;

    return 2 * (body * tokens + head * sampled);
}

static void print_medians(struct run *r, int steps)
{
    double median[PHASES];

    for (int k = 0; k < PHASES; k++)
        median[k] = bench_median(&r->seconds[k][1], (size_t)steps - 1);
    printf("{\"what\": \"step\", \"event\": \"median\", \"steps\": %d, \"step_s\": %.4f, "
           "\"rollout_s\": %.4f, \"search_s\": %.4f, \"reference_s\": %.4f, "
           "\"update_s\": %.4f, \"trajectories\": %lld, \"prompt_tokens\": %.1f, "
           "\"policy_tokens\": %.0f, \"device_peak_bytes\": %.0f, \"dtype\": \"%s\", "
           "\"reference_s_flop\": %.6g, \"update_s_flop\": %.6g}\n",
           steps - 1, median[WHOLE], median[ROLLOUT], median[SEARCH], median[REFERENCE],
           median[UPDATE], (long long)r->last.trajectories,
           figure(&r->last, "prompt_length/mean"),
           figure(&r->last, "training/policy_tokens"),
           figure(&r->last, "perf/max_memory_allocated_gb") * 0x1p30,
           sr1_model_dtype(sr1_rollout_model(sr1_trainer_rollout(r->trainer))),
           count_products(r), 3 * count_products(r));
}

static sr1_status open_all(struct run *r, const char *const *words)
{
    sr1_config *c = NULL;
    const char *file = "";
    sr1_status st = bench_config(&c, words);

    if (st == SR1_OK)
        st = sr1_trainer_new(&r->trainer, c, NULL);
    if (st == SR1_OK)
        st = bench_add_reward(r->trainer);
    if (st == SR1_OK)
        st = sr1_config_get_str(c, "train_file", &file);
    if (st == SR1_OK && *file)
        st = read_questions(r, file);
    else if (st == SR1_OK)
        st = bench_make_questions(&r->made,
                                  sr1_rollout_tokenizer(sr1_trainer_rollout(r->trainer)),
                                  r->n, bench_number(words, "prompt", 64));
    sr1_config_free(c);
    return st;
}

int main(int argc, char **argv)
{
    const char *const *words = (const char *const *)argv + 1;
    static struct run r;
    int steps = bench_number(words, "steps", 6);
    sr1_status st;

    r.n = bench_number(words, "questions", 8);
    if (argc < 2 || steps < 1 || steps > STEPS_MAX || r.n < 1 || r.n > BENCH_QUESTIONS) {
        fprintf(stderr, "usage: bench_step model_name_or_path=FOLDER [key=value ...]\n");
        return 2;
    }
    st = open_all(&r, words);
    for (int i = 0; i < steps && st == SR1_OK; i++)
        st = step(&r, i);
    if (st == SR1_OK && steps > 1)
        print_medians(&r, steps);
    if (st != SR1_OK)
        fprintf(stderr, "bench_step: %s\n", sr1_last_error());
    for (int i = 0; i < r.n; i++)
        sr1_row_free(r.rows[i]);
    sr1_dataset_free(r.data);
    sr1_trainer_free(r.trainer);
    return st != SR1_OK;
}
