/* 08_model_reward.c - a reward that a model gives.
 *
 *     08_model_reward CONFIG JUDGE QUESTION ANSWER
 *
 * JUDGE is the folder of a language model that stays as it is. A trajectory is worth how
 * probable the gold answer has become by what it found and thought:
 *
 *     exp(mean over the gold answer's tokens of log p(token | question, response, "="))
 *
 * the response without its own answer. Any tokenizer will do: the judge reads text. */
#include <searchr1/searchr1.h>
#include <searchr1/ext/model_details.h>
#include <searchr1/ext/tokenizer.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_TOKENS 512 /* the judge reads the last of them */

struct judge {
    sr1_model *model;
    sr1_tokenizer *tokenizer;
};

static void destroy(void *self)
{
    struct judge *j = self;

    sr1_model_free(j->model);
    sr1_tokenizer_free(j->tokenizer);
}

/* log p(id) under logits[vocab]. */
static double log_prob(const float *logits, size_t vocab, int32_t id)
{
    double most = logits[0], sum = 0;

    for (size_t i = 1; i < vocab; i++)
        most = logits[i] > most ? logits[i] : most;
    for (size_t i = 0; i < vocab; i++)
        sum += exp(logits[i] - most);
    return logits[id] - most - log(sum);
}

/* Mean log-prob of ids[n - tail..n) given what stands before them. */
static sr1_status judge_ids(struct judge *j, const int32_t *ids, size_t n, size_t tail,
                            double *out)
{
    size_t vocab = (size_t)sr1_model_info(j->model, SR1_MODEL_VOCAB);
    float *logits = malloc(n * vocab * sizeof(*logits));
    sr1_status status = logits ? sr1_model_logits(j->model, ids, n, logits) : SR1_E_NOMEM;

    *out = 0;
    for (size_t i = n - tail; status == SR1_OK && i < n; i++)
        *out += log_prob(logits + (i - 1) * vocab, vocab, ids[i]) / (double)tail;
    free(logits);
    return status;
}

/* The same for two texts. */
static sr1_status judge_text(struct judge *j, const char *before, const char *gold,
                             double *out)
{
    int32_t *head = NULL, *tail = NULL, all[MOST_TOKENS];
    size_t n = 0, m = 0, kept;
    sr1_status status =
        sr1_tokenizer_encode(j->tokenizer, before, strlen(before), 0, &head, &n);

    if (status == SR1_OK)
        status = sr1_tokenizer_encode(j->tokenizer, gold, strlen(gold), 0, &tail, &m);
    m = m < MOST_TOKENS / 2 ? m : MOST_TOKENS / 2;
    kept = n < MOST_TOKENS - m ? n : MOST_TOKENS - m;
    if (status == SR1_OK && (kept == 0 || m == 0))
        status = sr1_set_error(SR1_E_INVALID, "judge: nothing to read");
    if (status == SR1_OK) {
        memcpy(all, head + (n - kept), kept * sizeof(*all));
        memcpy(all + kept, tail, m * sizeof(*all));
        status = judge_ids(j, all, kept + m, m, out);
    }
    sr1_free(head);
    sr1_free(tail);
    return status;
}

static sr1_status score_one(struct judge *j, const sr1_trajectory *t, double *out)
{
    size_t len, question_len;
    const char *response = sr1_trajectory_generated_text(t, &len);
    const char *question = sr1_trajectory_query(t, &question_len);
    const char *gold = sr1_trajectory_ground_truth(t, 0, NULL);
    const char *own = strstr(response, "<answer>");
    char *text;
    double mean = 0;
    sr1_status status;

    *out = 0;
    if (!gold || !*gold)
        return SR1_OK;
    len = own ? (size_t)(own - response) : len;
    text = malloc(question_len + len + 16);
    if (!text)
        return SR1_E_NOMEM;
    sprintf(text, "%.*s\n%.*s\n=", (int)question_len, question, (int)len, response);
    status = judge_text(j, text, gold, &mean);
    free(text);
    *out = status == SR1_OK ? exp(mean) : 0;
    return status;
}

static sr1_status score(void *self, const sr1_trajectory *const *t, size_t n, double *out)
{
    for (size_t i = 0; i < n; i++) {
        sr1_status status = score_one(self, t[i], &out[i]);

        if (status != SR1_OK)
            return status;
    }
    return SR1_OK;
}

static void print_rewards(sr1_trajectory *const *t, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        size_t parts = sr1_trajectory_reward_component_count(t[i]);
        double value = 0;

        (void)sr1_trajectory_reward_component(t[i], parts - 1, NULL, &value, NULL);
        printf("sample %d: the judge gives %.3g\n", (int)i, value);
    }
}

/* One step with the judge's reward beside the configured ones. */
static sr1_status train(sr1_trainer *trainer, struct judge *judge, const sr1_query *query)
{
    const sr1_reward_ops ops = {
        .struct_size = sizeof(ops), .name = "judge", .score = score, .destroy = destroy};
    sr1_step_report report = {.struct_size = sizeof(report)};
    sr1_trajectory *t[4];
    sr1_status status = sr1_trainer_add_reward(trainer, &ops, judge, 1.0);

    if (status != SR1_OK) {
        destroy(judge); /* it is the trainer's only when that went well */
        return status;
    }
    status = sr1_trainer_train_step(trainer, query, 1, 4, &report, t);
    if (status != SR1_OK)
        return status;
    print_rewards(t, 4);
    printf("step %lld: reward %.3f, %lld of %lld trajectories trained\n",
           (long long)report.step, report.avg_reward, (long long)report.trained,
           (long long)report.trajectories);
    for (size_t i = 0; i < 4; i++)
        sr1_trajectory_free(t[i]);
    return SR1_OK;
}

int main(int argc, char **argv)
{
    sr1_model_options options = {.struct_size = sizeof(options), .device = "cpu"};
    sr1_query query = {.struct_size = sizeof(query), .n_answers = 1};
    struct judge judge = {0};
    const char *answers[1];
    sr1_config *config = NULL;
    sr1_trainer *trainer = NULL;
    sr1_status status;

    if (argc != 5)
        return fputs("usage: 08_model_reward CONFIG JUDGE QUESTION ANSWER\n", stderr), 2;
    query.text = argv[3];
    query.text_len = strlen(argv[3]);
    answers[0] = argv[4];
    query.answers = answers;
    status = sr1_config_new(&config);
    if (status == SR1_OK)
        status = sr1_config_load(config, argv[1]);
    if (status == SR1_OK)
        status = sr1_trainer_new(&trainer, config, NULL);
    if (status == SR1_OK)
        status = sr1_model_open(&judge.model, argv[2], &options);
    if (status == SR1_OK)
        status = sr1_tokenizer_open(&judge.tokenizer, argv[2]);
    if (status == SR1_OK)
        status = train(trainer, &judge, &query);
    else
        destroy(&judge);
    if (status != SR1_OK)
        fprintf(stderr, "%s\n", sr1_last_error());
    sr1_trainer_free(trainer);
    sr1_config_free(config);
    return status == SR1_OK ? 0 : 1;
}
