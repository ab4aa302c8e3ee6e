/* Runs of each kind on the device, shortly: every figure is the CPU's, and a run that is
 * cut goes on to the bits of one that was not. tests/run accelerator has the unit tests
 * of rollouts and updates in full. */
#include "accelerator/accelerator.h"
#include "unit/train/runs.h"

struct kind {
    const char *name;
    const char *keys[4];
    const char *weights; /* below model/ */
};

static sr1_config *configure(const struct kind *k, const char *run, const char *device)
{
    return tiny_config("model", train_path, knowledge_path, out_pair(run), "max_steps=3",
                       "save_interval=1", "update_times=1", "dtype=fp32",
                       "share_prompts=false", device, k->keys[0], k->keys[1],
                       k->keys[1] ? k->keys[2] : NULL,
                       k->keys[1] && k->keys[2] ? k->keys[3] : NULL, NULL);
}

static void check_number(const char *key, const json_t *a, const json_t *b)
{
    double x = json_number_value(a), y = json_number_value(b);

    if (json_is_number(a) && json_is_number(b) && fabs(x - y) > 1e-3 * (1e-3 + fabs(x)) &&
        fabs(x - y) > 1e-5)
        fail_msg("%s is %.9g on the CPU and %.9g", key, x, y);
}

static void same_figures(const char *a, const char *b)
{
    json_t *x = metrics(a), *y = metrics(b);

    assert_int_equal(json_array_size(x), 3);
    for (size_t i = 0; i < 3; i++) {
        json_t *there = json_array_get(y, i), *here = json_array_get(x, i);
        const char *key;
        json_t *v;

        drop_timing(here);
        json_object_foreach(here, key, v)
            check_number(key, v, json_object_get(there, key));
    }
    json_decref(x);
    json_decref(y);
}

static void cut_and_go_on(const struct kind *k, const char *run)
{
    sr1_trainer *tr = open_trainer(configure(k, run, "device=sim"));

    run_until(tr, 2);
    sr1_trainer_free(tr);
    OK(sr1_trainer_resume(&tr, scratch_path(run), NULL));
    OK(sr1_trainer_run(tr, NULL));
    sr1_trainer_free(tr);
}

static void check_kind(const struct kind *k)
{
    run_whole(configure(k, join_run_name(k->name, "cpu"), "device=cpu"));
    run_whole(configure(k, join_run_name(k->name, "sim"), "device=sim"));
    same_figures(join_run_name(k->name, "cpu"), join_run_name(k->name, "sim"));
    cut_and_go_on(k, join_run_name(k->name, "cut"));
    same_figures(join_run_name(k->name, "sim"), join_run_name(k->name, "cut"));
    same_file(join_run_name(k->name, "sim"), join_run_name(k->name, "cut"), k->weights);
}

static void grpo_on_the_device(void **state)
{
    (void)state;
    check_kind(&(struct kind){
        "grpo", {"kl_reference=frozen", "beta=0.01"}, "model/model.safetensors"});
}

static void ppo_on_the_device(void **state)
{
    (void)state;
    check_kind(&(struct kind){
        "ppo", {"advantage=gae", "kl_reference=frozen"}, "model/model.safetensors"});
}

static void lora_on_the_device(void **state)
{
    (void)state;
    check_kind(&(struct kind){
        "lora", {"lora_rank=4", "beta=0.01"}, "model/adapter_model.safetensors"});
}

static void imitation_on_the_device(void **state)
{
    static const char demos[] =
        "{\"messages\": [{\"role\": \"user\", \"content\": \"Where?\"}, {\"role\": "
        "\"assistant\", \"content\": \"<answer> Paris</answer>\"}]}\n"
        "{\"messages\": [{\"role\": \"user\", \"content\": \"What?\"}, {\"role\": "
        "\"assistant\", \"content\": \"<answer> Rome</answer>\"}]}\n";
    char file[600];

    (void)state;
    snprintf(file, sizeof file, "sft_file=%s", scratch_file("demos.jsonl", demos, 0));
    check_kind(&(struct kind){"sft", {"stage=sft", file}, "model/model.safetensors"});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grpo_on_the_device),
        cmocka_unit_test(ppo_on_the_device),
        cmocka_unit_test(lora_on_the_device),
        cmocka_unit_test(imitation_on_the_device),
    };

    accelerator_reset();
    return cmocka_run_group_tests(tests, runs_make, scratch_remove);
}
