/* Plans of memory against what the simulated device counts: each phase of a step within
 * 15 % of what was planned before anything was loaded. */
#include "accelerator/accelerator.h"
#include "unit/train/runs.h"

#include "environment/trajectory/builder.h"
#include "train/plan.h"
#include "train/step_batch.h"

#define LENGTH 256
#define PROMPT 64
#define TRAJECTORIES 8

static const char shape[] =
    "{\"architectures\": [\"Qwen3ForCausalLM\"], \"model_type\": \"qwen3\", "
    "\"hidden_size\": 96, \"num_hidden_layers\": 5, \"num_attention_heads\": 4, "
    "\"num_key_value_heads\": 2, \"head_dim\": 32, \"intermediate_size\": 288, "
    "\"vocab_size\": 1024, \"max_position_embeddings\": 512, \"rms_norm_eps\": 1e-6, "
    "\"rope_theta\": 10000.0, \"tie_word_embeddings\": %s}";

static void make_model(const char *name, const char *tied)
{
    sr1_model_options o = {.struct_size = sizeof o, .device = "cpu", .dtype = "fp32"};
    char text[1024], folder[512];
    sr1_model *m = NULL;

    snprintf(folder, sizeof folder, "%s", scratch_path(name));
    snprintf(text, sizeof text, shape, tied);
    tiny_tokenizer(folder);
    OK(sr1_model_new_random(&m, text, 7, &o));
    OK(sr1_model_save(m, folder));
    sr1_model_free(m);
}

static int make(void **state)
{
    if (runs_make(state) != 0)
        return -1;
    make_model("tied", "true");
    make_model("untied", "false");
    return 0;
}

/* ---- what a step works on ---- */

/* Of all tokens that the limits allow. */
static sr1_trajectory *make_trajectory(int32_t i)
{
    struct sr1__trajectory_builder *b = NULL;
    int32_t prompt[PROMPT];
    sr1_trajectory *t = NULL;

    for (int32_t k = 0; k < PROMPT; k++)
        prompt[k] = k % 300;
    OK(sr1__trajectory_builder_new(&b, "q", 1, "q", i % 4));
    OK(sr1__trajectory_builder_prompt(b, prompt, PROMPT));
    for (int32_t k = PROMPT; k < LENGTH; k++)
        OK(sr1__trajectory_builder_policy(b, (7 * k + i) % 300, -1.0f, 0, "x", 1));
    OK(sr1__trajectory_builder_finish(b, SR1_STOP_EOS, NULL, 0, &t));
    OK(sr1_trajectory_set_reward(t, i % 3));
    OK(sr1_trajectory_set_advantage(t, i % 3 - 1.0));
    return t;
}

static void set_returns(sr1_trajectory *t)
{
    size_t n = sr1_trajectory_policy_count(t);
    float *v = calloc(n, sizeof *v);

    for (size_t i = 0; i < n; i++)
        v[i] = 0.5f;
    OK(sr1_trajectory_set_column(t, SR1_COLUMN_RETURN, v, n));
    OK(sr1_trajectory_set_column(t, SR1_COLUMN_VALUE, v, n));
    free(v);
}

/* ---- comparing ---- */

static int64_t count_live(void)
{
    struct accelerator_counts c;

    accelerator_read(&c);
    return c.live_bytes;
}

static int64_t count_peak(void)
{
    struct accelerator_counts c;

    accelerator_read(&c);
    return c.peak_bytes;
}

static void compare(const char *what, double planned, double counted)
{
    print_message("  %-10s %6.2f MB planned, %6.2f counted: %.3f\n", what, planned / 1e6,
                  counted / 1e6, planned / counted);
    assert_true(planned > 0.85 * counted && planned < 1.15 * counted);
}

static double planned_peak(const sr1_plan *p, const char *phase)
{
    return (double)sr1_plan_peak(p, phase);
}

/* Questions of about as many tokens as prompts may have, more than are decoded at once:
 * prompts are read beside a whole cache. */
static void roll_out(sr1_trainer *tr)
{
    sr1_rollout_options o = {.struct_size = sizeof o, .group_size = 4, .seed = 5};
    sr1_trajectory *t[2 * TRAJECTORIES];
    sr1_query q[4];

    for (size_t i = 0; i < 4; i++)
        q[i] = tiny_query(
            i % 2 ? "What is in Rome? The tower stands in Paris. Rome is old."
                  : "Where is the tower? What is in Rome? Rome is old. Paris.");
    OK(sr1_rollout_generate(sr1_trainer_rollout(tr), q, 4, &o, t));
    tiny_free_all(t, 2 * TRAJECTORIES);
}

static double update(sr1_trainer *tr)
{
    sr1_trajectory *t[TRAJECTORIES];

    for (int32_t i = 0; i < TRAJECTORIES; i++) {
        t[i] = make_trajectory(i);
        if (tr->critics)
            set_returns(t[i]);
    }
    accelerator_reset();
    OK(sr1_trainer_update(tr, t, TRAJECTORIES, NULL));
    tiny_free_all(t, TRAJECTORIES);
    return (double)count_peak();
}

static double recompute(sr1_trainer *tr)
{
    sr1_trajectory *t[TRAJECTORIES];

    for (int32_t i = 0; i < TRAJECTORIES; i++)
        t[i] = make_trajectory(i);
    accelerator_reset();
    OK(sr1__reference_raise(tr));
    OK(sr1__forward_column(tr, SR1_COLUMN_REFERENCE, t, TRAJECTORIES));
    sr1__reference_lower(tr);
    tiny_free_all(t, TRAJECTORIES);
    return (double)count_peak();
}

/* generate: roll out too, which takes seconds. */
static void check_plan(int generate, sr1_config *c)
{
    int64_t before = count_live();
    sr1_plan *p = NULL;
    sr1_trainer *tr = NULL;
    double base = (double)before;

    OK(sr1_plan_new(&p, c, 1));
    assert_int_equal(count_live(), before); /* nothing was loaded */
    OK(sr1_trainer_new(&tr, c, NULL));
    accelerator_reset();
    if (generate) {
        roll_out(tr);
        compare("generate", planned_peak(p, "generate"), (double)count_peak() - base);
    }
    if (tr->references || tr->host_reference)
        compare("log-probs", planned_peak(p, "log_probs"), recompute(tr) - base);
    compare("update", fmax(planned_peak(p, "update"), planned_peak(p, "update_critic")),
            update(tr) - base);
    compare("stays", planned_peak(p, "save"), (double)count_live() - base);
    sr1_trainer_free(tr);
    sr1_plan_free(p);
    sr1_config_free(c);
}

#define CASE(name, generate, model, ...)                                                 \
    static void name(void **state)                                                       \
    {                                                                                    \
        (void)state;                                                                     \
        check_plan(generate,                                                             \
                   tiny_config(model, "environment=none", "max_prompt_tokens=64",        \
                               "max_tokens=192", "micro_batch_tokens=1024",              \
                               "max_rows=8", "logit_chunk=64", "kl_reference=frozen",    \
                               "update_times=1", __VA_ARGS__, NULL));                    \
    }

CASE(full_fp32, 1, "untied", "dtype=fp32")
CASE(full_bf16, 1, "tied", "dtype=bf16")
CASE(full_bf16_checkpointed, 0, "untied", "dtype=bf16", "gradient_checkpointing=true")
CASE(full_bf16_one_micro_batch, 0, "untied", "dtype=bf16", "micro_batch_tokens=4096")
CASE(full_fp32_checkpointed, 0, "tied", "dtype=fp32", "gradient_checkpointing=true")
CASE(lora_fp32, 0, "tied", "dtype=fp32", "lora_rank=8")
CASE(lora_bf16, 1, "untied", "dtype=bf16", "lora_rank=8")
CASE(lora_bf16_checkpointed, 0, "tied", "dtype=bf16", "lora_rank=8",
     "gradient_checkpointing=true")
CASE(lora_of_attention, 0, "tied", "dtype=bf16", "lora_rank=8",
     "lora_targets=q_proj,v_proj")
CASE(ppo_bf16, 0, "tied", "dtype=bf16", "advantage=gae")
CASE(ppo_fp32_checkpointed, 0, "untied", "dtype=fp32", "advantage=gae",
     "gradient_checkpointing=true")
CASE(entropies, 0, "tied", "dtype=bf16", "entropy_coef=0.01", "logit_chunk=256")
CASE(reference_of_another_type, 0, "tied", "dtype=bf16", "reference_dtype=fp32",
     "lora_rank=4")

CASE(optimizer_on_the_host, 0, "tied", "dtype=bf16", "optimizer_offload=true")
CASE(all_on_the_host, 0, "untied", "dtype=bf16", "optimizer_offload=true",
     "reference_offload=true", "gradient_checkpointing=true")
CASE(ppo_on_the_host, 0, "untied", "dtype=fp32", "advantage=gae",
     "optimizer_offload=true", "reference_offload=true")

/* ---- to the bit ---- */

/* Weights and the optimizer's tensors after two updates; *static_bytes stay on the
 * device. */
static void train_twice(sr1_trainer *tr, struct sr1__buf *out, int64_t *static_bytes)
{
    (void)update(tr);
    (void)update(tr);
    *static_bytes = count_live();
    for (size_t i = 0;
         i < tr->model->n_params + sr1__optimizer_state_count(tr->policy.optimizer);
         i++) {
        sr1_tensor *t =
            i < tr->model->n_params
                ? tr->model->params[i].tensor
                : sr1__optimizer_state(tr->policy.optimizer, i - tr->model->n_params)
                      .tensor;
        size_t n = (size_t)t_numel(t);
        float *v = calloc(n, sizeof *v);
        sr1_scope *s = sr1__scope_open(SR1__CPU, "numbers");

        t_to_host_f32(s, t, v, n);
        OK(sr1__scope_close(s));
        sr1__buf_add(out, v, n * sizeof *v);
        free(v);
    }
}

static void compare_bits(const char *dtype, const char *offload, double *saved,
                         double *planned)
{
    struct sr1__buf bits[2] = {{0}};
    double plans[2];
    int64_t live[2];

    for (int i = 0; i < 2; i++) {
        sr1_config *c = tiny_config("untied", "environment=none", "max_prompt_tokens=64",
                                    "max_tokens=192", "micro_batch_tokens=1024",
                                    "kl_reference=frozen", "beta=0.05", "update_times=1",
                                    "max_grad_norm=0.1", dtype, i ? offload : NULL, NULL);
        int64_t before = count_live();
        sr1_trainer *tr = NULL;
        sr1_plan *p = NULL;

        OK(sr1_plan_new(&p, c, 1));
        OK(sr1_trainer_new(&tr, c, NULL));
        sr1__buf_init(&bits[i], 0);
        train_twice(tr, &bits[i], &live[i]);
        live[i] -= before;
        plans[i] = planned_peak(p, "save");
        sr1_trainer_free(tr);
        sr1_plan_free(p);
        sr1_config_free(c);
    }
    assert_int_equal(bits[0].len, bits[1].len);
    assert_memory_equal(bits[0].data, bits[1].data, bits[0].len);
    *saved = (double)(live[0] - live[1]);
    *planned = plans[0] - plans[1];
    sr1__buf_free(&bits[0]);
    sr1__buf_free(&bits[1]);
}

static void the_host_gives_the_same_bits(void **state)
{
    static const char *const dtypes[] = {"dtype=bf16", "dtype=fp32"};
    static const char *const keys[] = {"optimizer_offload=true",
                                       "reference_offload=true"};
    double saved, planned;

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        compare_bits(dtypes[i / 2], keys[i % 2], &saved, &planned);
        print_message("  %s %s: %.2f MB less, %.2f planned\n", dtypes[i / 2], keys[i % 2],
                      saved / 1e6, planned / 1e6);
        assert_true(planned > 1e6 && fabs(saved - planned) < 0.05 * planned);
    }
}

/* ---- a run ---- */

/* A checkpoint of either goes on as the other. */
static void runs_go_on_from_the_host_and_back(void **state)
{
    const char *const pairs[] = {"optimizer_offload=false", "reference_offload=false"};
    sr1_resume_options o = {.struct_size = sizeof o, .pairs = pairs, .n_pairs = 2};
    sr1_trainer *tr =
        open_trainer(RUN("moved", "dtype=bf16", "beta=0.05", "optimizer_offload=true",
                         "reference_offload=true"));

    (void)state;
    assert_non_null(tr->host_reference);
    run_whole(RUN("plain", "dtype=bf16", "beta=0.05"));
    run_until(tr, 3);
    sr1_trainer_free(tr);
    OK(sr1_trainer_resume(&tr, scratch_path("moved"), &o));
    assert_null(tr->host_reference);
    OK(sr1_trainer_run(tr, NULL));
    sr1_trainer_free(tr);
    same_file("plain", "moved", "model/model.safetensors");
    same_file("plain", "moved", "checkpoints/step-6/optimizer/model.safetensors");
    same_file("plain", "moved", "checkpoints/step-2/optimizer/model.safetensors");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(full_fp32),
        cmocka_unit_test(full_bf16),
        cmocka_unit_test(full_bf16_checkpointed),
        cmocka_unit_test(full_bf16_one_micro_batch),
        cmocka_unit_test(full_fp32_checkpointed),
        cmocka_unit_test(lora_fp32),
        cmocka_unit_test(lora_bf16),
        cmocka_unit_test(lora_bf16_checkpointed),
        cmocka_unit_test(lora_of_attention),
        cmocka_unit_test(ppo_bf16),
        cmocka_unit_test(ppo_fp32_checkpointed),
        cmocka_unit_test(entropies),
        cmocka_unit_test(reference_of_another_type),
        cmocka_unit_test(optimizer_on_the_host),
        cmocka_unit_test(all_on_the_host),
        cmocka_unit_test(ppo_on_the_host),
        cmocka_unit_test(the_host_gives_the_same_bits),
        cmocka_unit_test(runs_go_on_from_the_host_and_back),
        cmocka_unit_test(tiny_nothing_leaks),
    };

    return cmocka_run_group_tests_name("memory", tests, make, scratch_remove);
}
