/* Options and vtables of older and newer callers give what their fields say. */
#include "abi/structs.h"

#include <searchr1/ext/batching.h>
#include <searchr1/ext/bm25.h>
#include <searchr1/ext/engines.h>
#include <searchr1/ext/episodes.h>
#include <searchr1/ext/estimators.h>
#include <searchr1/ext/loss.h>
#include <searchr1/ext/reward_set.h>
#include <searchr1/ext/seed_rewards.h>
#include <searchr1/ext/tokenizer.h>
#include <searchr1/ext/world.h>

static sr1_search *engine;
static sr1_tokenizer *tokenizer;
static sr1_trajectory *trajectory;

/* ---- what the calls work on ---- */

static int destroyed;

static void on_destroy(void *self)
{
    (void)self;
    destroyed++;
}

static sr1_status three_hits(void *self, const char *const *queries, size_t n,
                             int32_t top_k, sr1_search_sink *sink)
{
    (void)self;
    (void)queries;
    for (size_t i = 0; i < n; i++)
        for (int32_t k = 0; k < top_k && k < 4; k++)
            SR1__TRY(sr1_search_sink_hit(sink, i, "id", "\"Title\"\nBody", 1.0));
    return SR1_OK;
}

static sr1_status act(void *self, const sr1_env_action *const *actions, size_t n,
                      sr1_env_sink *sink)
{
    (void)self;
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(actions[i]->struct_size, sizeof(sr1_env_action));
        SR1__TRY(sr1_env_sink_text(sink, i, "seen", 4));
    }
    return SR1_OK;
}

static sr1_status seven(void *self, const sr1_trajectory *const *t, size_t n, double *out)
{
    (void)self;
    (void)t;
    for (size_t i = 0; i < n; i++)
        out[i] = 7;
    return SR1_OK;
}

static sr1_query query(void)
{
    return tiny_query("Where is the tower?");
}

/* ---- search ---- */

static void call_search_ops(const void *given, struct said *said)
{
    const char *q = "where";
    sr1_search *e = NULL, *kept = NULL;
    sr1_search_results *r = NULL;

    destroyed = 0;
    if (say_status(said, sr1_search_new(&e, given, NULL)) != SR1_OK)
        return;
    OK(sr1_search_run(e, &q, 1, 2, &r));
    say(said, "%s %d ", sr1_search_name(e), (int)sr1_search_results_hit_count(r, 0));
    sr1_search_results_free(r);
    say(said, "%d ", sr1_search_open_disk_cache(&kept, e, scratch_path("kept"), NULL));
    sr1_search_free(kept);
    sr1_search_free(e);
    say(said, "%d", destroyed);
}

static void call_bm25_build(const void *given, struct said *said)
{
    sr1_bm25_info info = {.struct_size = sizeof info};
    sr1_search *e = NULL;

    if (say_status(said, sr1_bm25_build(scratch_path("corpus.jsonl"),
                                        scratch_path("built.idx"), given, NULL, NULL)) !=
        SR1_OK)
        return;
    OK(sr1_search_open_bm25(&e, scratch_path("built.idx"), NULL));
    OK(sr1_bm25_info_get(e, &info));
    say(said, "%s", info.analyzer);
    sr1_search_free(e);
}

static void call_bm25_open(const void *given, struct said *said)
{
    sr1_bm25_info info = {.struct_size = sizeof info};
    sr1_search *e = NULL;

    if (say_status(said, sr1_search_open_bm25(&e, scratch_path("corpus.idx"), given)) !=
        SR1_OK)
        return;
    OK(sr1_bm25_info_get(e, &info));
    say(said, "%g %g", info.k1, info.b);
    sr1_search_free(e);
}

/* ---- environments, rewards, advantages ---- */

static void ask(sr1_env *e, struct said *said)
{
    char *text = NULL;
    size_t n;

    OK(sr1_env_answer(e, "tower", 5, &text, &n));
    say(said, "%s %s", sr1_env_name(e), text);
    sr1_free(text);
    sr1_env_free(e);
}

static void call_env_options(const void *given, struct said *said)
{
    sr1_env *e = NULL;

    if (say_status(said, sr1_env_open(&e, "search", engine, given)) == SR1_OK)
        ask(e, said);
}

static void call_env_ops(const void *given, struct said *said)
{
    sr1_env *e = NULL;

    destroyed = 0;
    if (say_status(said, sr1_env_new(&e, given, NULL, NULL)) == SR1_OK)
        ask(e, said);
    say(said, "%d", destroyed);
}

static sr1_status tool(void *self, const char *args, size_t len, sr1_tool_sink *sink)
{
    (void)self;
    return sr1_tool_sink_text(sink, args, len);
}

static void call_tool_ops(const void *given, struct said *said)
{
    static const char action[] = "{\"name\": \"mine\", \"args\": {\"x\": 1}}";
    sr1_env *e = NULL;
    char *text = NULL;
    size_t n;

    destroyed = 0;
    OK(sr1_env_open(&e, "tools", NULL, NULL));
    if (say_status(said, sr1_env_add_tool(e, given, NULL)) == SR1_OK) {
        OK(sr1_env_answer(e, action, strlen(action), &text, &n));
        say(said, "%s %s", sr1_env_tools(e), text);
    }
    sr1_free(text);
    sr1_env_free(e);
    say(said, "%d", destroyed);
}

static void call_scales(const void *given, struct said *said)
{
    static const char *const answers[] = {"Paris", "pari s", "Pa", "none", ""};
    const char *truth = "Paris";
    double v = 0;

    say_status(said, sr1_reward_check_format("<answer>x</answer>", 18, given, &v));
    say(said, "%g ", v);
    say_status(said, sr1_reward_check_format("x", 1, given, &v));
    say(said, "%g ", v);
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        say_status(said, sr1_reward_check_answer(answers[i], strlen(answers[i]), &truth,
                                                 1, given, &v));
        say(said, "%g ", v);
    }
}

static void score(sr1_reward_set *set, struct said *said)
{
    const sr1_trajectory *t = trajectory;
    double total;

    for (size_t i = 0; i < sr1_reward_set_count(set); i++)
        say(said, "%s %d ", sr1_reward_set_name(set, i),
            (int)sr1_reward_set_level(set, i));
    if (say_status(said, sr1_reward_set_score(set, &t, 1, NULL, &total)) == SR1_OK)
        say(said, "%g ", total);
}

static void call_reward_options(const void *given, struct said *said)
{
    sr1_reward_set *set = NULL;

    if (say_status(said, sr1_reward_set_new(&set, given)) == SR1_OK)
        score(set, said);
    sr1_reward_set_free(set);
}

static void call_reward_ops(const void *given, struct said *said)
{
    sr1_reward_set *set = NULL;

    destroyed = 0;
    OK(sr1_reward_set_new(&set, NULL));
    if (say_status(said, sr1_reward_set_add(set, given, NULL, 2)) == SR1_OK)
        score(set, said);
    sr1_reward_set_free(set);
    say(said, "%d", destroyed);
}

static const double rewards[] = {1, 4, 9};
static const uint64_t groups[] = {5, 5, 5};
static const int64_t token_begin[] = {0, 1, 3, 4}, turn_begin[] = {0, 2, 3, 4};
static const int32_t token_turns[] = {1, 0, 0, 0};
static const double token_rewards[] = {1, 0, 2, -1};

static void compare(const sr1_advantage_batch *b, const sr1_advantage_options *o,
                    struct said *said)
{
    double each[3];
    float tokens[4];
    sr1_advantage_outputs out = {
        .struct_size = sizeof out, .advantages = each, .token_advantages = tokens};

    if (say_status(said, sr1_advantage_estimate("grpo", b, o, &out, NULL)) != SR1_OK)
        return;
    for (size_t i = 0; i < 4; i++)
        say(said, "%g ", (double)tokens[i]);
}

static const sr1_advantage_batch batch = {sizeof batch, 3, rewards, groups, token_begin};

static void call_advantage_batch(const void *given, struct said *said)
{
    compare(given, NULL, said);
}

static void call_advantage_options(const void *given, struct said *said)
{
    compare(&batch, given, said);
}

static const int64_t seen[] = {2, 2, 2};
static const double variance[] = {0, 2, 1};

static void call_query_stats(const void *given, struct said *said)
{
    int64_t chosen[3];

    if (say_status(said, sr1_query_select("reward_variance", given, 3, 1, 1, chosen)) ==
        SR1_OK)
        say(said, "%d %d %d", (int)chosen[0], (int)chosen[1], (int)chosen[2]);
}

/* ---- data, tokenizer, model ---- */

static void call_dataset(const void *given, struct said *said)
{
    const char *path = scratch_path("rows.jsonl");
    sr1_dataset *d = NULL;
    sr1_row *row = NULL;

    if (say_status(said, sr1_dataset_open(&d, &path, 1, given)) != SR1_OK)
        return;
    if (say_status(said, sr1_dataset_read(d, 0, &row)) == SR1_OK)
        say(said, "%s %s %s %zu", sr1_row_question(row), sr1_row_id(row),
            sr1_row_data_source(row), sr1_row_answer_count(row));
    sr1_row_free(row);
    sr1_dataset_free(d);
}

static void call_chat(const void *given, struct said *said)
{
    const char *role = "user", *content = "<think>";
    char *text = NULL;
    int32_t *ids = NULL;
    size_t n = 0;

    if (say_status(said, sr1_tokenizer_chat(tokenizer, &role, &content, NULL, 1, given,
                                            &text, NULL, &ids, &n)) != SR1_OK)
        return;
    say(said, "%s %zu", text, n);
    sr1_free(text);
    sr1_free(ids);
}

static const char *const special[] = {"<|endoftext|>", "<|im_start|>", "<|im_end|>",
                                      "<s>"};
static const char *const added[] = {"<mine>"};

static void call_tokenizer_train(const void *given, struct said *said)
{
    const char *text = "to be or not to be, to see or not to see";
    char folder[512];
    sr1_tokenizer *t = NULL;

    snprintf(folder, sizeof folder, "%s", scratch_path("learnt"));
    if (say_status(said, sr1_tokenizer_train(&text, NULL, NULL, 1, given, folder)) !=
        SR1_OK)
        return;
    OK(sr1_tokenizer_open(&t, folder));
    say(said, "%d %d %d", (int)sr1_tokenizer_vocab_size(t),
        (int)sr1_tokenizer_token_to_id(t, "<s>"),
        (int)sr1_tokenizer_token_to_id(t, "<mine>"));
    sr1_tokenizer_free(t);
}

static void call_model(const void *given, struct said *said)
{
    char shape[1024];
    sr1_model *m = NULL;

    snprintf(shape, sizeof shape, tiny_shape, 1);
    if (say_status(said, sr1_model_new_random(&m, shape, 7, given)) == SR1_OK)
        say(said, "%s", sr1_model_dtype(m));
    sr1_model_free(m);
}

static void call_world(const void *given, struct said *said)
{
    /* no folder can be made there: what is wrong with the options is said before that */
    say_status(said,
               sr1_world_write(scratch_path("rows.jsonl/world"), given, NULL, NULL));
}

/* ---- losses ---- */

static const float now[] = {-1, -2}, old[] = {-1.5f, -1.5f}, ref[] = {-1.2f, -2.2f},
                   advantages[] = {1, -1}, weights[] = {0.75f, 0.25f},
                   rollout[] = {-1.25f, -1.75f}, entropies[] = {0.5f, 1.5f};
static const int64_t seq_begin[] = {0, 2}, seq_tokens[] = {2};
static const sr1_loss_batch loss_batch = {
    sizeof loss_batch, 2,       now,       old, ref,       advantages,
    weights,           rollout, entropies, 1,   seq_begin, seq_tokens};

static void lose(const char *name, const sr1_loss_batch *b, const sr1_loss_options *o,
                 struct said *said)
{
    sr1_loss_report r = {.struct_size = sizeof r};

    if (say_status(said, sr1_loss_compute(name, b, o, NULL, NULL, &r)) == SR1_OK)
        say(said, "%g %g %g ", r.loss, r.kl, r.importance_mean);
}

static void call_loss_batch(const void *given, struct said *said)
{
    sr1_loss_options o = {sizeof o, 0.2, 0.2, 0.0};

    lose("grpo", given, &o, said);
    lose("nll", given, NULL, said);
    lose("gspo", given, NULL, said);
    o.correction = "token_truncate";
    o.correction_high = 9;
    lose("grpo", given, &o, said);
    o.entropy_coef = 0.5;
    lose("grpo", given, &o, said);
}

static void call_loss_options(const void *given, struct said *said)
{
    lose("grpo", &loss_batch, given, said);
    lose("sapo", &loss_batch, given, said);
}

static void call_loss_maps(const void *given, struct said *said)
{
    static const char *const names[] = {"token-mean", "seq-mean-token-sum",
                                        "seq-mean-token-sum-norm",
                                        "group-mean-token-mean"};
    float w[3];

    for (size_t i = 0; i < 4; i++)
        if (say_status(said, sr1_loss_weights(names[i], given, w)) == SR1_OK)
            say(said, "%g %g ", (double)w[0], (double)w[2]);
}

static void call_value_batch(const void *given, struct said *said)
{
    sr1_value_options o = {sizeof o, 0.0};
    sr1_value_report r = {.struct_size = sizeof r};

    if (say_status(said, sr1_value_loss(given, &o, NULL, &r)) == SR1_OK)
        say(said, "%g", r.loss);
    if (say_status(said, sr1_value_loss(given, NULL, NULL, &r)) == SR1_OK)
        say(said, "%g", r.loss);
}

static const int64_t map_begin[] = {0, 1, 3}, group_tokens[] = {5, 6};
static const uint64_t map_groups[] = {1, 1};

/* ---- the table ---- */

/* The name of a type, then the ends of its fields. */
#define INPUT(type, fn, ...)                                                             \
    {                                                                                    \
#type, fn, &full_##type, &default_##type, sizeof(type),                          \
        {                                                                                \
            __VA_ARGS__, sizeof(type)                                                    \
        }                                                                                \
    }

#define VALUE(type, ...) static const type full_##type = {sizeof(type), __VA_ARGS__}

VALUE(sr1_search_ops, "mine", three_hits, on_destroy, SR1_SEARCH_CONCURRENT, "v1");
VALUE(sr1_bm25_build_options, "plain", 99);
VALUE(sr1_bm25_options, 1.5, 0.75);
VALUE(sr1_env_options, "search-r1", "plain", 1);
VALUE(sr1_env_ops, "mine", act, on_destroy);
VALUE(sr1_tool_ops, "mine", "does",
      "{\"type\": \"object\", \"additionalProperties\": true}", tool, on_destroy,
      SR1_TOOL_CONCURRENT, 5);
VALUE(sr1_reward_scales, 5, -6, 7, 8, 9, 0.25, "none");
VALUE(sr1_reward_options, "format,f1", "2,3", "search-r1", &full_sr1_reward_scales);
VALUE(sr1_reward_ops, "seven", seven, on_destroy, SR1_REWARD_TURN);
VALUE(sr1_advantage_batch, 3, rewards, groups, token_begin, token_turns, turn_begin, NULL,
      token_rewards);
VALUE(sr1_advantage_options, 0.5, 0, SR1_ADVANTAGE_STD_UNBIASED);
VALUE(sr1_query_stats, 3, seen, variance);
VALUE(sr1_dataset_options, "q", "a", "k", "s", 1, 1);
VALUE(sr1_chat_options, 1, 1, 1, "[{\"type\": \"function\"}]");
VALUE(sr1_tokenizer_train_options, 280, 1, special, 4, added, 1);
VALUE(sr1_model_options, "cpu", "bf16", 1, "zeros");
VALUE(sr1_world_options, 1, 0.5, 2, 16, {1, 2, 3, 4, -5}, 1);
VALUE(sr1_loss_batch, 2, now, old, ref, advantages, weights, rollout, entropies, 1,
      seq_begin, seq_tokens);
VALUE(sr1_loss_options, 0.1, 0.3, 0.5, 1.05, 1.5, 1, 2, 3, 4, 5, 6, "k2", 1, 0.25,
      "token_truncate", 0.5, 0.9, 0.125);
VALUE(sr1_loss_maps, 2, map_begin, 11, 4, 6, map_groups, group_tokens, 3);
VALUE(sr1_value_batch, 2, now, ref, old, weights);

static const sr1_search_ops default_sr1_search_ops;
static const sr1_bm25_build_options default_sr1_bm25_build_options = {0, "english", 3};
static const sr1_bm25_options default_sr1_bm25_options = {0, 0.9, 0.4};
static const sr1_env_options default_sr1_env_options;
static const sr1_env_ops default_sr1_env_ops;
static const sr1_tool_ops default_sr1_tool_ops;
static const sr1_reward_options default_sr1_reward_options;
static const sr1_reward_ops default_sr1_reward_ops;
static const sr1_advantage_batch default_sr1_advantage_batch;
static const sr1_advantage_options default_sr1_advantage_options = {0, SR1_ADVANTAGE_EPS,
                                                                    1};
static const sr1_query_stats default_sr1_query_stats;
static const sr1_dataset_options default_sr1_dataset_options;
static const sr1_chat_options default_sr1_chat_options;
static const sr1_tokenizer_train_options default_sr1_tokenizer_train_options;
static const sr1_model_options default_sr1_model_options;
static const sr1_loss_batch default_sr1_loss_batch;
static const sr1_loss_options default_sr1_loss_options;
static const sr1_loss_maps default_sr1_loss_maps;
static const sr1_value_batch default_sr1_value_batch;
/* filled by the library's own functions */
static sr1_reward_scales default_sr1_reward_scales;
static sr1_world_options default_sr1_world_options;

/* The end of a field, for an older caller's struct that ends there. */
#define E(type, field) END(sr1_##type, field)

static const struct input inputs[] = {
    INPUT(sr1_search_ops, call_search_ops, E(search_ops, search), E(search_ops, destroy),
          E(search_ops, flags)),
    INPUT(sr1_bm25_build_options, call_bm25_build, E(bm25_build_options, analyzer),
          E(bm25_build_options, zstd_level)),
    INPUT(sr1_bm25_options, call_bm25_open, E(bm25_options, k1)),
    INPUT(sr1_env_options, call_env_options, E(env_options, protocol),
          E(env_options, document_format), E(env_options, top_k)),
    INPUT(sr1_env_ops, call_env_ops, E(env_ops, act)),
    INPUT(sr1_tool_ops, call_tool_ops, E(tool_ops, call), E(tool_ops, destroy),
          E(tool_ops, flags)),
    INPUT(sr1_reward_scales, call_scales, E(reward_scales, format_reward),
          E(reward_scales, format_penalty), E(reward_scales, answer_reward),
          E(reward_scales, exact_match_bonus), E(reward_scales, no_content_reward),
          E(reward_scales, similarity_threshold)),
    INPUT(sr1_reward_options, call_reward_options, E(reward_options, rewards),
          E(reward_options, weights), E(reward_options, protocol)),
    INPUT(sr1_reward_ops, call_reward_ops, E(reward_ops, score), E(reward_ops, destroy),
          E(reward_ops, level)),
    INPUT(sr1_advantage_batch, call_advantage_batch, E(advantage_batch, groups),
          E(advantage_batch, token_begin), E(advantage_batch, token_turns),
          E(advantage_batch, turn_begin), E(advantage_batch, token_rewards)),
    INPUT(sr1_advantage_options, call_advantage_options, E(advantage_options, eps),
          E(advantage_options, divide_by_std), E(advantage_options, std_kind)),
    INPUT(sr1_query_stats, call_query_stats, E(query_stats, n), E(query_stats, seen)),
    INPUT(sr1_dataset_options, call_dataset, E(dataset_options, question_field),
          E(dataset_options, answer_field), E(dataset_options, id_field),
          E(dataset_options, source_field), E(dataset_options, answers_optional)),
    INPUT(sr1_chat_options, call_chat, E(chat_options, add_generation_prompt),
          E(chat_options, no_thinking), E(chat_options, recognise_added)),
    INPUT(sr1_tokenizer_train_options, call_tokenizer_train,
          E(tokenizer_train_options, vocab_size),
          E(tokenizer_train_options, min_frequency),
          E(tokenizer_train_options, n_special_tokens)),
    INPUT(sr1_model_options, call_model, E(model_options, device),
          E(model_options, dtype), E(model_options, threads)),
    INPUT(sr1_world_options, call_world, E(world_options, seed), E(world_options, scale),
          E(world_options, sft_worlds), E(world_options, batch),
          E(world_options, stage_steps)),
    INPUT(sr1_loss_batch, call_loss_batch, E(loss_batch, new_log_probs),
          E(loss_batch, old_log_probs), E(loss_batch, ref_log_probs),
          E(loss_batch, advantages), E(loss_batch, weights),
          E(loss_batch, rollout_log_probs)),
    INPUT(sr1_loss_options, call_loss_options, E(loss_options, clip_high),
          E(loss_options, beta), E(loss_options, dual_clip),
          E(loss_options, tau_negative), E(loss_options, kl_weighted),
          E(loss_options, entropy_coef)),
    INPUT(sr1_loss_maps, call_loss_maps, E(loss_maps, seq_begin),
          E(loss_maps, total_tokens), E(loss_maps, total_seqs), E(loss_maps, length),
          E(loss_maps, groups), E(loss_maps, group_tokens)),
    INPUT(sr1_value_batch, call_value_batch, E(value_batch, returns),
          E(value_batch, old_values)),
};

static void options_and_vtables(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++)
        check_input(&inputs[i]);
}

/* ---- set-up ---- */

static void write_files(void)
{
    scratch_file("corpus.jsonl",
                 "{\"id\": \"1\", \"contents\": \"\\\"A\\\"\\nThe tower.\"}\n", 0);
    scratch_file("rows.jsonl",
                 "{\"question\": \"Q1\", \"golden_answers\": [\"A\"], \"id\": \"i\", "
                 "\"data_source\": \"d\", \"q\": \"Q2\", \"a\": [\"A\", \"B\"], "
                 "\"k\": \"k2\", \"s\": \"s2\"}\n",
                 0);
    OK(sr1_bm25_build(scratch_path("corpus.jsonl"), scratch_path("corpus.idx"), NULL,
                      NULL, NULL));
}

static int make(void **state)
{
    sr1_rollout_options o = {.struct_size = sizeof o, .group_size = 1, .greedy = 1};
    sr1_query q = query();
    sr1_rollout *r = NULL;
    sr1_config *c;

    scratch_make(state);
    write_files();
    tiny_model("model", TINY_SEARCHER, 12);
    OK(sr1_tokenizer_open(&tokenizer, scratch_path("model")));
    OK(sr1_search_new(&engine, &full_sr1_search_ops, NULL));
    c = tiny_config("model", NULL);
    OK(sr1_rollout_new(&r, c, NULL, NULL, engine));
    OK(sr1_rollout_generate(r, &q, 1, &o, &trajectory));
    sr1_rollout_free(r);
    sr1_config_free(c);
    sr1_reward_scales_init(&default_sr1_reward_scales);
    sr1_world_options_init(&default_sr1_world_options);
    return 0;
}

static int clean(void **state)
{
    sr1_trajectory_free(trajectory);
    sr1_search_free(engine);
    sr1_tokenizer_free(tokenizer);
    return scratch_remove(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_and_vtables),
    };

    return cmocka_run_group_tests(tests, make, clean);
}
