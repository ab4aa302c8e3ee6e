/* Runs that train an adapter: what learns and what stays, going on with them to the bit,
 * folders that follow from them, and settings that are refused. */
#include "runs.h"

#include <searchr1/ext/model_details.h>
#include <searchr1/ext/plan.h>

#include <searchr1/ext/tokenizer.h>

#include "tensor/model/adapter.h"

static void run_cut(sr1_config *c)
{
    int64_t at = 3;
    sr1_trainer *tr = open_trainer(c);

    run_until(tr, at);
    sr1_trainer_free(tr);
}

static void go_on(const char *run)
{
    sr1_trainer *tr = NULL;

    OK(sr1_trainer_resume(&tr, scratch_path(run), NULL));
    OK(sr1_trainer_run(tr, NULL));
    sr1_trainer_free(tr);
}

static int is_in(const char *run, const char *file)
{
    char path[200];

    snprintf(path, sizeof path, "%s/%s", run, file);
    return sr1__path_exists(scratch_path(path));
}

static sr1_model *open_model(const char *folder, const char *dtype)
{
    sr1_model_options o = {.struct_size = sizeof o, .device = "cpu", .dtype = dtype};
    sr1_model *m = NULL;

    OK(sr1_model_open(&m, scratch_path(folder), &o));
    return m;
}

/* Wherever they lie. */
static void same_leaves(const sr1_model *a, const sr1_model *b)
{
    for (size_t i = 0; i < a->n_leaves; i++) {
        size_t n = (size_t)t_numel(a->leaves[i].tensor);
        float *v = calloc(2 * n, sizeof *v);

        OK(sr1__shim_to_host(a->leaves[i].tensor, SR1__F32, v, n));
        OK(sr1__shim_to_host(b->leaves[i].tensor, SR1__F32, v + n, n));
        assert_memory_equal(v, v + n, n * sizeof *v);
        free(v);
    }
}

/* In the model of the tests " Paris" and " Rome" have one and the same row of the head,
 * which no adapter can tell apart: here each row is another. */
static int make(void **state)
{
    struct sr1__rng rng;
    sr1_model *m;
    float *head;

    if (runs_make(state) != 0)
        return -1;
    m = open_model("model", "fp32");
    head = sr1__shim_data(m->head);
    sr1__rng_seed(&rng, 4, 0);
    for (int64_t i = 0; i < t_numel(m->head); i++)
        head[i] += 0.05f * (float)sr1__rng_normal(&rng);
    OK(sr1_model_save(m, scratch_path("model")));
    sr1_model_free(m);
    return 0;
}

/* ---- what learns ---- */

static void the_adapter_learns_and_the_base_stays(void **state)
{
    sr1_trainer *tr = open_trainer(
        RUN("learns", "lora_rank=4", "lora_alpha=8", "learning_rate=0.02", "group_size=8",
            "max_steps=16", "save_interval=0", "update_times=1"));
    sr1_run_plan plan = {.struct_size = sizeof plan};
    sr1_model *base = open_model("model", "fp32"), *end;
    double first = 0, last = 0;
    json_t *rows;

    (void)state;
    assert_int_equal(tr->model->adapter->config.rank, 4);
    assert_int_equal(sr1__optimizer_state_count(tr->policy.optimizer),
                     2 * tr->model->adapter->n_params);
    assert_null(tr->references[0]->adapter); /* the same weights, with the adapter off */
    assert_ptr_equal(sr1__shim_data(tr->references[0]->leaves[0].tensor),
                     sr1__shim_data(tr->model->leaves[0].tensor));
    OK(sr1_trainer_plan(tr, &plan));
    assert_int_equal(plan.parameters, sr1_model_info(base, SR1_MODEL_PARAMETERS));
    assert_int_equal(plan.trained, sr1_model_info(tr->model, SR1_MODEL_TRAINED));
    assert_int_equal(plan.model_bytes, 4 * plan.trained);
    assert_int_equal(plan.checkpoint_bytes, 3 * 4 * plan.trained);
    OK(sr1_trainer_run(tr, NULL));
    same_leaves(base, tr->model);
    rows = metrics("learns");
    for (size_t i = 0; i < 3; i++) {
        first += metric(rows, i, "reward");
        last += metric(rows, json_array_size(rows) - 1 - i, "reward");
    }
    print_message("reward of three steps: %.3f first, %.3f last\n", first, last);
    assert_true(last > first + 1.0);
    tiny_near(metric(rows, 0, "kl"), 0.0, 1e-6);
    assert_true(metric(rows, 15, "kl") > 1e-3);
    assert_true(is_in("learns", "model/adapter_model.safetensors"));
    assert_true(is_in("learns", "model/tokenizer.json"));
    assert_false(is_in("learns", "model/model.safetensors"));
    end = open_model("learns/model", "fp32");
    same_leaves(base, end);
    assert_int_equal(sr1_model_info(end, SR1_MODEL_LORA_RANK), 4);
    json_decref(rows);
    sr1_model_free(end);
    sr1_model_free(base);
    sr1_trainer_free(tr);
}

/* ---- going on ---- */

static void same_lora_run(const char *a, const char *b)
{
    same_journals(a, b);
    same_file(a, b, "model/adapter_model.safetensors");
}

static void runs_go_on_to_the_bit(void **state)
{
    static const char *const rows[][3] = {
        {"dtype=fp32", "workers=1", "lora_targets=all-linear"},
        {"dtype=bf16", "workers=1", "lora_targets=q_proj, v_proj, down_proj"},
        {"dtype=fp32", "workers=2", "gradient_checkpointing=true"}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char whole[32], cut[32];

        snprintf(whole, sizeof whole, "whole-%zu", i);
        snprintf(cut, sizeof cut, "cut-%zu", i);
        run_whole(RUN(whole, "lora_rank=3", rows[i][0], rows[i][1], rows[i][2]));
        run_cut(RUN(cut, "lora_rank=3", rows[i][0], rows[i][1], rows[i][2]));
        assert_false(is_in(cut, "checkpoints/step-2/model/model.safetensors"));
        go_on(cut);
        same_lora_run(whole, cut);
    }
}

/* The reference is what training began with: the base and the adapter as it was given. */
static void an_adapter_is_trained_on(void **state)
{
    char folder[600];
    sr1_trainer *tr;
    json_t *rows;

    (void)state;
    snprintf(folder, sizeof folder, "model_name_or_path=%s",
             scratch_path("whole-0/model"));
    tr = open_trainer(RUN("further", "lora_rank=3", "update_times=1", folder));
    assert_non_null(tr->references[0]->adapter);
    assert_ptr_equal(sr1__shim_data(tr->references[0]->leaves[0].tensor),
                     sr1__shim_data(tr->model->leaves[0].tensor));
    OK(sr1_trainer_run(tr, NULL));
    rows = metrics("further");
    tiny_near(metric(rows, 0, "kl"), 0.0, 1e-6);
    assert_true(metric(rows, 5, "kl") > 1e-6);
    json_decref(rows);
    sr1_trainer_free(tr);
    run_cut(RUN("further-cut", "lora_rank=3", "update_times=1", folder));
    go_on("further-cut");
    same_lora_run("further", "further-cut");
}

/* Its alpha and targets are not the keys' defaults, which nobody set. */
static void so_is_an_adapter_of_other_settings(void **state)
{
    char folder[600];

    (void)state;
    run_whole(RUN("narrow", "lora_rank=2", "lora_alpha=8", "lora_targets=q_proj,v_proj",
                  "update_times=1", "max_steps=1"));
    snprintf(folder, sizeof folder, "model_name_or_path=%s",
             scratch_path("narrow/model"));
    run_whole(RUN("narrow-on", "lora_rank=2", "update_times=1", folder));
    run_cut(RUN("narrow-cut", "lora_rank=2", "update_times=1", folder));
    go_on("narrow-cut");
    same_lora_run("narrow-on", "narrow-cut");
}

static void imitation_trains_an_adapter(void **state)
{
    static const char demos[] =
        "{\"question\": \"Where?\", \"segments\": [{\"source\": \"policy\", \"text\": "
        "\"<search> tower</search>\"}, {\"source\": \"environment\", \"text\": "
        "\"<information> It is in Paris. </information>\"}, {\"source\": \"policy\", "
        "\"text\": \"<answer> Paris</answer>\"}]}\n"
        "{\"question\": \"And?\", \"segments\": [{\"source\": \"policy\", \"text\": "
        "\"<answer> Rome</answer>\"}]}\n";
    char file[600];
    sr1_model *base = open_model("model", "fp32");
    sr1_trainer *tr;

    (void)state;
    snprintf(file, sizeof file, "sft_file=%s", scratch_file("sft.jsonl", demos, 0));
    tr = open_trainer(RUN("imitates", "stage=sft", file, "lora_rank=2"));
    OK(sr1_trainer_run(tr, NULL));
    same_leaves(base, tr->model);
    assert_true(is_in("imitates", "model/adapter_model.safetensors"));
    sr1_trainer_free(tr);
    sr1_model_free(base);
}

/* ---- what follows ---- */

/* The model of a run, or of its checkpoint, is a policy with its adapter. */
static void a_run_is_a_policy_with_its_adapter(void **state)
{
    static const char *const folders[] = {"whole-0", "whole-0/checkpoints/step-4",
                                          "whole-0/model"};

    (void)state;
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        sr1_rollout *r = NULL;
        sr1_config *c = NULL;
        int zero = 1;

        OK(sr1_config_new(&c));
        OK(sr1_config_load_run(c, scratch_path(folders[i])));
        OK(sr1_rollout_new(&r, c, NULL, NULL, NULL));
        assert_int_equal(sr1_model_info(sr1_rollout_model(r), SR1_MODEL_LORA_RANK), 3);
        OK(sr1__adapter_is_zero(sr1_rollout_model(r), &zero));
        assert_false(zero);
        sr1_rollout_free(r);
        sr1_config_free(c);
    }
}

static void refused(sr1_config *c, sr1_status want, const char *text)
{
    sr1_trainer *tr = NULL;

    REFUSED(sr1_trainer_new(&tr, c, NULL), want, text);
    assert_null(tr);
    sr1_config_free(c);
}

static void settings_are_refused_by_name(void **state)
{
    const char *const rank[] = {"lora_rank=2"};
    sr1_resume_options o = {.struct_size = sizeof o, .pairs = rank, .n_pairs = 1};
    sr1_trainer *tr = NULL;
    char folder[600];
    sr1_config *c;

    (void)state;
    refused(RUN("no", "critic_lora_rank=2"), SR1_E_CONFIG,
            "critic_lora_rank does not go with advantage grpo");
    refused(RUN("no", "critic_lora_rank=2", "advantage=gae", "critic_lora_targets=x"),
            SR1_E_UNSUPPORTED, "critic_lora_targets: 'x' is no layer");
    refused(RUN("no", "lora_rank=2", "lora_targets=q_proj,lm_head"), SR1_E_UNSUPPORTED,
            "lora_targets: 'lm_head' is no layer");
    c = RUN("no", "lora_targets=head");
    REFUSED(sr1_trainer_check(c), SR1_E_UNSUPPORTED, "'head' is no layer");
    sr1_config_free(c);
    snprintf(folder, sizeof folder, "model_name_or_path=%s",
             scratch_path("whole-0/model"));
    refused(RUN("no", folder), SR1_E_CONFIG,
            "holds an adapter of rank 3 and lora_rank is 0; set lora_rank: 3");
    refused(RUN("no", folder, "lora_rank=4"), SR1_E_CONFIG, "lora_rank is 4");
    refused(RUN("no", folder, "lora_rank=3", "lora_alpha=1"), SR1_E_CONFIG,
            "lora_alpha is not that of the adapter");
    refused(RUN("no", folder, "lora_rank=3", "lora_targets=q_proj"), SR1_E_CONFIG,
            "lora_targets is not that of the adapter");
    REFUSED(sr1_trainer_resume(&tr, scratch_path("whole-0"), &o), SR1_E_CONFIG,
            "key 'lora_rank' cannot change when a run goes on: the checkpoint holds");
}

/* What a model lacks of lora_targets its adapter lacks too, and is no other adapter. */
static void a_mixtures_adapter_is_trained_on_by_its_keys(void **state)
{
    static const char mixture[] =
        "{\"architectures\": [\"Qwen3MoeForCausalLM\"], \"hidden_size\": 32, "
        "\"num_hidden_layers\": 2, \"num_attention_heads\": 4, "
        "\"num_key_value_heads\": 2, \"head_dim\": 8, \"intermediate_size\": 48, "
        "\"num_experts\": 4, \"num_experts_per_tok\": 2, \"moe_intermediate_size\": 16, "
        "\"vocab_size\": 384, \"max_position_embeddings\": 512, \"rope_theta\": 1e4}";
    sr1_trainer *tr;
    sr1_plan *p = NULL;
    sr1_config *c;

    (void)state;
    tiny_random_model("experts", mixture);
    tr = tiny_trainer(
        tiny_config("experts", "lora_rank=2", "lora_targets=all-linear", NULL));
    OK(sr1_trainer_save_model(tr, scratch_path("experts-adapter")));
    sr1_trainer_free(tr);
    c = tiny_config("experts-adapter", "lora_rank=2", "lora_targets=all-linear", NULL);
    OK(sr1_plan_new(&p, c, 0));
    sr1_plan_free(p);
    sr1_trainer_free(tiny_trainer(c));
    c = tiny_config("experts-adapter", "lora_rank=2", "lora_targets=q_proj", NULL);
    REFUSED(sr1_plan_new(&p, c, 0), SR1_E_CONFIG, "lora_targets is not that");
    refused(c, SR1_E_CONFIG, "lora_targets is not that of the adapter");
}

/* ---- dropout ---- */

static void dropout_is_resumed_and_cut_to_the_bit(void **state)
{
    static const char *const cut[] = {"workers=2", "micro_batch_tokens=40"};
    json_t *rows, *plain, *other, *config = NULL;
    char folder[600];

    (void)state;
    run_whole(RUN("drops", "lora_rank=3", "lora_dropout=0.3", "workers=1"));
    run_cut(RUN("drops-cut", "lora_rank=3", "lora_dropout=0.3", "workers=1"));
    go_on("drops-cut");
    same_lora_run("drops", "drops-cut");
    rows = metrics("drops");
    plain = metrics("whole-0");
    assert_true(metric(rows, 0, "grad_norm") != metric(plain, 0, "grad_norm"));
    for (size_t i = 0; i < sizeof cut / sizeof *cut; i++) { /* the same masks */
        char name[32];

        snprintf(name, sizeof name, "drops-%zu", i);
        run_whole(RUN(name, "lora_rank=3", "lora_dropout=0.3", "max_steps=2", cut[i]));
        other = metrics(name);
        tiny_near(metric(other, 1, "grad_norm") / metric(rows, 1, "grad_norm"), 1.0,
                  1e-3);
        json_decref(other);
    }
    OK(sr1__json_load(&config, scratch_path("drops/model/adapter_config.json"), 0));
    tiny_near(json_number_value(json_object_get(config, "lora_dropout")), 0.3, 1e-12);
    json_decref(config);
    /* Neither log-probs of the rollout nor the reference's have any: their KL is 0 where
     * an adapter is trained further, whose B is not 0. */
    snprintf(folder, sizeof folder, "model_name_or_path=%s", scratch_path("drops/model"));
    run_whole(RUN("drops-on", "lora_rank=3", "lora_dropout=0.5", "max_steps=1",
                  "kl_in=reward", "beta=0.01", folder));
    other = metrics("drops-on");
    tiny_near(metric(other, 0, "critic/kl"), 0.0, 1e-6);
    assert_true(metric(other, 0, "training/rollout_probs_diff_mean") > 1e-4);
    run_whole(RUN("drops-seen", "lora_rank=3", "lora_dropout=0.5", "max_steps=1",
                  "importance_correction=token_truncate", folder));
    json_decref(other);
    other = metrics("drops-seen");
    tiny_near(metric(other, 0, "training/rollout_probs_diff_mean"), 0.0, 1e-5);
    json_decref(other);
    json_decref(plain);
    json_decref(rows);
}

/* ---- critics ---- */

static const char critic_file[] = "checkpoints/step-6/critic/adapter_model.safetensors";

static void a_critic_learns_by_an_adapter(void **state)
{
    sr1_trainer *tr = open_trainer(RUN("critic", "advantage=gae", "lora_rank=3",
                                       "critic_lora_rank=2", "kl_in=reward", "beta=0.01",
                                       "workers=1", "critic_learning_rate=0.01"));
    sr1_model *base = open_model("model", "fp32");
    const sr1_model *critic = tr->critics[0];
    double first = 0, last = 0;
    json_t *rows;

    (void)state;
    assert_int_equal(critic->adapter->config.rank, 2);
    assert_int_equal(critic->n_params, critic->adapter->n_lora + 2); /* with the head */
    assert_ptr_equal(sr1__shim_data(critic->leaves[0].tensor), /* one base for both */
                     sr1__shim_data(tr->model->leaves[0].tensor));
    OK(sr1_trainer_run(tr, NULL));
    same_leaves(base, tr->model);
    rows = metrics("critic");
    first = metric(rows, 0, "critic/vf_loss");
    last = metric(rows, json_array_size(rows) - 1, "critic/vf_loss");
    print_message("value loss: %.4f first, %.4f last\n", first, last);
    assert_true(last < first);
    json_decref(rows);
    assert_true(is_in("critic", critic_file));
    assert_false(is_in("critic", "checkpoints/step-6/critic/model.safetensors"));
    sr1_model_free(base);
    sr1_trainer_free(tr);
}

/* Policy and critic each by an adapter or whole, from the policy or a folder. */
static void critics_go_on_to_the_bit(void **state)
{
    static const char *const rows[][4] = {
        {"lora_rank=3", "critic_lora_rank=2", "dtype=fp32", "workers=2"},
        {"lora_rank=0", "critic_lora_rank=2", "dtype=fp32", "lora_dropout=0.2"},
        {"lora_rank=3", "critic_lora_rank=0", "dtype=fp32", "workers=1"},
        {"lora_rank=3", "critic_lora_rank=2", "dtype=bf16", "workers=1"},
        {"lora_rank=3", "critic_lora_rank=2", "dtype=fp32", NULL},
    };
    char own[600];

    (void)state;
    snprintf(own, sizeof own, "critic_model=%s", scratch_path("whole-0/model"));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char whole[32], cut[32];
        const char *last = rows[i][3] ? rows[i][3] : own; /* a critic from an adapter */

        snprintf(whole, sizeof whole, "ppo-%zu", i);
        snprintf(cut, sizeof cut, "ppo-cut-%zu", i);
        run_whole(RUN(whole, "advantage=gae", rows[i][0], rows[i][1], rows[i][2], last));
        run_cut(RUN(cut, "advantage=gae", rows[i][0], rows[i][1], rows[i][2], last));
        go_on(cut);
        same_journals(whole, cut);
        same_file(whole, cut,
                  strcmp(rows[i][1], "critic_lora_rank=0") == 0
                      ? "checkpoints/step-6/critic/model.safetensors"
                      : critic_file);
    }
}

/* A saved critic is a critic: its adapter and head on the base. */
static void a_critics_folder_is_a_critic(void **state)
{
    sr1_model *critic = open_model("critic/checkpoints/step-6/critic", "fp32");

    (void)state;
    assert_non_null(critic->value_head);
    assert_null(critic->head);
    assert_int_equal(sr1_model_info(critic, SR1_MODEL_LORA_RANK), 2);
    sr1_model_free(critic);
}

/* ---- bases ---- */

static void move(const char *from, const char *to)
{
    char a[600];

    snprintf(a, sizeof a, "%s", scratch_path(from));
    OK(sr1__rename_dir(a, scratch_path(to)));
}

static sr1_status resume_with(const char *run, const char *pair)
{
    sr1_resume_options o = {.struct_size = sizeof o, .pairs = &pair, .n_pairs = 1};
    sr1_trainer *tr = NULL;
    sr1_status st = sr1_trainer_resume(&tr, scratch_path(run), &o);

    if (st == SR1_OK)
        st = sr1_trainer_run(tr, NULL);
    sr1_trainer_free(tr);
    return st;
}

static const char *base_pair(const char *folder)
{
    static char pairs[2][600];
    static unsigned next;
    char *p = pairs[next++ % 2];

    snprintf(p, sizeof pairs[0], "model_name_or_path=%s", scratch_path(folder));
    return p;
}

/* Of the same shape, with one weight that differs. */
static void make_other_base(const char *name)
{
    sr1_model *m;

    tiny_model(name, TINY_SEARCHER, 9);
    m = open_model(name, "fp32");
    ((float *)sr1__shim_data(m->leaves[3].tensor))[0] += 0.5f;
    OK(sr1_model_save(m, scratch_path(name)));
    sr1_model_free(m);
}

static void a_run_goes_on_with_its_base_alone(void **state)
{
    sr1_config *c = NULL;
    sr1_rollout *r = NULL;
    sr1_model *m = NULL;

    (void)state;
    tiny_model("base", TINY_SEARCHER, 9);
    run_whole(RUN("stays", "lora_rank=3", base_pair("base")));
    run_cut(RUN("moves", "lora_rank=3", base_pair("base")));
    move("base", "moved");
    make_other_base("other");
    REFUSED(sr1_model_open(&m, scratch_path("moves/checkpoints/step-2/model"), NULL),
            SR1_E_NOT_FOUND, "name the base's folder as base_model_name_or_path");
    REFUSED(resume_with("moves", base_pair("other")), SR1_E_CONFIG,
            "other is not the base that the adapter was trained on: its weights differ");
    OK(sr1_config_new(&c));
    OK(sr1_config_load_run(c, scratch_path("moves")));
    OK(sr1_config_set(c, "base_model_name_or_path", scratch_path("moved")));
    OK(sr1_rollout_new(&r, c, NULL, NULL, NULL));
    sr1_rollout_free(r);
    sr1_config_free(c);
    OK(resume_with("moves", base_pair("moved")));
    same_file("stays", "moves", "model/adapter_model.safetensors");
}

/* A run and its base that move together are found by the run's own record, also where an
 * adapter of a run was trained further. */
static void a_run_that_moved_with_its_base_is_opened(void **state)
{
    static const char *const folders[] = {
        "new/first/model", "new/first/checkpoints/step-2/model", "new/second/model"};

    (void)state;
    OK(sr1__dir_make(scratch_path("old")));
    tiny_model("old/base", TINY_SEARCHER, 9);
    run_whole(RUN("old/first", "lora_rank=3", "max_steps=2", base_pair("old/base")));
    run_whole(
        RUN("old/second", "lora_rank=3", "max_steps=1", base_pair("old/first/model")));
    move("old", "new");
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        sr1_model_free(open_model(folders[i], "fp32"));
}

/* ---- the files beside the weights ---- */

static void write_file(const char *folder, const char *name, const char *text)
{
    char path[200];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    (void)scratch_file(path, text, 0);
}

static int stops_at(const sr1_tokenizer *t, int32_t id)
{
    size_t n;
    const int32_t *ids = sr1_tokenizer_stop_ids(t, &n);

    for (size_t i = 0; i < n; i++)
        if (ids[i] == id)
            return 1;
    return 0;
}

/* Open the tokenizer of the adapter "lean", note whether 40 and 50 are stop ids, and save
 * it to "lean-saved". */
static void read_lean(int stops[2])
{
    sr1_tokenizer *t = NULL;

    OK(sr1_tokenizer_open(&t, scratch_path("lean")));
    stops[0] = stops_at(t, 40);
    stops[1] = stops_at(t, 50);
    OK(sr1__dir_make(scratch_path("lean-saved")));
    OK(sr1_tokenizer_save(t, scratch_path("lean-saved")));
    sr1_tokenizer_free(t);
}

static void copy_file(const char *from, const char *to, const char *name)
{
    size_t n;
    char *text = slurp(from, name, &n), path[200];

    snprintf(path, sizeof path, "%s/%s", to, name);
    (void)scratch_file(path, text, n);
    sr1_free(text);
}

static void an_adapter_takes_what_it_lacks_from_its_base(void **state)
{
    struct sr1__lora_config config = {2, 4.0, 0, 1u << SR1__LORA_Q};
    int stops[2];

    (void)state;
    tiny_model("fat", TINY_SEARCHER, 9);
    OK(sr1__dir_make(scratch_path("lean")));
    OK(sr1__lora_config_save(&config, scratch_path("fat"), scratch_path("lean")));
    write_file("fat", "generation_config.json", "{\"eos_token_id\": [40]}");
    read_lean(stops); /* all is the base's */
    assert_true(stops[0]);
    assert_true(is_in("lean-saved", "tokenizer.json"));
    assert_true(is_in("lean-saved", "generation_config.json"));
    copy_file("fat", "lean", "tokenizer.json");
    read_lean(stops); /* a tokenizer of its own; the stop ids are the base's, */
    assert_true(stops[0]);
    assert_true(is_in("lean-saved", "chat_template.jinja")); /* and the template */
    assert_false(is_in("lean-saved", "tokenizer_config.json"));
    copy_file("fat", "lean", "tokenizer_config.json");
    read_lean(stops); /* unless it has one */
    assert_false(is_in("lean-saved", "chat_template.jinja"));
    OK(sr1__file_remove(scratch_path("fat"), "generation_config.json"));
    write_file("fat", "config.json", "{\"eos_token_id\": 50}");
    read_lean(stops);
    assert_true(stops[1] && !stops[0]);
    write_file("lean", "generation_config.json", "{\"eos_token_id\": [40]}");
    read_lean(stops); /* its own before the base's */
    assert_true(stops[0] && !stops[1]);
    OK(sr1__dir_remove(scratch_path("fat")));
    read_lean(stops); /* with a tokenizer of its own it needs no base */
    OK(sr1__file_remove(scratch_path("lean"), "tokenizer.json"));
    REFUSED(sr1_tokenizer_open(&(sr1_tokenizer *){NULL}, scratch_path("lean")),
            SR1_E_NOT_FOUND, "lean holds no tokenizer.json");
}

/* A checkpoint whose adapter was put in the place of another. */
static void another_adapter_is_not_gone_on_with(void **state)
{
    sr1_trainer *tr = NULL;
    char *text;
    size_t n;

    (void)state;
    text = slurp("whole-0", "config.json", &n);
    {
        char *at = strstr(text, "\"lora_rank\": 3");

        assert_non_null(at);
        at[strlen("\"lora_rank\": ")] = '5';
        (void)scratch_file("whole-0/config.json", text, n);
    }
    sr1_free(text);
    REFUSED(sr1_trainer_resume(&tr, scratch_path("whole-0"), NULL), SR1_E_CONFIG,
            "holds another adapter than lora_rank");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_adapter_learns_and_the_base_stays),
        cmocka_unit_test(runs_go_on_to_the_bit),
        cmocka_unit_test(an_adapter_is_trained_on),
        cmocka_unit_test(so_is_an_adapter_of_other_settings),
        cmocka_unit_test(imitation_trains_an_adapter),
        cmocka_unit_test(a_run_is_a_policy_with_its_adapter),
        cmocka_unit_test(dropout_is_resumed_and_cut_to_the_bit),
        cmocka_unit_test(a_critic_learns_by_an_adapter),
        cmocka_unit_test(critics_go_on_to_the_bit),
        cmocka_unit_test(a_critics_folder_is_a_critic),
        cmocka_unit_test(a_run_goes_on_with_its_base_alone),
        cmocka_unit_test(a_run_that_moved_with_its_base_is_opened),
        cmocka_unit_test(an_adapter_takes_what_it_lacks_from_its_base),
        cmocka_unit_test(settings_are_refused_by_name),
        cmocka_unit_test(a_mixtures_adapter_is_trained_on_by_its_keys),
        cmocka_unit_test(another_adapter_is_not_gone_on_with),
    };

    return cmocka_run_group_tests_name("lora", tests, make, scratch_remove);
}
