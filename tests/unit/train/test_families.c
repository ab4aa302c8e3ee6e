/* Every architecture is trained, stopped, resumed and saved: imitation and reinforcement,
 * all weights and adapters, with the tokenizers that such models come with. */
#include "runs.h"

#include <searchr1/ext/model_details.h>

#include <unistd.h>

#define SHAPE(arch, more)                                                                \
    "{\"architectures\": [\"" arch "ForCausalLM\"], \"hidden_size\": 32, "               \
    "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"intermediate_size\": "    \
    "48, \"vocab_size\": 1000, \"max_position_embeddings\": 512, \"eos_token_id\": 1, "  \
    "\"rope_theta\": 10000.0, " more "}"

/* Windows are shorter than the sequences. */
static const struct family {
    const char *name, *shape;
    const char *tokenizer; /* of tests/golden/tokenizer; NULL: a byte-level one */
    const char *chat_template;
} families[] = {
    {"smollm3",
     SHAPE("SmolLM3", "\"num_hidden_layers\": 3, \"no_rope_layers\": [1, 0, 1], "
                      "\"use_sliding_window\": true, \"sliding_window\": 9"),
     NULL, NULL},
    {"qwen3-moe",
     SHAPE("Qwen3Moe",
           "\"num_hidden_layers\": 3, \"num_experts\": 4, \"num_experts_per_tok\": 2, "
           "\"moe_intermediate_size\": 16, \"head_dim\": 8, \"norm_topk_prob\": true, "
           "\"mlp_only_layers\": [1]"),
     NULL, NULL},
    {"gemma3",
     SHAPE("Gemma3", "\"num_hidden_layers\": 2, \"head_dim\": 8, \"sliding_window\": 8, "
                     "\"query_pre_attn_scalar\": 8, \"sliding_window_pattern\": 2"),
     "gemma",
     "{{ bos_token }}{% for m in messages %}<start_of_turn>{{ 'model' if m.role == "
     "'assistant' else m.role }}\n{{ m.content | trim }}<end_of_turn>\n{% endfor %}"
     "{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}"},
    {"mistral",
     SHAPE("Mistral",
           "\"num_hidden_layers\": 2, \"sliding_window\": 10, \"head_dim\": 8"),
     "llama2",
     "{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}[INST] "
     "{{ m.content }} [/INST]{% else %} {{ m.content }}{{ eos_token }}{% endif %}"
     "{% endfor %}"},
};
#define N_FAMILIES (sizeof families / sizeof *families)

static void write_tokenizer(const struct family *f, const char *folder)
{
    const char *root = getenv("SR1_SRC");
    sr1_tokenizer *t = NULL;
    char path[700];

    if (!f->tokenizer) {
        tiny_tokenizer(folder);
        return;
    }
    snprintf(path, sizeof path, "%s/tests/golden/tokenizer/%s", root ? root : ".",
             f->tokenizer);
    OK(sr1_tokenizer_open(&t, path));
    OK(sr1__dir_make(folder));
    OK(sr1_tokenizer_save(t, folder));
    sr1_tokenizer_free(t);
    snprintf(path, sizeof path, "%s/chat_template.jinja", folder);
    OK(sr1__file_replace(path, f->chat_template, strlen(f->chat_template)));
}

static void write_family(const struct family *f)
{
    sr1_model_options o = {
        .struct_size = sizeof o, .device = "cpu", .dtype = "fp32", .init = "fan_in"};
    char folder[512];
    sr1_model *m = NULL;

    snprintf(folder, sizeof folder, "%s", scratch_path(f->name));
    write_tokenizer(f, folder);
    OK(sr1_model_new_random(&m, f->shape, 7, &o));
    OK(sr1_model_save(m, folder));
    sr1_model_free(m);
}

static int make_families(void **state)
{
    if (scratch_make(state) != 0)
        return -1;
    runs_files();
    for (size_t i = 0; i < N_FAMILIES; i++)
        write_family(&families[i]);
    return 0;
}

/* ---- imitation ---- */

static sr1_config *imitate(const struct family *f, const char *run, const char *more)
{
    static const char told[] =
        "{\"question\": \"Where?\", \"segments\": [{\"source\": \"policy\", \"text\": "
        "\"<answer> Paris is the city of the tower</answer>\"}]}\n"
        "{\"question\": \"Who is it?\", \"segments\": [{\"source\": \"policy\", "
        "\"text\": \"<answer> Rome, and nothing else</answer>\"}]}\n";
    char pair[600];

    snprintf(pair, sizeof pair, "sft_file=%s", scratch_file("told.jsonl", told, 0));
    return tiny_config(f->name, "stage=sft", pair, out_pair(run), "max_steps=4",
                       "save_interval=2", "learning_rate=1e-2", more, NULL);
}

static void check_imitation(const struct family *f, const char *more)
{
    const char *whole = join_run_name(f->name, "whole"),
               *stopped = join_run_name(f->name, "stopped");
    sr1_trainer *tr;
    json_t *rows;

    run_whole(imitate(f, whole, more));
    rows = metrics(whole);
    if (!(metric(rows, 3, "loss") < 0.95 * metric(rows, 0, "loss")))
        fail_msg("%s, %s: the loss goes from %g to %g", f->name, more,
                 metric(rows, 0, "loss"), metric(rows, 3, "loss"));
    json_decref(rows);
    tr = open_trainer(imitate(f, stopped, more));
    run_until(tr, 3);
    sr1_trainer_free(tr);
    tr = NULL;
    OK(sr1_trainer_resume(&tr, scratch_path(stopped), NULL));
    assert_int_equal(sr1_trainer_steps_done(tr), 2);
    OK(sr1_trainer_run(tr, NULL));
    sr1_trainer_free(tr);
    same_file(whole, stopped,
              strstr(more, "lora") ? "model/adapter_model.safetensors"
                                   : "model/model.safetensors");
    OK(sr1__dir_remove(scratch_path(whole)));
    OK(sr1__dir_remove(scratch_path(stopped)));
}

static void imitation_resumes_to_the_same_bits(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_FAMILIES; i++) {
        check_imitation(&families[i], "gradient_checkpointing=true");
        check_imitation(&families[i], "lora_rank=4");
    }
}

/* ---- reinforcement ---- */

/* Nothing is rewarded: what is trained is the entropy of the samples. */
static void sampling_and_updates_agree(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_FAMILIES; i++) {
        const char *run = join_run_name(families[i].name, "grpo");
        sr1_model *before = NULL, *after = NULL;
        char folder[600];
        json_t *rows;
        size_t n, m;
        float *a, *b;

        run_whole(tiny_config(families[i].name, train_path, knowledge_path, out_pair(run),
                              "max_steps=2", "entropy_coef=0.1", "log_trajectories=-1",
                              NULL));
        rows = metrics(run);
        /* what was sampled with, and what the training pass computes */
        assert_true(metric(rows, 0, "training/rollout_probs_diff_max") < 1e-4);
        json_decref(rows);
        snprintf(folder, sizeof folder, "%s/model", scratch_path(run));
        OK(sr1_model_open(&before, scratch_path(families[i].name), NULL));
        OK(sr1_model_open(&after, folder, NULL));
        a = tiny_weights(before, &n);
        b = tiny_weights(after, &m);
        assert_int_equal(n, m);
        assert_true(memcmp(a, b, n * sizeof *a) != 0);
        free(a);
        free(b);
        sr1_model_free(before);
        sr1_model_free(after);
    }
}

static const char *const rounding_pairs[] = {"quantization=int8",
                                             "kv_cache_dtype=bfloat16"};

/* Sampled with int8 weights, or after keys in bf16: tokens' log-probs differ from those
 * of what is trained, the metrics show by how much, and they are weighed by it. */
static void rounded_sampling_is_weighed(void **state)
{
    (void)state;
    for (size_t k = 0; k < 2 * N_FAMILIES; k++) {
        size_t i = k / 2;
        const char *run = join_run_name(families[i].name, k % 2 ? "narrow" : "int8");
        json_t *rows;

        run_whole(tiny_config(families[i].name, train_path, knowledge_path, out_pair(run),
                              "max_steps=2", "entropy_coef=0.1", rounding_pairs[k % 2],
                              "importance_correction=token_truncate", NULL));
        rows = metrics(run);
        for (size_t step = 0; step < 2; step++) {
            double most = metric(rows, step, "sampling/sampling_logp_difference/max");
            double mean = metric(rows, step, "sampling/sampling_logp_difference/mean");

            /* a token's most where it is routed to another expert */
            if (!(most > 1e-5 && mean < 0.05))
                fail_msg("%s, step %d: log-probs differ by %g, on average %g",
                         families[i].name, (int)step, most, mean);
            assert_true(metric(rows, step, "rollout_corr/rollout_is_max") != 1);
        }
        json_decref(rows);
    }
}

/* In the first step policy and reference are the same weights, whatever sampled. */
static void a_subtracted_kl_is_of_the_weights_that_are_trained(void **state)
{
    json_t *rows;

    (void)state;
    run_whole(tiny_config(families[0].name, train_path, knowledge_path,
                          out_pair("subtracted"), "max_steps=1", "quantization=int8",
                          "importance_correction=token_truncate", "kl_in=reward",
                          "kl_kind=abs", "kl_reference=frozen", "beta=0.1", NULL));
    rows = metrics("subtracted");
    tiny_near(metric(rows, 0, "critic/kl"), 0, 1e-6);
    json_decref(rows);
}

static void unweighed_rounded_sampling_is_refused(void **state)
{
    (void)state;
    for (size_t k = 0; k < 2; k++) {
        sr1_config *c = tiny_config(families[0].name, train_path, knowledge_path,
                                    out_pair("unweighed"), rounding_pairs[k], NULL);
        sr1_trainer *tr = NULL;

        REFUSED(sr1_trainer_new(&tr, c, NULL), SR1_E_CONFIG, "set importance_correction");
        assert_non_null(strstr(sr1_last_error(),
                               k ? "kv_cache_dtype to auto" : "quantization to none"));
        OK(sr1_config_set_pair(c, "dtype=fp16"));
        OK(sr1_config_set_pair(c, "importance_correction=token_truncate"));
        REFUSED(sr1_trainer_new(&tr, c, NULL), SR1_E_UNSUPPORTED,
                "on a CPU in fp32 or bf16");
        sr1_config_free(c);
        run_whole(imitate(&families[0], k ? "narrow-told" : "int8-told",
                          rounding_pairs[k])); /* no sampling */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(imitation_resumes_to_the_same_bits),
        cmocka_unit_test(sampling_and_updates_agree),
        cmocka_unit_test(rounded_sampling_is_weighed),
        cmocka_unit_test(a_subtracted_kl_is_of_the_weights_that_are_trained),
        cmocka_unit_test(unweighed_rounded_sampling_is_refused),
        cmocka_unit_test(tiny_nothing_leaks),
    };

    return cmocka_run_group_tests_name("families", tests, make_families, scratch_remove);
}
