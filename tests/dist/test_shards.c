/* test_shards.c - optimizer states in parts, one on each rank: the same bits as whole
 * ones on every rank, checkpoints that all ranks write and any number of them reads. */
#define TINY_WIDTH "768" /* so that tensors have several chunks, and are cut */

#include "dist/ranks.h"
#include "dist/saved.h"
#include "unit/train/runs.h"

#include "base/mem.h"
#include "base/rng.h"
#include "dist/ask_store.h"
#include "dist/shard.h"

#include <searchr1/ext/plan.h>

#include <errno.h>
#include <limits.h>
#include <sys/syscall.h>

/* ---- numbers ---- */

#define CHUNK 65536
#define TENSORS 6

static const int64_t sizes[TENSORS] = {100000, 3 * CHUNK + 17, 5, 1, 20 * CHUNK, CHUNK};

/* Of very different sizes, so that the order of a sum shows. */
static float value_of(int32_t rank, size_t i, int64_t k)
{
    return ldexpf((float)((k * 7919 + rank * 104729 + (int64_t)i) % 1000003) - 500000.0f,
                  (int)((k + 11 * rank) % 40) - 20);
}

static sr1_tensor *make_floats(int64_t n)
{
    sr1_tensor *t = NULL;

    RANK_CHECK(sr1__shim_empty(&t, SR1__F32, 1, &n, SR1__CPU) == SR1_OK);
    memset(sr1__shim_data(t), 0, (size_t)n * sizeof(float));
    return t;
}

/* Bounds are where chunks end, in order, and as equal as chunks let them be. */
static void check_bounds(const struct sr1__shards *s)
{
    int64_t all = s->starts[TENSORS], each = all / s->ranks;

    RANK_CHECK(s->bounds[0] == 0 && s->bounds[s->ranks] == all);
    for (int32_t r = 0; r < s->ranks; r++) {
        int64_t size = s->bounds[r + 1] - s->bounds[r];
        size_t i = 0;

        RANK_CHECK(size > each - CHUNK && size < each + CHUNK);
        while (s->starts[i + 1] <= s->bounds[r])
            i++;
        RANK_CHECK((s->bounds[r] - s->starts[i]) % CHUNK == 0);
    }
}

/* Added up in the order of ranks. */
static void sum_rows(sr1_scope *s, void *user, int64_t at, sr1_tensor *got)
{
    int64_t n = t_size(got, 1);
    sr1_tensor *sum = t_narrow(s, user, 0, at, n);

    for (int64_t r = 0; r < t_size(got, 0); r++) {
        sr1_tensor *row = t_reshape(s, t_narrow(s, got, 0, r, 1), T_SHAPE(n));

        if (r == 0)
            t_copy_(s, sum, row);
        else
            t_add_(s, sum, row, 1.0);
    }
}

static void check_sum(const struct ranks *r, const struct sr1__shards *s, size_t i,
                      const float *got)
{
    int64_t from, n = sr1__shards_own(s, i, &from);

    for (int64_t k = 0; k < n; k++) {
        float want = i == 2 ? 0 : value_of(0, i, from + k);

        for (int32_t rank = 1; rank < r->size; rank++)
            want += i == 2 && rank == 1 ? 0 : value_of(rank, i, from + k);
        RANK_CHECK(memcmp(&want, &got[k], sizeof want) == 0);
    }
}

/* Each rank changes what it owns, and all have all of it. */
static void gather_owned(const struct sr1__mesh *d, const struct sr1__shards *s,
                         sr1_tensor **whole, struct sr1__exchange_room *room)
{
    for (size_t i = 0; i < TENSORS; i++) {
        int64_t from, n = sr1__shards_own(s, i, &from);
        float *v = sr1__shim_data(whole[i]);

        memset(v, 0xff, (size_t)sizes[i] * sizeof *v);
        for (int64_t k = from; k < from + n; k++)
            v[k] = value_of(7, i, k);
    }
    RANK_CHECK(sr1__shards_gather(d, s, 0, SR1_OK, whole, NULL, SR1__F32, room) ==
               SR1_OK);
    for (size_t i = 0; i < TENSORS; i++)
        for (int64_t k = 0; k < sizes[i]; k++)
            RANK_CHECK(((float *)sr1__shim_data(whole[i]))[k] == value_of(7, i, k));
}

static void check_sums(const struct ranks *r, const struct sr1__shards *s,
                       sr1_tensor *sum)
{
    const float *part = sr1__shim_data(sum);

    for (size_t i = 0; i < TENSORS; i++) {
        int64_t from;

        check_sum(r, s, i, part);
        part += sr1__shards_own(s, i, &from);
    }
    memset(sr1__shim_data(sum), 0xff, (size_t)t_numel(sum) * sizeof(float));
}

/* On their way the tensors are free already, and other calls come between. A rank that
 * has failed meanwhile gets its own error, and the others their sums. */
static void sum_on_the_way(const struct ranks *r, const struct sr1__mesh *d,
                           const struct sr1__shards *s, sr1_tensor **given,
                           sr1_tensor *sum, struct sr1__exchange_room *room)
{
    struct sr1__shard_transfer *g = NULL;

    for (int fails = 0; fails < 2; fails++) {
        sr1_status st = fails && ranks_self == 1 ? SR1_E_IO : SR1_OK;

        RANK_CHECK(sr1__shards_scatter_begin(&g, d, s, 0, SR1_OK, given, SR1__F32,
                                             room) == SR1_OK);
        for (size_t i = 0; fails && i < TENSORS; i++)
            if (given[i])
                memset(sr1__shim_data(given[i]), 0xff, (size_t)sizes[i] * sizeof(float));
        RANK_CHECK(sr1__dist_meet(d->world, "meanwhile") == SR1_OK);
        RANK_CHECK(sr1__shards_scatter_end(g, st ? sr1__fail(st, "a disk") : SR1_OK,
                                           sum_rows, sum) == st);
        if (st == SR1_OK)
            check_sums(r, s, sum);
    }
    RANK_CHECK(sr1__shards_scatter_begin(
                   &g, d, s, 0,
                   ranks_self == 1 ? sr1__fail(SR1_E_NOMEM, "memory") : SR1_OK, given,
                   SR1__F32, room) == SR1_E_NOMEM);
    RANK_CHECK(strcmp(sr1_last_error(), "rank 1: memory") == 0);
}

static void exchange_shards(const struct ranks *r)
{
    sr1_tensor *whole[TENSORS], *given[TENSORS], *sum;
    struct sr1__shard_layout layout = {.sizes = sizes, .n = TENSORS, .chunk = CHUNK};
    struct sr1__exchange_room room = {NULL, NULL};
    struct sr1__shards *s = NULL;
    struct sr1__mesh d = {0};

    RANK_CHECK(ranks_open(r, &d.world) == SR1_OK);
    d.group = d.world;
    RANK_CHECK(sr1__shards_new(&s, &d, &layout) == SR1_OK);
    check_bounds(s);
    for (size_t i = 0; i < TENSORS; i++) {
        whole[i] = make_floats(sizes[i]);
        for (int64_t k = 0; k < sizes[i]; k++)
            ((float *)sr1__shim_data(whole[i]))[k] = value_of(ranks_self, i, k);
        given[i] = i == 2 && ranks_self <= 1 ? NULL : whole[i]; /* NULL: zeros */
    }
    sum = make_floats(sr1__shards_piece(s, 0));
    RANK_CHECK(sr1__shards_scatter(&d, s, 0, SR1_OK, given, SR1__F32, &room, sum_rows,
                                   sum) == SR1_OK);
    check_sums(r, s, sum);
    sum_on_the_way(r, &d, s, given, sum, &room);
    gather_owned(&d, s, whole, &room);
    for (size_t i = 0; i < TENSORS; i++)
        sr1__tensor_free(whole[i]);
    sr1__tensor_free(sum);
    sr1__exchange_room_free(&room);
    sr1__shards_free(s);
    sr1__dist_free(d.world);
}

static void ranks_get_the_sums_that_they_own(void **state)
{
    (void)state;
    ranks_run_worlds(exchange_shards);
}

/* ---- runs ---- */

#define MAX_PAIRS 6

/* What the next ranks do. */
static const char *run_name;
static const char *const *run_pairs; /* MAX_PAIRS of a configuration, or NULL */
static int32_t run_sharded, run_workers;

/* Gradients are clipped, so that all depends on their norm. */
static sr1_config *config_of(const char *name)
{
    char pair[32];
    sr1_config *c;

    snprintf(pair, sizeof pair, "workers=%d", run_workers ? run_workers : 1);
    c = RUN(name, "batch_size=3", "group_size=4", "beta=0.1", "micro_batch_tokens=64",
            "max_grad_norm=0.01", "log_trajectories=-1", "max_steps=4", pair);
    for (size_t i = 0; run_pairs && i < MAX_PAIRS && run_pairs[i]; i++)
        OK(sr1_config_set_pair(c, run_pairs[i]));
    if (run_sharded)
        OK(sr1_config_set(c, "fsdp_size", "-1"));
    return c;
}

static void train_ranks(const struct ranks *r)
{
    if (r->size > 1)
        ranks_set_variables(r);
    run_whole(config_of(run_name));
}

static void run_in(const char *name, int32_t size, int sharded)
{
    struct ranks r = {.size = size};

    run_name = name;
    run_sharded = sharded;
    ranks_run(&r, train_ranks, 0);
}

/* ---- parts are the whole ---- */

static const struct variant {
    int32_t ranks;
    const char *const pairs[MAX_PAIRS];
} variants[] = {
    {2, {"threads=2", "reference_sync_steps=2"}},
    {4, {"update_times=2"}},
    {2, {"advantage=gae", "loss=ppo", "kl_in=reward", "critic_learning_rate=1e-3"}},
    {2, {"lora_rank=2", "lora_dropout=0.1"}},
    {3,
     {"dtype=bf16", "advantage=gae", "loss=ppo", "critic_lora_rank=2", "kl_in=reward"}},
    {2, {"batch_size=1", "group_size=2", "distributed_debug=true"}},
};
#define VARIANTS (sizeof variants / sizeof variants[0])

static void parts_are_the_whole(void **state)
{
    size_t cut = 0;

    (void)state;
    for (size_t i = 0; i < VARIANTS; i++) {
        const struct variant *v = &variants[i];
        char whole[32], parts[32];

        snprintf(whole, sizeof whole, "whole-%zu", i);
        snprintf(parts, sizeof parts, "parts-%zu", i);
        run_pairs = v->pairs;
        run_in(whole, v->ranks, 0);
        run_in(parts, v->ranks, 1);
        same_records(whole, parts);
        same_file(whole, parts,
                  strncmp(v->pairs[0], "lora", 4) == 0 ? "model/adapter_model.safetensors"
                                                       : "model/model.safetensors");
        cut += same_states(whole, parts, "checkpoints/step-4/optimizer");
        if (strstr(v->pairs[0], "gae"))
            cut += same_states(whole, parts, "checkpoints/step-4/critic_optimizer");
    }
    run_pairs = NULL;
    assert_true(cut > 20);
}

/* One process of as many workers, which shards nothing: there is nobody to share with. */
static void parts_are_workers(void **state)
{
    (void)state;
    run_in("ranks-2", 2, 1);
    run_workers = 2;
    run_in("workers-2", 1, 1);
    run_workers = 0;
    same_records("workers-2", "ranks-2");
    same_file("workers-2", "ranks-2", "model/model.safetensors");
    assert_true(same_states("workers-2", "ranks-2", "checkpoints/step-4/optimizer") > 0);
}

/* ---- memory ---- */

static struct measured {
    int64_t own[RANKS_MAX], critic[RANKS_MAX], whole[RANKS_MAX];
    int64_t planned[RANKS_MAX], planned_critic[RANKS_MAX];
} * measured;

/* What sr1-train --plan says of this rank. */
static int64_t planned_bytes(const json_t *plan, const char *moments, const char *masters)
{
    int64_t bytes = 0;
    size_t i;
    json_t *item;

    json_array_foreach(json_object_get(plan, "items"), i, item)
    {
        const char *name = json_string_value(json_object_get(item, "name"));

        if (strcmp(name, moments) == 0 || strcmp(name, masters) == 0)
            bytes += json_integer_value(json_object_get(item, "bytes"));
    }
    return bytes;
}

static void plan_states(void)
{
    sr1_config *c = config_of("measured");
    sr1_plan *p = NULL;
    json_t *plan = NULL;

    OK(sr1_plan_new(&p, c, 0));
    OK(sr1__json_parse(&plan, sr1_plan_json(p), strlen(sr1_plan_json(p)), "plan"));
    measured->planned[ranks_self] =
        planned_bytes(plan, "optimizer moments", "fp32 masters");
    measured->planned_critic[ranks_self] =
        planned_bytes(plan, "critic moments", "critic masters");
    json_decref(plan);
    sr1_plan_free(p);
    sr1_config_free(c);
}

static void measure_states(const struct ranks *r)
{
    sr1_trainer *tr;

    ranks_set_variables(r);
    plan_states();
    tr = open_trainer(config_of("measured"));
    measured->own[ranks_self] = sr1__optimizer_bytes(tr->policy.optimizer);
    measured->whole[ranks_self] = sr1__optimizer_whole_bytes(tr->policy.optimizer);
    measured->critic[ranks_self] = sr1__optimizer_bytes(tr->critic.optimizer);
    sr1_trainer_free(tr);
}

/* m, v and, of bf16 weights, the master: of each rank a part, and together one whole. */
static void ranks_have_a_part_of_the_states(void **state)
{
    static const char *const pairs[MAX_PAIRS] = {"dtype=bf16", "advantage=gae",
                                                 "loss=ppo", "kl_in=reward"};
    int64_t chunk = 3 * 4 * CHUNK;

    (void)state;
    measured = mmap(NULL, sizeof *measured, PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    run_pairs = pairs;
    for (run_sharded = 0; run_sharded < 2; run_sharded++) {
        struct ranks r = {.size = 3};
        int64_t own = 0, critic = 0, whole;

        ranks_run(&r, measure_states, 0);
        whole = measured->whole[0];
        for (int k = 0; k < 3; k++) {
            own += measured->own[k];
            critic += measured->critic[k];
            assert_true(llabs(measured->planned[k] - measured->own[k]) < chunk);
            assert_true(llabs(measured->planned_critic[k] - measured->critic[k]) < chunk);
            assert_true(measured->whole[k] == whole);
            if (run_sharded)
                assert_true(measured->own[k] < whole / 3 + chunk &&
                            measured->own[k] > whole / 3 - chunk);
        }
        assert_true(own == (run_sharded ? whole : 3 * whole));
        assert_true(critic > (run_sharded ? 0 : 2) * whole &&
                    critic < (run_sharded ? 2 : 3) * whole);
    }
    run_pairs = NULL;
    munmap(measured, sizeof *measured);
}

/* ---- resuming ---- */

static void cut_short(const struct ranks *r)
{
    sr1_trainer *tr;

    ranks_set_variables(r);
    tr = open_trainer(config_of(run_name));
    run_until(tr, 3);
    sr1_trainer_free(tr);
}

static sr1_trainer *resume_here(const struct ranks *r)
{
    sr1_trainer *tr = NULL;

    if (r->size > 1)
        ranks_set_variables(r);
    sr1_config_free(config_of("unused")); /* which knows the tests' device */
    OK(sr1_trainer_resume(&tr, scratch_path(run_name), NULL));
    RANK_CHECK(sr1_trainer_steps_done(tr) == 2);
    return tr;
}

static void go_on(const struct ranks *r)
{
    sr1_trainer *tr = resume_here(r);

    OK(sr1_trainer_run(tr, NULL));
    sr1_trainer_free(tr);
}

static void resuming_is_never_having_stopped(void **state)
{
    struct ranks r = {.size = 2}, again = r;

    (void)state;
    run_name = "resumed";
    run_sharded = 1;
    ranks_run(&r, cut_short, 0);
    ranks_run(&again, go_on, 0);
    same_records("ranks-2", "resumed");
    same_file("ranks-2", "resumed", "model/model.safetensors");
    for (int k = 1; k <= 2; k++) {
        char file[96];

        snprintf(file, sizeof file,
                 "checkpoints/step-4/optimizer/part-0000%d-of-00002.safetensors", k);
        same_file("ranks-2", "resumed", file);
    }
}

/* The same checkpoint, written by other ranks. */
static void save_again(const struct ranks *r)
{
    sr1_trainer *tr = resume_here(r);

    OK(sr1__state_save(tr));
    sr1_trainer_free(tr);
}

static void copy_folder(const char *from, const char *to)
{
    char command[1400];

    snprintf(command, sizeof command, "mkdir -p '%s' && cp -r '%s/checkpoints' '%s'",
             scratch_path(to), scratch_path(from), scratch_path(to));
    assert_int_equal(system(command), 0);
}

/* 1 -> 2 -> 4 -> 3 -> 1 ranks, and each has every tensor of the first. */
static void any_number_of_ranks_resumes(void **state)
{
    static const char *const pairs[MAX_PAIRS] = {"dtype=bf16", "advantage=gae",
                                                 "loss=ppo", "kl_in=reward",
                                                 "reference_sync_steps=2"};
    static const int32_t worlds[] = {2, 4, 3, 1};
    struct ranks first = {.size = 1};
    size_t cut = 0;

    (void)state;
    run_pairs = pairs;
    run_name = "resized";
    run_sharded = 1;
    ranks_run(&first, cut_short, 0);
    copy_folder("resized", "first");
    for (size_t i = 0; i < sizeof worlds / sizeof *worlds; i++) {
        struct ranks r = {.size = worlds[i]};

        ranks_run(&r, save_again, 0);
        same_file("first", "resized", "checkpoints/step-2/model/model.safetensors");
        same_file("first", "resized", "checkpoints/step-2/critic/model.safetensors");
        same_file("first", "resized", "checkpoints/step-2/reference/model.safetensors");
        cut += same_states("first", "resized", "checkpoints/step-2/optimizer") +
               same_states("first", "resized", "checkpoints/step-2/critic_optimizer");
    }
    assert_true(cut > 0);
    cut = same_states("first", "resized", "checkpoints/step-2/optimizer");
    assert_int_equal(cut, 0); /* one rank has all */
    run_pairs = NULL;
}

/* ---- a rank that dies while it writes ---- */

static int syncs_left = -1; /* then this process dies; -1: it does not */

/* In place of libc's: each file of a checkpoint is flushed before it is renamed. */
int fsync(int fd)
{
    if (syncs_left >= 0 && syncs_left-- == 0)
        raise(SIGKILL);
    return (int)syscall(SYS_fsync, fd);
}

static int32_t dies; /* the rank */
static int dies_after;

static sr1_status arm(void *user, const sr1_step_report *r, int64_t planned)
{
    (void)user, (void)planned;
    if (r->step == 4 && ranks_self == dies)
        syncs_left = dies_after;
    return SR1_OK;
}

static void die_writing(const struct ranks *r)
{
    sr1_run_callbacks cb = {.struct_size = sizeof cb, .step = arm};
    sr1_trainer *tr;

    ranks_set_variables(r);
    tr = open_trainer(config_of(run_name));
    r->shared->status[ranks_self] = sr1_trainer_run(tr, &cb);
    sr1_trainer_free(tr);
}

static void a_torn_checkpoint_is_no_checkpoint(void **state)
{
    static const struct {
        int32_t rank;
        int after;
    } deaths[] = {{1, 0}, {1, 1}, {0, 0}, {0, 4}};

    (void)state;
    run_sharded = 1;
    for (size_t i = 0; i < sizeof deaths / sizeof *deaths; i++) {
        struct ranks r = {.size = 2}, again = r;
        char name[32];

        snprintf(name, sizeof name, "torn-%zu", i);
        run_name = name;
        dies = deaths[i].rank;
        dies_after = deaths[i].after;
        ranks_run(&r, die_writing, 1u << dies);
        assert_int_equal(r.shared->status[dies], 0); /* it did not return */
        assert_int_equal(r.shared->status[1 - dies], SR1_E_NETWORK);
        ranks_run(&again, go_on, 0); /* from step 2 */
        same_file("ranks-2", name, "model/model.safetensors");
        assert_true(same_states("workers-2", name, "checkpoints/step-4/optimizer") > 0);
    }
}

/* ---- a rank that dies at any point of a step ---- */

static int meetings_left = -1; /* then this process dies; -1: it does not */
static int meetings_held;      /* since it was armed */
static struct ranks_shared *meeting_shared;

sr1_status __real_sr1__mark_leave(struct sr1__store *s, const char *what, int64_t meeting,
                                  int32_t rank, const char *text);

sr1_status __wrap_sr1__mark_leave(struct sr1__store *s, const char *what, int64_t meeting,
                                  int32_t rank, const char *text);

/* In place of the library's (--wrap): each exchange begins with a mark. */
sr1_status __wrap_sr1__mark_leave(struct sr1__store *s, const char *what, int64_t meeting,
                                  int32_t rank, const char *text)
{
    if (strcmp(what, "at") == 0) {
        meetings_held++;
        if (meetings_left >= 0 && meetings_left-- == 0) {
            meeting_shared->at[ranks_self] = sr1__now();
            raise(SIGKILL);
        }
    }
    return __real_sr1__mark_leave(s, what, meeting, rank, text);
}

static sr1_status arm_meetings(void *user, const sr1_step_report *r, int64_t planned)
{
    (void)user, (void)planned;
    if (r->step != 3)
        return SR1_OK;
    meetings_held = 0;
    meetings_left = ranks_self == dies ? dies_after : -1;
    return SR1_OK;
}

static void die_meeting(const struct ranks *r)
{
    sr1_run_callbacks cb = {.struct_size = sizeof cb, .step = arm_meetings};
    sr1_trainer *tr;

    meeting_shared = r->shared;
    ranks_set_variables(r);
    tr = open_trainer(config_of(run_name));
    r->shared->status[ranks_self] = sr1_trainer_run(tr, &cb);
    r->shared->at[ranks_self] = sr1__now();
    r->shared->hash[ranks_self] = (uint64_t)meetings_held;
    sr1_trainer_free(tr);
}

static void resume_and_end(const struct ranks *r)
{
    sr1_trainer *tr = NULL;

    ranks_set_variables(r);
    sr1_config_free(config_of("unused")); /* which knows the tests' device */
    OK(sr1_trainer_resume(&tr, scratch_path(run_name), NULL));
    OK(sr1_trainer_run(tr, NULL));
    sr1_trainer_free(tr);
}

static int count_meetings(void)
{
    struct ranks r = {.size = 2};

    run_name = "counted";
    dies = -1;
    ranks_run(&r, die_meeting, 0);
    assert_int_equal(r.shared->status[0], SR1_OK);
    assert_int_equal(r.shared->hash[0], r.shared->hash[1]);
    return (int)r.shared->hash[0];
}

/* The other notices it by its connections; returns after how many seconds. */
static double die_at_meeting(int meeting, const char *name)
{
    struct ranks r = {.size = 2}, again = r;

    run_name = name;
    dies_after = meeting;
    ranks_run(&r, die_meeting, 1u << dies);
    if (r.shared->status[1 - dies] != SR1_E_NETWORK)
        fail_msg("rank %d dies at meeting %d: the other ends with %d", (int)dies, meeting,
                 r.shared->status[1 - dies]);
    ranks_run(&again, resume_and_end, 0);
    same_file("ranks-2", name, "model/model.safetensors");
    same_records("ranks-2", name);
    OK(sr1__dir_remove(scratch_path(name)));
    return r.shared->at[1 - dies] - r.shared->at[dies];
}

/* From the end of step 3 to that of the run, at each meeting by name, else at a few. */
static void a_rank_may_die_at_any_meeting(void **state)
{
    int all, points = getenv("SR1_DIST_ALL") ? INT_MAX : 4, n = 0;
    double slowest = 0;

    (void)state;
    for (run_sharded = 0; run_sharded < 2; run_sharded++) {
        all = count_meetings();
        OK(sr1__dir_remove(scratch_path("counted")));
        for (int i = 0; i < all && i < points; i++, n++) {
            int meeting = all <= points ? i : (2 * i + 1) * all / (2 * points);
            double took;
            char name[32];

            snprintf(name, sizeof name, "died-%d", n);
            dies = n % 2;
            took = die_at_meeting(meeting, name);
            slowest = took > slowest ? took : slowest;
        }
    }
    printf("%d deaths at meetings; the other had ended within %.2f s\n", n, slowest);
    assert_true(slowest < 20); /* ten times what is promised */
}

/* ---- what is refused ---- */

static void refuse_unequal(const struct ranks *r)
{
    sr1_config *c = config_of("groups");
    sr1_trainer *tr = NULL;

    ranks_set_variables(r);
    OK(sr1_config_set(c, "fsdp_size", "2"));
    RANK_CHECK(sr1_trainer_new(&tr, c, NULL) == SR1_E_CONFIG);
    RANK_CHECK(strstr(sr1_last_error(), "fsdp_size 2 does not divide a world of 3"));
    sr1_config_free(c);
}

static void unequal_groups_are_refused(void **state)
{
    struct ranks r = {.size = 3};

    (void)state;
    run_sharded = 0;
    ranks_run(&r, refuse_unequal, 0);
}

static void make_model(const struct ranks *r)
{
    (void)r;
    tiny_deep_model("model", 3, TINY_SEARCHER, 9);
}

static int make_files(void **state)
{
    if (ranks_make_files(state, make_model) != 0)
        return -1;
    runs_files();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_get_the_sums_that_they_own),
        cmocka_unit_test(parts_are_the_whole),
        cmocka_unit_test(parts_are_workers),
        cmocka_unit_test(ranks_have_a_part_of_the_states),
        cmocka_unit_test(resuming_is_never_having_stopped),
        cmocka_unit_test(any_number_of_ranks_resumes),
        cmocka_unit_test(a_torn_checkpoint_is_no_checkpoint),
        cmocka_unit_test(a_rank_may_die_at_any_meeting),
        cmocka_unit_test(unequal_groups_are_refused),
    };

    return cmocka_run_group_tests(tests, make_files, scratch_remove);
}
