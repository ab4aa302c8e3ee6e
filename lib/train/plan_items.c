/* train/plan_items.c - what takes memory in a run, how much, and in which phases. */
#include "dist/shard.h"
#include "train/plan.h"

#include "base/mem.h"
#include "config/choices.h"
#include "config/config.h"
#include "policy/assemble/assemble.h"

#include <math.h>
#include <string.h>

const char *const sr1__plan_phases[SR1__PLAN_PHASES] = {
    "load", "generate", "log_probs", "update_critic", "router_replay", "update", "save"};

#define ALL ((1u << SR1__PLAN_PHASES) - 1)
#define IN(phase) (1u << SR1__PLAN_##phase)

/* Of a process with libtorch that has done nothing yet; what malloc keeps of blocks that
 * were freed, some hundred MB by chance (tests/memory/run has it give all back); and of
 * CUDA beside tensors: its context, work spaces, and what its allocator rounds up. */
#define PROGRAM_BYTES 1.6e8
#define MALLOC_BYTES 1.4e8
#define CUDA_BYTES 1e9

/* A token of a trajectory, and beyond that one that was sampled: its log-probs, columns
 * and text. */
#define TOKEN_BYTES 26.0
#define POLICY_TOKEN_BYTES 32.0

/* What there is to plan, on its way into *out. */
struct planner {
    struct sr1__plan_figures *out;
    const sr1_config *config;
    const struct sr1__plan_shapes *shapes;
    struct sr1__settings set;
    struct sr1__memory_model policy, critic, reference;
    int has_critic;
};

static void add_item(struct planner *p, const char *name, double bytes,
                     enum sr1__plan_place place, uint32_t phases)
{
    if (bytes >= 1 && p->out->n_items < SR1__PLAN_ITEMS)
        p->out->items[p->out->n_items++] =
            (struct sr1__plan_item){name, bytes, place, phases};
}

/* ---- sizes of a step ---- */

static double get_number(const struct planner *p, const char *key)
{
    return sr1__config_real(p->config, key);
}

static double prompt_tokens(const struct planner *p)
{
    return fmin(get_number(p, "max_prompt_tokens"),
                (double)p->policy.config.max_positions);
}

/* Prompt, sampled tokens and results of searches, as long as their limits allow. */
static double longest_trajectory(const struct planner *p)
{
    const struct sr1__environment_choice *e = sr1__environment_choice(p->config);
    int acts = (!e || e->acts) && !p->out->step.imitates;
    double turns = fmax(get_number(p, "max_turns"), get_number(p, "max_env_steps"));
    double seen = acts ? turns * get_number(p, "max_observation_tokens") : 0;

    return fmin(get_number(p, "max_prompt_tokens") + get_number(p, "max_tokens") + seen,
                (double)p->policy.config.max_positions);
}

/* Tokens of a trajectory in passes of training, its share of the group's prompt among
 * them. */
static double packed_tokens(const struct planner *p)
{
    double tokens = p->out->step.context, group = fmax(1, (double)p->set.group_size);

    if (!p->set.share_prompts || p->policy.device != SR1__CPU || p->out->step.imitates)
        return tokens;
    return tokens - fmin(prompt_tokens(p), tokens) * (1 - 1 / group);
}

/* fsdp_size names the ranks of a job that is planned elsewhere, too. */
static void count_ranks(struct planner *p)
{
    struct sr1__plan_step *s = &p->out->step;
    double size = get_number(p, "fsdp_size"), world = p->shapes->world;

    s->ranks = world > 1 || size <= 1 ? world : size;
    s->shards = size < 0 || size > s->ranks ? s->ranks : size;
    s->pieces = s->shards > 1 ? s->ranks : 1;
}

/* As sr1__learner_open chooses. */
static void choose_exchange(struct planner *p)
{
    struct sr1__plan_step *s = &p->out->step;

    s->by_unit = s->shards > 1 && s->workers == 1 &&
                 !sr1__config_bool(p->config, "use_no_sync_for_gradient_accumulation");
    s->reshards = s->by_unit && sr1__config_bool(p->config, "reshard_after_forward");
    s->prefetches = s->reshards && sr1__config_bool(p->config, "forward_prefetch");
}

/* Of a step. */
static double sequences_of_rank(const struct planner *p)
{
    const struct sr1__plan_step *s = &p->out->step;
    double questions = ceil((double)p->set.batch_size / s->ranks);

    return fmin(s->trajectories, questions * (double)p->set.group_size);
}

static void size_step(struct planner *p)
{
    struct sr1__plan_step *s = &p->out->step;
    double mini = (double)p->set.mini_batch_size, all;

    count_ranks(p);
    s->imitates = sr1__config_imitates(p->config);
    s->generates = !s->imitates && !sr1__config_bool(p->config, "use_openai");
    s->trajectories =
        (double)p->set.batch_size * (s->imitates ? 1.0 : (double)p->set.group_size);
    s->context = longest_trajectory(p);
    s->policy = fmin(get_number(p, "max_tokens"), s->context);
    s->workers = sr1__plan_engine_count(p->config, p->policy.device,
                                        sr1__memory_parameters(&p->policy.config));
    choose_exchange(p);
    s->rows = fmin(get_number(p, "max_rows"), sequences_of_rank(p));
    s->packed = packed_tokens(p);
    all = s->packed * (mini > 0 ? fmin(mini, s->trajectories) : s->trajectories);
    s->micro = fmin(fmax((double)p->set.micro_batch_tokens, s->context),
                    fmax(s->context, ceil(all / s->workers / s->ranks)));
    s->passes = fmax(1, ceil(all / s->micro / s->workers / s->ranks));
}

static struct sr1__memory_pass make_pass(const struct planner *p, int train)
{
    const struct sr1__plan_step *s = &p->out->step;

    return (struct sr1__memory_pass){
        .tokens = s->micro,
        .targets = s->micro * fmin(1, s->policy / s->packed),
        .longest = s->context,
        .chunk = (double)p->set.logit_chunk,
        .mixed = s->micro > s->context || s->packed < s->context,
        .entropy = train && (get_number(p, "entropy_coef") != 0 ||
                             sr1__config_is(p->config, "entropy_controller", "adaptive")),
        .checkpoint = train && p->set.checkpointing,
        .by_unit = train && s->by_unit};
}

/* ---- models ---- */

static sr1_status choose_dtype(const sr1_config *c, const char *key, int32_t otherwise,
                               int32_t *out)
{
    const char *name = sr1__config_str(c, key);

    *out = otherwise;
    return strcmp(name, "auto") == 0 ? SR1_OK : sr1__torch_dtype_parse(name, out);
}

static sr1_status describe_models(struct planner *p, sr1__device device)
{
    const struct sr1__plan_shapes *s = p->shapes;

    p->policy =
        (struct sr1__memory_model){.config = s->policy,
                                   .device = device,
                                   .lora = s->stored.rank > 0 ? s->stored : p->set.lora};
    SR1__TRY(choose_dtype(p->config, "dtype", device == SR1__CPU ? SR1__F32 : SR1__BF16,
                          &p->policy.dtype));
    p->policy.decodes_int8 = sr1__config_is(p->config, "quantization", "int8");
    p->policy.narrow_cache = sr1__config_is(p->config, "kv_cache_dtype", "bfloat16");
    p->policy.threads = sr1__plan_engine_threads(
        p->config, device,
        sr1__plan_engine_count(p->config, device, sr1__memory_parameters(&s->policy)));
    p->has_critic = (p->set.estimator.needs & SR1_ADVANTAGE_NEEDS_VALUES) != 0;
    p->critic = p->policy;
    p->critic.config = s->critic;
    p->critic.lora = p->set.critic_lora;
    p->out->policy = p->policy;
    p->reference = p->policy;
    SR1__TRY(
        choose_dtype(p->config, "reference_dtype", p->policy.dtype, &p->reference.dtype));
    p->reference.quantized = p->policy.lora.rank == 0 &&
                             !sr1__config_is(p->config, "reference_quantization", "none");
    if (p->reference.dtype == p->policy.dtype) /* a fresh adapter is left out */
        p->reference.lora = s->stored;
    return SR1_OK;
}

/* Is there a reference, and on the device whatever happens? */
static int has_resident_reference(const struct planner *p)
{
    int offloaded =
        sr1__config_bool(p->config, "reference_offload") && p->policy.device != SR1__CPU;

    return p->set.frozen_reference && !offloaded;
}

/* On the host it is on the device for its passes alone. */
static void plan_own_reference(struct planner *p, double bytes)
{
    int offloaded = !has_resident_reference(p);

    add_item(p, "reference", bytes, SR1__PLAN_DEVICE, offloaded ? IN(LOG_PROBS) : ALL);
    if (offloaded)
        add_item(p, "reference on the host", bytes, SR1__PLAN_HOST, ALL);
}

/* A frozen reference under an adapter is the base itself; one of the type that the
 * reviser has loaded is the reviser's, unless it moves. */
static void plan_reference(struct planner *p)
{
    const struct sr1__memory_model *r = &p->reference;
    const char *proxy = sr1__config_str(p->config, "proxy_model");
    const char *own = sr1__config_str(p->config, "model_name_or_path");
    int revised = p->shapes->has_reviser && (!*proxy || strcmp(proxy, own) == 0) &&
                  p->set.reference_sync_steps == 0;

    if (!p->set.frozen_reference)
        return;
    if (r->dtype == p->policy.dtype && (p->policy.lora.rank > 0 || revised))
        add_item(p, "reference (adapter)", 4 * sr1__memory_adapter(r), SR1__PLAN_DEVICE,
                 ALL);
    else
        plan_own_reference(p, sr1__memory_weights(r));
}

/* Where tensors lie that ranks exchange. */
static enum sr1__plan_place place_of_exchange(const struct planner *p)
{
    return sr1__config_is(p->config, "distributed_backend", "nccl") ? SR1__PLAN_DEVICE
                                                                    : SR1__PLAN_HOST;
}

/* Then a rank has one sum of all ranks' gradients. */
static int sums_by_nccl(const struct planner *p)
{
    return sr1__config_is(p->config, "distributed_backend", "nccl") &&
           !sr1__config_bool(p->config, "full_determinism");
}

/* Weights that an update has in parts are whole otherwise. */
static void plan_own_weights(struct planner *p, const struct sr1__memory_model *m,
                             const char *name, double bytes, uint32_t update)
{
    const struct sr1__plan_step *s = &p->out->step;
    double each = bytes / sr1__memory_parameters(&m->config);

    if (!s->reshards) {
        add_item(p, name, bytes, SR1__PLAN_DEVICE, ALL);
        return;
    }
    add_item(p, name, bytes, SR1__PLAN_DEVICE, ALL & ~update);
    add_item(p, "weights in parts", bytes / s->shards, SR1__PLAN_DEVICE, update);
    add_item(p, "weights of a layer and the head", sr1__memory_units_at_once(m) * each,
             SR1__PLAN_DEVICE, update);
    if (s->prefetches)
        add_item(p, "weights under way", sr1__memory_unit(m) * each * (1 + 1 / s->shards),
                 place_of_exchange(p), update);
}

static void plan_weights(struct planner *p)
{
    struct sr1__memory_model reviser = p->policy;
    double base = sr1__memory_weights(&p->policy);
    double adapter = 4 * sr1__memory_adapter(&p->policy);

    reviser.config = p->shapes->reviser;
    reviser.lora.rank = 0;
    plan_own_weights(p, &p->policy, "weights", base - adapter, IN(UPDATE));
    add_item(p, "adapter", adapter, SR1__PLAN_DEVICE, ALL);
    if (p->shapes->has_reviser)
        add_item(p, "reviser", sr1__memory_weights(&reviser), SR1__PLAN_DEVICE, ALL);
    add_item(p, "rotary tables",
             p->out->step.workers * (1 + has_resident_reference(p) + p->has_critic) *
                 sr1__memory_rope(&p->policy, p->out->step.context),
             SR1__PLAN_DEVICE, ALL & ~IN(LOAD));
    add_item(p, "weights being read",
             (double)p->policy.config.vocab_size * (double)p->policy.config.hidden_size *
                 ((double)sr1__torch_dtype_size(p->policy.dtype) + 3),
             SR1__PLAN_DEVICE, IN(LOAD));
}

/* ---- phases ---- */

static void plan_generation(struct planner *p)
{
    const struct sr1__plan_step *s = &p->out->step;
    const struct sr1__memory_model *m = &p->policy;
    double group = fmax(1, (double)p->set.group_size);
    double prompts = ceil(s->rows / group) * prompt_tokens(p);
    double results = s->context - s->policy - prompt_tokens(p) > 0
                         ? s->rows * get_number(p, "max_observation_tokens")
                         : 0;
    struct sr1__memory_rows rows = {.n = s->rows,
                                    .most = get_number(p, "max_rows"),
                                    .group = group,
                                    .prompt = fmin(prompt_tokens(p), s->context),
                                    .tokens = s->context};
    double full, peak;

    if (!s->generates)
        return;
    if (m->device != SR1__CPU && s->rows < sequences_of_rank(p)) /* groups lie apart */
        rows.group = 1;
    full = sr1__memory_cache(m, &rows);
    peak = sr1__memory_cache_peak(m, &rows);
    add_item(p, "key-value cache", full, SR1__PLAN_DEVICE, IN(GENERATE));
    add_item(p, "key-value cache, growing", peak - full, SR1__PLAN_DEVICE, IN(GENERATE));
    add_item(
        p, "decoding",
        sr1__memory_decode(m, s->rows, fmax(prompts, results), s->context, s->workers),
        SR1__PLAN_DEVICE, IN(GENERATE));
    if (m->device == SR1__CPU) /* on a device they never reach the host */
        add_item(p, "logits of sequences",
                 s->rows * (double)m->config.vocab_size * sizeof(float), SR1__PLAN_HOST,
                 IN(GENERATE));
}

/* Columns that forward passes fill. */
static uint32_t columns_of(const struct planner *p)
{
    return p->set.advantage_columns | p->set.update_columns;
}

static void plan_log_probs(struct planner *p)
{
    struct sr1__memory_pass pass = make_pass(p, 0);
    const struct sr1__memory_model *const models[SR1_COLUMN_COUNT] = {
        [SR1_COLUMN_REFERENCE] = &p->reference,
        [SR1_COLUMN_OLD] = &p->policy,
        [SR1_COLUMN_VALUE] = &p->critic};
    double most = 0;

    for (int entropy = 0; entropy < 2; entropy++) {
        pass.entropy = entropy;
        if (columns_of(p) & 1u << (entropy ? SR1_COLUMN_ENTROPY : SR1_COLUMN_SCORE_NORM))
            most =
                fmax(most, p->out->step.workers * sr1__memory_forward(&p->policy, &pass));
    }
    pass.entropy = 0;
    for (uint32_t i = 0; i < SR1_COLUMN_COUNT; i++)
        if (models[i] && columns_of(p) & 1u << i)
            most = fmax(most, sr1__memory_score(models[i], &pass, p->out->step.workers));
    add_item(p, "forward pass", most, SR1__PLAN_DEVICE, IN(LOG_PROBS));
}

/* Names of a learner's items, and the phase of its update. */
struct learner_names {
    const char *moments, *masters, *gradients, *sums, *activations;
    uint32_t update;
};

/* What is sent and what comes of gradients at once: a layer, or pieces of other units. */
static double count_exchange(const struct planner *p, const struct sr1__memory_model *m)
{
    const struct sr1__plan_step *s = &p->out->step;
    double numbers = sr1__memory_trained(m), unit = fmin(numbers, sr1__memory_unit(m));
    double each = sums_by_nccl(p) ? sizeof(float) : sr1__memory_gradients(m) / numbers;
    double sent = fmin(SR1__SHARD_ROUND, ceil(unit / s->pieces)) * s->pieces;
    double layer = m->lora.rank ? 0 : sr1__memory_layer(m);

    return 2 * fmax(sent * sizeof(float), layer * each);
}

/* Gradients that go to their owners as they come. A rank adds up a worker's beside those
 * of the workers before it. */
static void plan_by_unit(struct planner *p, const struct sr1__memory_model *m,
                         const struct learner_names *n, double piece)
{
    const struct sr1__plan_step *s = &p->out->step;
    struct sr1__memory_pass pass = make_pass(p, 1);
    double numbers = sr1__memory_trained(m), grads = sr1__memory_gradients(m);
    double unit = fmin(numbers, sr1__memory_unit(m)), now = grads * unit / numbers;
    int twice = s->passes > 1 && !sums_by_nccl(p);

    if (s->pieces > s->shards) /* pieces become a part */
        piece += numbers * sizeof(float) / s->shards;
    add_item(p, n->sums, (twice ? 2 : 1) * numbers * sizeof(float) / s->pieces,
             SR1__PLAN_DEVICE, n->update);
    add_item(p, n->gradients, now, SR1__PLAN_DEVICE, n->update);
    add_item(p, n->activations,
             fmax(fmax(0, sr1__memory_backward(m, &pass) - now), piece), SR1__PLAN_DEVICE,
             n->update);
    add_item(p, "exchange", count_exchange(p, m), place_of_exchange(p), n->update);
}

static void plan_learner(struct planner *p, const struct sr1__memory_model *m,
                         const struct learner_names *n)
{
    const struct sr1__plan_step *s = &p->out->step;
    struct sr1__memory_pass pass = make_pass(p, 1);
    double grads = sr1__memory_gradients(m), sums = sr1__memory_sums(m);
    double activations = fmax(0, sr1__memory_backward(m, &pass) - grads), piece = 0;
    enum sr1__plan_place place = sr1__config_bool(p->config, "optimizer_offload")
                                     ? SR1__PLAN_HOST
                                     : SR1__PLAN_DEVICE;

    add_item(p, n->moments, sr1__memory_moments(m) / s->shards, place, ALL & ~IN(LOAD));
    add_item(p, n->masters, sr1__memory_masters(m) / s->shards, place, ALL & ~IN(LOAD));
    if (s->by_unit) {
        plan_by_unit(p, m, n, place == SR1__PLAN_HOST ? sr1__memory_offload_piece(m) : 0);
        return;
    }
    if (p->set.alone && s->ranks == 1) /* one sum for all workers */
        add_item(p, n->sums, sr1__memory_trained(m) * sizeof(float), SR1__PLAN_DEVICE,
                 n->update);
    else if (s->passes > 1)
        add_item(p, n->sums, s->workers * sums, SR1__PLAN_DEVICE, n->update);
    else if (s->workers > 1 ||
             (s->ranks > 1 && s->shards == 1)) /* before they are added */
        activations = fmax(activations, sums - grads);
    else
        piece = sr1__memory_grad_piece(m);
    if (s->shards > 1) /* the part of the sums that is this rank's */
        piece += sr1__memory_trained(m) * sizeof(float) / s->pieces;
    if (place == SR1__PLAN_HOST)
        piece += sr1__memory_offload_piece(m);
    activations = fmax(activations, piece); /* once backward is over */
    add_item(p, n->gradients, s->workers * grads, SR1__PLAN_DEVICE, n->update);
    add_item(p, n->activations, s->workers * activations, SR1__PLAN_DEVICE, n->update);
}

static void plan_learners(struct planner *p)
{
    static const struct learner_names policy = {"optimizer moments", "fp32 masters",
                                                "gradients",         "gradient sums",
                                                "activations",       IN(UPDATE)};
    static const struct learner_names critic = {
        "critic moments",       "critic masters",     "critic gradients",
        "critic gradient sums", "critic activations", IN(UPDATE_CRITIC)};

    plan_learner(p, &p->policy, &policy);
    if (!p->has_critic)
        return;
    plan_own_weights(p, &p->critic, "critic", sr1__memory_weights(&p->critic),
                     IN(UPDATE_CRITIC));
    plan_learner(p, &p->critic, &critic);
}

static int replays_routers(const struct planner *p)
{
    double mini = (double)p->set.mini_batch_size;

    return p->set.router_replay &&
           (p->set.update_times > 1 || (mini > 0 && mini < p->out->step.trajectories));
}

/* The experts that router replay keeps (tensor/model/route_log.h), in memory that doubles
 * while it grows, by a pass for which the weights are whole yet. */
static void plan_routes(struct planner *p)
{
    const struct sr1__plan_step *s = &p->out->step;
    const struct sr1__hf_config *c = &p->policy.config;
    struct sr1__memory_pass pass = make_pass(p, 0);

    if (!replays_routers(p))
        return;
    pass.targets = 0;
    add_item(p, "pass that keeps experts",
             s->workers * sr1__memory_forward(&p->policy, &pass), SR1__PLAN_DEVICE,
             IN(ROUTER_REPLAY));
    add_item(p, "kept experts",
             2 * ceil(s->trajectories / s->ranks) * s->packed * (double)c->n_layers *
                 (double)c->experts_per_token * sizeof(uint16_t),
             SR1__PLAN_HOST, IN(ROUTER_REPLAY) | IN(UPDATE));
}

/* Under an adapter each server gets merged matrices, one at a time: the change, that once
 * scaled, the base and the sum in fp32, and the result. Whole weights are sent from where
 * they lie. */
static double count_sent_bytes(const struct planner *p)
{
    const struct sr1__hf_config *c = &p->policy.config;
    double inner =
        fmax((double)c->intermediate_size, (double)c->n_heads * (double)c->head_dim);
    char **servers = NULL;
    size_t n = 0;

    if (!sr1__config_bool(p->config, "use_openai") ||
        !sr1__config_sends_tensors(p->config) || p->policy.lora.rank == 0)
        return 0;
    if (sr1__config_list(p->config, "openai_base_url", &servers, &n) != SR1_OK)
        n = 1;
    sr1__free(servers);
    return (double)n * (double)c->hidden_size * inner *
           (4 * sizeof(float) + (double)sr1__torch_dtype_size(p->policy.dtype));
}

static void plan_rest(struct planner *p)
{
    const struct sr1__plan_step *s = &p->out->step;
    double trajectories =
        s->trajectories * (s->context * TOKEN_BYTES + s->policy * POLICY_TOKEN_BYTES);
    double spilled = (double)p->set.trajectory_memory;
    double ahead = 2 * (double)p->set.async_level * trajectories; /* bytes of them too */
    double largest = (double)p->policy.config.vocab_size *
                     (double)p->policy.config.hidden_size * sizeof(float);

    if (spilled > 0)
        trajectories = fmin(trajectories, spilled);
    add_item(p, "trajectories", trajectories, SR1__PLAN_HOST,
             ALL & ~IN(LOAD) & ~IN(SAVE));
    add_item(p, "rollouts ahead", ahead, SR1__PLAN_HOST, ALL & ~IN(LOAD));
    add_item(p, "tensor being written", largest, SR1__PLAN_HOST, IN(SAVE));
    add_item(p, "tensors being sent", count_sent_bytes(p), SR1__PLAN_DEVICE, IN(SAVE));
    add_item(p, "program", PROGRAM_BYTES, SR1__PLAN_HOST, ALL);
    add_item(p, "kept by malloc", MALLOC_BYTES, SR1__PLAN_HOST, ALL);
    if (sr1__memory_is_cuda(&p->policy))
        add_item(p, "CUDA", CUDA_BYTES, SR1__PLAN_DEVICE, ALL);
}

/* ---- sums ---- */

static uint32_t phases_of(const struct planner *p)
{
    const struct sr1__plan_step *s = &p->out->step;

    return ALL & ~(s->generates ? 0 : IN(GENERATE)) &
           ~(columns_of(p) ? 0 : IN(LOG_PROBS)) &
           ~(p->has_critic ? 0 : IN(UPDATE_CRITIC)) &
           ~(replays_routers(p) ? 0 : IN(ROUTER_REPLAY));
}

static void add_up(struct planner *p)
{
    struct sr1__plan_figures *f = p->out;
    int one = p->policy.device == SR1__CPU; /* memory for both */

    for (uint32_t k = 0; k < SR1__PLAN_PHASES; k++) {
        for (size_t i = 0; phases_of(p) & 1u << k && i < f->n_items; i++)
            if (f->items[i].phases & 1u << k)
                f->peaks[k][one ? SR1__PLAN_DEVICE : f->items[i].place] +=
                    f->items[i].bytes;
        if (f->peaks[k][SR1__PLAN_DEVICE] > f->peak) {
            f->peak = f->peaks[k][SR1__PLAN_DEVICE];
            f->largest = k;
        }
        f->host = fmax(f->host, f->peaks[k][SR1__PLAN_HOST]);
    }
}

static double state_bytes(const struct sr1__memory_model *m)
{
    return sr1__memory_gradients(m) /* as wide as what is trained */ +
           sr1__memory_moments(m) + sr1__memory_masters(m);
}

/* As sr1__served_bytes. */
static double served_bytes(const struct planner *p)
{
    const sr1_config *c = p->config;

    if (!sr1__config_bool(c, "use_openai") || !sr1__config_sends_weights(c) ||
        sr1__config_sends_tensors(c))
        return 0;
    return sr1__config_sends_adapters(c)
               ? sr1__memory_gradients(&p->policy)
               : sr1__memory_parameters(&p->policy.config) *
                     (double)sr1__torch_dtype_size(p->policy.dtype);
}

/* As sr1__folder_room for a whole run. Where only the data tell its steps, they are as
 * many as take most; where all checkpoints are kept, two. */
static void plan_disk(struct planner *p)
{
    const struct sr1__settings *set = &p->set;
    int64_t unknown = set->keep_checkpoints > 0 ? INT64_MAX - 1 : 2;
    int64_t steps = set->max_steps > 0 ? set->max_steps : unknown;
    double served = served_bytes(p);

    p->out->counts_steps = set->max_steps > 0;
    p->out->checkpoint = state_bytes(&p->policy) +
                         (p->has_critic ? state_bytes(&p->critic) : 0) +
                         (p->set.frozen_reference && p->set.reference_sync_steps > 0
                              ? sr1__memory_weights(&p->reference)
                              : 0) +
                         (get_number(p, "openai_sync_interval") > 1 ? served : 0);
    p->out->disk = p->out->checkpoint * (double)sr1__checkpoints_at_once(set, steps, 0) +
                   served +
                   (set->save_final_model ? sr1__memory_gradients(&p->policy) : 0);
}

sr1_status sr1__plan_figure(struct sr1__plan_figures *out, const sr1_config *c,
                            const struct sr1__plan_shapes *shapes, sr1__device device)
{
    struct planner p = {.out = out, .config = c, .shapes = shapes};

    memset(out, 0, sizeof *out);
    SR1__TRY(sr1__settings_read(&p.set, c));
    sr1__settings_isolate(&p.set, c, device);
    SR1__TRY(describe_models(&p, device));
    size_step(&p);
    plan_weights(&p);
    plan_reference(&p);
    plan_learners(&p);
    plan_generation(&p);
    plan_log_probs(&p);
    plan_routes(&p);
    plan_rest(&p);
    add_up(&p);
    plan_disk(&p);
    return SR1_OK;
}

int sr1__plan_host_fits(const sr1_plan *p, const struct sr1__plan_figures *f)
{
    return p->host_memory <= 0 || f->host <= p->host_memory;
}

int sr1__plan_fits(const sr1_plan *p, const struct sr1__plan_figures *f)
{
    return f->peak <= p->memory && sr1__plan_host_fits(p, f);
}
