/* 04_generate.c - let a model answer, and see which tokens are whose.
 *
 *     04_generate CONFIG QUESTION
 *
 * CONFIG names the model and the search engine (keys model_name_or_path, search_engine,
 * search_index, ...). Samples two trajectories and prints their segments. */
#include <searchr1/searchr1.h>
#include <searchr1/ext/trajectory_details.h>

#include <stdio.h>
#include <string.h>

static const char *const sources[] = {"prompt", "policy", "environment"};

static void print_trajectory(const sr1_trajectory *t)
{
    sr1_text_segment part = {.struct_size = sizeof(part)};
    const char *text = sr1_trajectory_generated_text(t, NULL);

    printf("%zu prompt tokens, %zu sampled, %zu inserted; ended by %s\n",
           sr1_trajectory_prompt_count(t), sr1_trajectory_policy_count(t),
           sr1_trajectory_environment_count(t),
           sr1_stop_reason_name(sr1_trajectory_stop_reason(t)));
    for (size_t i = 0; sr1_trajectory_segment(t, i, &part) == SR1_OK; i++)
        printf("  turn %d, %s: %.*s\n", (int)part.turn, sources[part.source],
               (int)part.text_len, text + part.text_begin);
}

int main(int argc, char **argv)
{
    sr1_rollout_options options = {
        .struct_size = sizeof(options), .group_size = 2, .seed = 1, .max_tokens = 64};
    sr1_query query = {.struct_size = sizeof(query)};
    sr1_trajectory *made[2] = {NULL, NULL};
    sr1_config *config = NULL;
    sr1_rollout *rollout = NULL;
    sr1_status status;

    if (argc != 3)
        return fprintf(stderr, "usage: 04_generate CONFIG QUESTION\n"), 2;
    query.text = argv[2];
    query.text_len = strlen(argv[2]);
    status = sr1_config_new(&config);
    if (status == SR1_OK)
        status = sr1_config_load(config, argv[1]);
    if (status == SR1_OK)
        status = sr1_rollout_new(&rollout, config, NULL, NULL, NULL);
    if (status == SR1_OK)
        status = sr1_rollout_generate(rollout, &query, 1, &options, made);
    for (int i = 0; i < 2 && status == SR1_OK; i++)
        print_trajectory(made[i]);
    if (status != SR1_OK)
        fprintf(stderr, "%s\n", sr1_last_error());
    sr1_trajectory_free(made[0]);
    sr1_trajectory_free(made[1]);
    sr1_rollout_free(rollout);
    sr1_config_free(config);
    return status == SR1_OK ? 0 : 1;
}
