/* train/state.c - what a checkpoint holds: the policy as a Hugging Face folder, the
 * optimizer's tensors, and the counters that the rest of a run follows from. Random
 * numbers need no state: each draw's stream is a function of seed, step, question and
 * sample. */
#include "train/internal.h"

#include "base/file.h"
#include "base/mem.h"
#include "train/checkpoint.h"

#include <inttypes.h>
#include <string.h>

/* ---- the optimizer's tensors, as fp32 ---- */

struct dump {
    const struct sr1__learner *l;
    float *row; /* the tensor being written */
};

static sr1_status tensor_bytes(void *arg, size_t i, const void **bytes)
{
    struct dump *d = arg;
    sr1_tensor *t = sr1__optimizer_state(d->l->optimizer, i).tensor;
    size_t n = (size_t)t_numel(t);
    float *p = sr1__realloc(d->row, n + 1, sizeof(*p));
    sr1_scope *s;

    if (!p)
        return sr1__fail_nomem("optimizer state");
    d->row = p;
    s = sr1__scope_open(d->l->replicas[0]->device, "optimizer state");
    t_to_host_f32(s, t, p, n);
    *bytes = p;
    return sr1__scope_close(s);
}

static void describe(struct sr1__weight_out *w, struct sr1__named named)
{
    w->name = named.name;
    w->dtype = SR1__WEIGHT_F32;
    w->n_dims = t_ndim(named.tensor);
    for (int32_t d = 0; d < w->n_dims && d < SR1__WEIGHT_MAX_DIMS; d++)
        w->shape[d] = t_size(named.tensor, d);
}

static sr1_status save_optimizer(const struct sr1__learner *l, const char *folder)
{
    size_t n = sr1__optimizer_state_count(l->optimizer);
    struct sr1__weight_out *out = sr1__calloc(n + 1, sizeof(*out));
    struct dump d = {l, NULL};
    sr1_status st;

    if (!out)
        return sr1__fail_nomem("optimizer state");
    for (size_t i = 0; i < n; i++)
        describe(&out[i], sr1__optimizer_state(l->optimizer, i));
    st = sr1__weights_save(folder, out, n, 0, tensor_bytes, &d);
    sr1__free(d.row);
    sr1__free(out);
    return st;
}

static sr1_status restore_tensor(const struct sr1__learner *l,
                                 const struct sr1__weights *w, struct sr1__named named)
{
    struct sr1__weight_out want;
    const struct sr1__weight *found;
    sr1_scope *s;

    describe(&want, named);
    SR1__TRY(sr1__weights_get(w, named.name, want.n_dims, want.shape, &found));
    if (found->dtype != SR1__WEIGHT_F32)
        return sr1__fail(SR1_E_CORRUPT, "%s: %s is not fp32", found->file, named.name);
    s = sr1__scope_open(l->replicas[0]->device, "%s", named.name);
    sr1__scope_no_grad(s);
    t_copy_(s, named.tensor, t_from_f32(s, found->data, found->n_dims, found->shape));
    return sr1__scope_close(s);
}

static sr1_status restore_optimizer(struct sr1__learner *l, const char *folder)
{
    size_t n = sr1__optimizer_state_count(l->optimizer);
    struct sr1__weights *w = NULL;
    sr1_status st;

    SR1__TRY(sr1__weights_open(&w, folder));
    st = SR1_OK;
    for (size_t i = 0; i < n && st == SR1_OK; i++)
        st = restore_tensor(l, w, sr1__optimizer_state(l->optimizer, i));
    sr1__weights_close(w);
    return st;
}

/* ---- the whole ---- */

/* folder/name, made; caller frees with sr1__free. */
static sr1_status make_below(const char *folder, const char *name, char **out)
{
    char *path = sr1__path_join(folder, name);
    sr1_status st = path ? sr1__dir_make(path) : sr1__fail_nomem("path");

    if (st != SR1_OK)
        sr1__free(path);
    else
        *out = path;
    return st;
}

/* folder/name, filled by write. */
static sr1_status write_below(const char *folder, const char *name,
                              sr1_status (*write)(sr1_trainer *tr, const char *path),
                              sr1_trainer *tr)
{
    char *path = NULL;
    sr1_status st = make_below(folder, name, &path);

    if (st == SR1_OK)
        st = write(tr, path);
    sr1__free(path);
    return st;
}

static sr1_status write_policy_optimizer(sr1_trainer *tr, const char *path)
{
    return save_optimizer(&tr->policy, path);
}

static sr1_status write_critic(sr1_trainer *tr, const char *path)
{
    return sr1_model_save(tr->critics[0], path);
}

static sr1_status write_critic_optimizer(sr1_trainer *tr, const char *path)
{
    return save_optimizer(&tr->critic, path);
}

static sr1_status write_questions(sr1_trainer *tr, const char *path)
{
    return sr1__questions_save(tr, path);
}

static sr1_status fill(void *self, const char *folder)
{
    sr1_trainer *tr = self;

    SR1__TRY(write_below(folder, "model", sr1_trainer_save_model, tr));
    SR1__TRY(write_below(folder, "optimizer", write_policy_optimizer, tr));
    if (tr->questions.rule)
        SR1__TRY(write_below(folder, "questions", write_questions, tr));
    if (sr1__serving_keeps(tr))
        SR1__TRY(write_below(folder, "served", sr1__serving_save, tr));
    if (!tr->critics)
        return SR1_OK;
    SR1__TRY(write_below(folder, "critic", write_critic, tr));
    return write_below(folder, "critic_optimizer", write_critic_optimizer, tr);
}

/* What a learner needs besides tensors. NULL without memory, or for no learner. */
static json_t *learner_counters(const struct sr1__learner *l)
{
    return l->optimizer
               ? json_pack("{s:I, s:o, s:I}", "optimizer_steps",
                           (json_int_t)sr1__optimizer_steps(l->optimizer), "loss_scale",
                           json_real(l->scale.value), "loss_scale_good_steps",
                           (json_int_t)l->scale.good_steps)
               : json_null();
}

static json_t *counters(const sr1_trainer *tr)
{
    return json_pack(
        "{s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:I, s:o, s:I, s:I, s:I}", "planned",
        (json_int_t)tr->planned, "epoch",
        (json_int_t)(tr->cursor ? sr1__cursor_epoch(tr->cursor) : 0), "position",
        (json_int_t)(tr->cursor ? sr1__cursor_position(tr->cursor) : 0), "skipped",
        (json_int_t)tr->skipped, "policy", learner_counters(&tr->policy), "critic",
        learner_counters(&tr->critic), "kl_coef", json_real(tr->kl.coef), "kl_updates",
        (json_int_t)tr->kl.updates, "entropy_coef", json_real(tr->entropy.coef),
        "server_version", (json_int_t)sr1__rollout_server_version(tr->rollout),
        "metrics_size",
        (json_int_t)(tr->metrics ? sr1__jsonl_size(tr->metrics) : 0), "trajectories_size",
        (json_int_t)(tr->trajectories ? sr1__jsonl_size(tr->trajectories) : 0));
}

sr1_status sr1__state_save(sr1_trainer *tr)
{
    json_t *state = counters(tr);
    sr1_status st = state ? sr1__checkpoint_write(tr->run_folder, tr->step, state,
                                                  tr->set.keep_checkpoints, fill, tr)
                          : sr1__fail_nomem("checkpoint state");

    json_decref(state);
    return st;
}

static sr1_status restore_learner_counters(struct sr1__learner *l, const json_t *state,
                                           const char *name)
{
    const json_t *o = json_object_get(state, name);
    int64_t steps;

    SR1__TRY(sr1__json_get_int(o, "optimizer_steps", &steps));
    SR1__TRY(sr1__json_get_num(o, "loss_scale", &l->scale.value));
    SR1__TRY(sr1__json_get_int(o, "loss_scale_good_steps", &l->scale.good_steps));
    sr1__optimizer_set_steps(l->optimizer, steps);
    return SR1_OK;
}

static sr1_status restore_counters(sr1_trainer *tr, const json_t *state)
{
    int64_t epoch, position, planned;

    SR1__TRY(sr1__json_get_int(state, "planned", &planned));
    if (tr->set.stop_at_exact_match > 0 && planned < tr->planned)
        tr->planned = planned; /* it was good enough; else the configuration says */
    SR1__TRY(sr1__json_get_int(state, "epoch", &epoch));
    SR1__TRY(sr1__json_get_int(state, "position", &position));
    SR1__TRY(sr1__json_get_int(state, "skipped", &tr->skipped));
    SR1__TRY(sr1__json_get_num(state, "kl_coef", &tr->kl.coef));
    SR1__TRY(sr1__json_get_int(state, "kl_updates", &tr->kl.updates));
    if (json_object_get(state, "entropy_coef")) /* not in older checkpoints */
        SR1__TRY(sr1__json_get_num(state, "entropy_coef", &tr->entropy.coef));
    SR1__TRY(restore_learner_counters(&tr->policy, state, "policy"));
    if (tr->critics)
        SR1__TRY(restore_learner_counters(&tr->critic, state, "critic"));
    return tr->cursor ? sr1__cursor_seek(tr->cursor, epoch, position) : SR1_OK;
}

static sr1_status restore_model(struct sr1__learner *l, const char *folder)
{
    sr1_model *m = l->replicas[0];
    sr1_model_options o = {.struct_size = sizeof(o),
                           .device = sr1_model_device(m),
                           .dtype = sr1_model_dtype(m)};
    sr1_model *loaded = NULL;
    sr1_status st;

    SR1__TRY(sr1_model_open(&loaded, folder, &o));
    st = sr1__model_copy_weights(m, loaded);
    sr1_model_free(loaded);
    for (int32_t i = 0; i < l->n; i++)
        sr1__model_touch(l->replicas[i]);
    return st;
}

static sr1_status restore_learner(struct sr1__learner *l, const char *folder,
                                  const char *model, const char *optimizer)
{
    char *weights = sr1__path_join(folder, model);
    char *state = sr1__path_join(folder, optimizer);
    sr1_status st = weights && state ? SR1_OK : sr1__fail_nomem("path");

    if (st == SR1_OK)
        st = restore_model(l, weights);
    if (st == SR1_OK)
        st = restore_optimizer(l, state);
    sr1__free(weights);
    sr1__free(state);
    return st;
}

static sr1_status restore_questions(sr1_trainer *tr, const char *folder)
{
    char *path = sr1__path_join(folder, "questions");
    sr1_status st = path ? sr1__questions_restore(tr, path) : sr1__fail_nomem("path");

    sr1__free(path);
    return st;
}

static sr1_status restore_all(sr1_trainer *tr, const char *folder, const json_t *state)
{
    if (tr->questions.rule)
        SR1__TRY(restore_questions(tr, folder));
    SR1__TRY(restore_learner(&tr->policy, folder, "model", "optimizer"));
    if (tr->critics)
        SR1__TRY(restore_learner(&tr->critic, folder, "critic", "critic_optimizer"));
    return restore_counters(tr, state);
}

sr1_status sr1__state_restore(sr1_trainer *tr)
{
    char *folder = NULL;
    json_t *state = NULL;
    int64_t step = 0, torn = 0;
    sr1_status st = sr1__checkpoint_newest(tr->run_folder, &folder, &step, &state, &torn);

    tr->resumed = 1;
    /* Stopped before its first checkpoint: from the beginning. Damaged ones are no reason
     * to throw away what the journals hold. */
    if (st == SR1_E_NOT_FOUND && torn == 0) {
        SR1__TRY(sr1__run_open_journals(tr, NULL));
        return sr1__serving_restore(tr, NULL, NULL);
    }
    SR1__TRY(st);
    st = sr1__context(restore_all(tr, folder, state), "%s", folder);
    if (st == SR1_OK)
        st = sr1__run_open_journals(tr, state);
    if (st == SR1_OK) {
        tr->step = step;
        st = sr1__serving_restore(tr, folder, state);
    }
    json_decref(state);
    sr1__free(folder);
    return st;
}

sr1_status sr1_trainer_save_model(sr1_trainer *tr, const char *folder)
{
    SR1__TRY(sr1_model_save(tr->model, folder));
    return sr1_tokenizer_save(sr1_rollout_tokenizer(tr->rollout), folder);
}
