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

/* Of as many heads and words. */
static void make_mixture(void)
{
    tiny_random_model(
        "mixture",
        "{\"architectures\": [\"Qwen3MoeForCausalLM\"], \"hidden_size\": 96, "
        "\"num_hidden_layers\": 5, \"num_attention_heads\": 4, "
        "\"num_key_value_heads\": 2, \"head_dim\": 32, \"intermediate_size\": 288, "
        "\"num_experts\": 8, \"num_experts_per_tok\": 2, \"moe_intermediate_size\": 96, "
        "\"vocab_size\": 1024, \"max_position_embeddings\": 512, \"rms_norm_eps\": 1e-6, "
        "\"rope_theta\": 10000.0}");
}

static int make(void **state)
{
    if (runs_make(state) != 0)
        return -1;
    make_model("tied", "true");
    make_model("untied", "false");
    make_mixture();
    return 0;
}

/* ---- what a step works on ---- */

static sr1_trajectory *make_long(int32_t i, int32_t n_prompt, int32_t length)
{
    struct sr1__trajectory_builder *b = NULL;
    int32_t prompt[PROMPT];
    sr1_trajectory *t = NULL;

    for (int32_t k = 0; k < n_prompt; k++)
        prompt[k] = k % 300;
    OK(sr1__trajectory_builder_new(&b, "q", 1, "q", i % 4));
    OK(sr1__trajectory_builder_prompt(b, prompt, (size_t)n_prompt));
    for (int32_t k = n_prompt; k < length; k++)
        OK(sr1__trajectory_builder_policy(b, (7 * k + i) % 300, -1.0f, 0, "x", 1));
    OK(sr1__trajectory_builder_finish(b, SR1_STOP_EOS, NULL, 0, &t));
    OK(sr1_trajectory_set_reward(t, i % 3));
    OK(sr1_trajectory_set_advantage(t, i % 3 - 1.0));
    return t;
}

/* Of all tokens that the limits allow. */
static sr1_trajectory *make_trajectory(int32_t i)
{
    return make_long(i, PROMPT, LENGTH);
}

static sr1_trajectory *make_short_trajectory(int32_t i)
{
    return make_long(2 * i, 4, 8);
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
CASE(mixture_bf16, 1, "mixture", "dtype=bf16")
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

CASE(int8_reference, 0, "untied", "dtype=bf16", "reference_quantization=int8")
CASE(int8_reference_of_fp32, 0, "tied", "dtype=fp32", "reference_quantization=int8")
CASE(int8_reference_on_the_host, 0, "untied", "dtype=bf16", "reference_offload=true",
     "reference_quantization=int8")

CASE(optimizer_on_the_host, 0, "tied", "dtype=bf16", "optimizer_offload=true")
CASE(all_on_the_host, 0, "untied", "dtype=bf16", "optimizer_offload=true",
     "reference_offload=true", "gradient_checkpointing=true")
CASE(ppo_on_the_host, 0, "untied", "dtype=fp32", "advantage=gae",
     "optimizer_offload=true", "reference_offload=true")

/* ---- to the bit ---- */

/* Weights and the optimizer's tensors. */
static void add_numbers(const sr1_trainer *tr, struct sr1__buf *out)
{
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

/* After two updates; *static_bytes stay on the device. */
static void train_twice(sr1_trainer *tr, struct sr1__buf *out, int64_t *static_bytes)
{
    (void)update(tr);
    (void)update(tr);
    *static_bytes = count_live();
    add_numbers(tr, out);
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

/* ---- one micro-batch ---- */

/* A step of few tokens, whose peak is its gradients; *parameters of the model. */
static double peak_of_small_step(const char *tokens, double *planned, double *parameters)
{
    sr1_config *c =
        tiny_config("untied", "environment=none", "dtype=bf16", "max_prompt_tokens=4",
                    "max_tokens=4", "group_size=2", "batch_size=1", "kl_reference=frozen",
                    "update_times=1", "logit_chunk=8", tokens, NULL);
    int64_t before = count_live(), start;
    sr1_trajectory *t[2];
    sr1_trainer *tr = NULL;
    sr1_plan *p = NULL;
    double peak;

    OK(sr1_plan_new(&p, c, 1));
    OK(sr1_trainer_new(&tr, c, NULL));
    for (int32_t i = 0; i < 2; i++)
        t[i] = make_short_trajectory(i);
    start = count_live();
    accelerator_reset();
    OK(sr1_trainer_update(tr, t, 2, NULL));
    peak = (double)(count_peak() - start);
    *planned = planned_peak(p, "update");
    *parameters = (double)sr1_model_info(tr->model, SR1_MODEL_PARAMETERS);
    compare("update", *planned, (double)(count_peak() - before));
    tiny_free_all(t, 2);
    sr1_trainer_free(tr);
    sr1_plan_free(p);
    sr1_config_free(c);
    return peak;
}

/* Without fp32 sums beside it, which two have. */
static void one_micro_batch_has_one_gradient(void **state)
{
    double planned[2], n, one, two;

    (void)state;
    one = peak_of_small_step("micro_batch_tokens=16", &planned[0], &n);
    two = peak_of_small_step("micro_batch_tokens=8", &planned[1], &n);
    print_message("  bytes for a parameter: %.2f with one, %.2f with two\n", one / n,
                  two / n);
    assert_true(one < 3.5 * n); /* gradients of 2, and pieces */
    assert_true(two - one > 2.5 * n && planned[1] - planned[0] > 2.5 * n);
}

/* For the rollout behind it, which takes blocks of other sizes. */
static void an_update_gives_freed_memory_back(void **state)
{
    struct accelerator_counts c;
    double planned, n;

    (void)state;
    (void)peak_of_small_step("micro_batch_tokens=16", &planned, &n);
    accelerator_read(&c);
    assert_int_equal(c.releases, 1);
}

/* ---- memory that ends ---- */

static void train_within(const char *dtype, int64_t room, struct sr1__buf *bits,
                         double *batches)
{
    sr1_config *c = tiny_config("untied", "environment=none", "max_prompt_tokens=64",
                                "max_tokens=192", "micro_batch_tokens=4096", dtype,
                                "kl_reference=frozen", "beta=0.05", "update_times=1",
                                "logit_chunk=64", "advantage_std=false", NULL);
    sr1_trajectory *t[TRAJECTORIES];
    sr1_step_report r = {.struct_size = sizeof r};
    sr1_trainer *tr = NULL;

    OK(sr1_trainer_new(&tr, c, NULL));
    for (int32_t i = 0; i < TRAJECTORIES; i++)
        t[i] = make_trajectory(i);
    accelerator_limit(room ? count_live() + room : 0);
    OK(sr1_trainer_update(tr, t, TRAJECTORIES, &r));
    accelerator_limit(0);
    OK(sr1_step_metric(&r, "training/micro_batches", batches));
    add_numbers(tr, bits);
    tiny_free_all(t, TRAJECTORIES);
    sr1_trainer_free(tr);
    sr1_config_free(c);
}

/* A device that is too small for one micro-batch takes several, to the same weights. */
static void a_full_device_cuts_micro_batches(void **state)
{
    struct sr1__buf bits[2] = {{0}};
    double batches[2], gap = 0;

    (void)state;
    for (int i = 0; i < 2; i++) {
        sr1__buf_init(&bits[i], 0);
        train_within("dtype=fp32", i ? (int64_t)30e6 : 0, &bits[i], &batches[i]);
    }
    assert_true(batches[0] == 1 && batches[1] > 1);
    assert_int_equal(bits[0].len, bits[1].len);
    for (size_t i = 0; i < bits[0].len / sizeof(float); i++)
        gap = fmax(gap, fabs((double)((const float *)(const void *)bits[0].data)[i] -
                             ((const float *)(const void *)bits[1].data)[i]));
    print_message("  %.0f micro-batches, at most %.2g from those of one\n", batches[1],
                  gap);
    assert_true(gap < 1e-5);
    sr1__buf_free(&bits[0]);
    sr1__buf_free(&bits[1]);
}

/* ---- keys that the plan chooses ---- */

static void chosen_keys_fit(void **state)
{
    sr1_config *c = tiny_config("tied", "environment=none", "dtype=bf16",
                                "max_prompt_tokens=64", "max_tokens=192", "group_size=4",
                                "batch_size=2", "kl_reference=frozen", "update_times=1",
                                "micro_batch_tokens=0", "max_rows=0", NULL);
    static const double rooms[] = {120e6, 60e6, 30e6};
    int64_t chosen[4] = {0}, before = count_live();
    sr1_run_plan plan = {.struct_size = sizeof plan};
    sr1_trainer *tr = NULL;

    (void)state;
    for (int i = 0; i < 3; i++) {
        accelerator_limit(before + (int64_t)rooms[i]);
        OK(sr1_trainer_new(&tr, c, NULL));
        OK(sr1_trainer_plan(tr, &plan));
        print_message("  %.0f MB: %d tokens, %d rows\n", rooms[i] / 1e6,
                      (int)plan.chosen_micro_batch_tokens, (int)plan.chosen_max_rows);
        assert_int_equal(plan.chosen_micro_batch_tokens, tr->set.micro_batch_tokens);
        assert_int_equal(plan.chosen_max_rows,
                         sr1__config_int(sr1_trainer_config(tr), "max_rows"));
        chosen[i] = plan.chosen_micro_batch_tokens + 100000 * plan.chosen_max_rows;
        assert_true(i == 0 || chosen[i] < chosen[i - 1]);
        roll_out(tr);
        (void)update(tr); /* within the limit, or it fails */
        sr1_trainer_free(tr);
    }
    accelerator_limit(before + (int64_t)4e6);
    REFUSED(sr1_trainer_new(&tr, c, NULL), SR1_E_DEVICE_NOMEM,
            "micro_batch_tokens 0: nothing fits; with 256 the run takes");
    accelerator_limit(0);
    sr1_config_free(c);
}

/* A run that goes on keeps what was chosen, whatever is free then. */
static void chosen_keys_are_kept(void **state)
{
    int64_t before = count_live();
    sr1_run_plan plan = {.struct_size = sizeof plan};
    sr1_trainer *tr;
    int64_t tokens;
    char *text;
    size_t n;

    (void)state;
    accelerator_limit(before + (int64_t)40e6);
    tr = open_trainer(RUN("chosen", "micro_batch_tokens=0", "max_rows=0"));
    tokens = tr->set.micro_batch_tokens;
    run_until(tr, 3);
    sr1_trainer_free(tr);
    text = slurp("chosen", "run.json", &n);
    assert_non_null(strstr(text, "\"chosen\""));
    assert_non_null(strstr(text, "\"micro_batch_tokens\""));
    sr1__free(text);
    accelerator_limit(0);
    OK(sr1_trainer_resume(&tr, scratch_path("chosen"), NULL));
    assert_int_equal(tr->set.micro_batch_tokens, tokens);
    OK(sr1_trainer_plan(tr, &plan));
    assert_int_equal(plan.chosen_micro_batch_tokens, 0);
    sr1_trainer_free(tr);
}

/* ---- a run ---- */

/* The int8 reference is made anew from the same weights, here or on the host. */
static void int8_references_go_on_to_the_bit(void **state)
{
    const char *const pairs[] = {"reference_offload=true"};
    sr1_resume_options o = {.struct_size = sizeof o, .pairs = pairs, .n_pairs = 1};
    sr1_trainer *tr = open_trainer(
        RUN("int8-cut", "dtype=bf16", "beta=0.05", "reference_quantization=int8"));

    (void)state;
    assert_true(tr->references[0]->quantized);
    run_whole(RUN("int8", "dtype=bf16", "beta=0.05", "reference_quantization=int8"));
    run_until(tr, 3);
    sr1_trainer_free(tr);
    OK(sr1_trainer_resume(&tr, scratch_path("int8-cut"), &o));
    assert_true(tr->host_reference->quantized);
    OK(sr1_trainer_run(tr, NULL));
    sr1_trainer_free(tr);
    same_file("int8", "int8-cut", "model/model.safetensors");
    same_file("int8", "int8-cut", "checkpoints/step-6/optimizer/model.safetensors");
}

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
        cmocka_unit_test(mixture_bf16),
        cmocka_unit_test(lora_fp32),
        cmocka_unit_test(lora_bf16),
        cmocka_unit_test(lora_bf16_checkpointed),
        cmocka_unit_test(lora_of_attention),
        cmocka_unit_test(ppo_bf16),
        cmocka_unit_test(ppo_fp32_checkpointed),
        cmocka_unit_test(entropies),
        cmocka_unit_test(reference_of_another_type),
        cmocka_unit_test(int8_reference),
        cmocka_unit_test(int8_reference_of_fp32),
        cmocka_unit_test(int8_reference_on_the_host),
        cmocka_unit_test(optimizer_on_the_host),
        cmocka_unit_test(all_on_the_host),
        cmocka_unit_test(ppo_on_the_host),
        cmocka_unit_test(the_host_gives_the_same_bits),
        cmocka_unit_test(one_micro_batch_has_one_gradient),
        cmocka_unit_test(an_update_gives_freed_memory_back),
        cmocka_unit_test(a_full_device_cuts_micro_batches),
        cmocka_unit_test(chosen_keys_fit),
        cmocka_unit_test(chosen_keys_are_kept),
        cmocka_unit_test(int8_references_go_on_to_the_bit),
        cmocka_unit_test(runs_go_on_from_the_host_and_back),
        cmocka_unit_test(tiny_nothing_leaks),
    };

    return cmocka_run_group_tests_name("memory", tests, make, scratch_remove);
}
