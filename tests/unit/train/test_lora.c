/* Runs that train an adapter: what learns and what stays, going on with them to the bit,
 * folders that follow from them, and settings that are refused. */
#include "runs.h"

#include <searchr1/ext/model_details.h>

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

static void same_leaves(const sr1_model *a, const sr1_model *b)
{
    for (size_t i = 0; i < a->n_leaves; i++)
        assert_memory_equal(
            sr1__shim_data(a->leaves[i].tensor), sr1__shim_data(b->leaves[i].tensor),
            (size_t)t_numel(a->leaves[i].tensor) * sr1__torch_dtype_size(a->dtype));
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
    refused(RUN("no", "lora_rank=2", "advantage=gae"), SR1_E_CONFIG,
            "lora_rank does not go with advantage gae");
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
    snprintf(folder, sizeof folder, "critic_model=%s", scratch_path("whole-0/model"));
    refused(RUN("no", folder, "advantage=gae"), SR1_E_UNSUPPORTED,
            "critic: a critic cannot begin with an adapter");
    REFUSED(sr1_trainer_resume(&tr, scratch_path("whole-0"), &o), SR1_E_CONFIG,
            "key 'lora_rank' cannot change when a run goes on: the checkpoint holds");
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
        cmocka_unit_test(settings_are_refused_by_name),
        cmocka_unit_test(another_adapter_is_not_gone_on_with),
    };

    return cmocka_run_group_tests_name("lora", tests, make, scratch_remove);
}
