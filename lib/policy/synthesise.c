/* policy/synthesise.c - a policy's own good trajectories as demonstrations
 * (text/data/demo.h).
 *
 * Rows go in chunks. After each chunk the state file beside the output says how far it
 * is: rows done and bytes written, a hash of the last of them, and whether all rows were
 * done or the call ended early. What a kill left behind the bytes is cut off; what is
 * there after an end is somebody's, and refused. It has the time that prompts show, too,
 * so that the work can be gone on with on another day. */
#include "policy/dataset_queries.h"

#include <searchr1/ext/episodes.h>
#include <searchr1/ext/synthesis.h>
#include "policy/demonstration.h"
#include "policy/fingerprint.h"
#include "policy/launched_job.h"
#include "policy/rollout_internal.h"
#include "policy/share_rollout.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/struct.h"
#include "text/data/dataset.h"
#include "text/data/jsonl.h"
#include "environment/trajectory/trajectory.h"
#include "signal/reward/reward_set.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>

/* ---- the work ---- */

struct synth {
    struct sr1__dist *dist; /* who shares the questions; NULL: nobody */
    sr1_rollout *rollout;
    sr1_reward_set *rewards;
    const sr1_dataset *data;
    sr1_synth_options o;
    const char *path;
    struct sr1__jsonl *out;
    char *state;      /* path */
    int begun;        /* the files are this call's to write */
    json_t *settings; /* what must be the same for the work to be gone on with */
    int64_t *rows;    /* [total] those whose prompts fit */
    int64_t total, done, tokens;
    sr1_synth_report report;
};

/* Questions of a chunk, and what was made of them. */
struct synth_chunk {
    size_t made;
    struct sr1__dataset_queries asked;
    sr1_trajectory **t;          /* [made], question by question */
    const sr1_trajectory **kept; /* [made] those that can be scored */
};

static void synth_chunk_free(struct synth_chunk *c)
{
    for (size_t i = 0; c->t && i < c->made; i++)
        sr1_trajectory_free(c->t[i]);
    sr1__free(c->t);
    sr1__free((void *)c->kept);
    sr1__dataset_queries_free(&c->asked);
}

static sr1_status synth_chunk_read(struct synth_chunk *c, const struct synth *s, size_t n)
{
    *c = (struct synth_chunk){.made = n * (size_t)s->o.samples};
    c->t = sr1__calloc(c->made, sizeof(sr1_trajectory *));
    c->kept = sr1__calloc(c->made, sizeof(sr1_trajectory *));
    if (!c->t || !c->kept)
        return sr1__fail_nomem("questions");
    return sr1__dataset_queries_read(&c->asked, s->data, s->rows + s->done, 0, n);
}

static sr1_status report_synth_progress(void *user, int64_t finished, int64_t total,
                                        int64_t tokens)
{
    const struct synth *s = user;
    int64_t all = s->total * s->o.samples;

    (void)total;
    /* other ranks are about as far */
    finished = s->done * s->o.samples + finished * sr1__dist_size(s->dist);
    return s->o.progress(s->o.user, finished < all ? finished : all, all,
                         s->tokens + tokens * sr1__dist_size(s->dist));
}

static sr1_status generate_synth_chunk(struct synth *s, struct synth_chunk *c)
{
    sr1_rollout_options o = {.struct_size = sizeof(o),
                             .group_size = s->o.samples,
                             .greedy = s->o.greedy,
                             .seed = s->o.seed,
                             .user = s,
                             .progress = s->o.progress ? report_synth_progress : NULL};

    return sr1__generate_scored(s->dist, s->rollout, s->rewards, c->asked.queries,
                                c->asked.n, &o, c->t);
}

static void count_synth_chunk(struct synth *s, const struct synth_chunk *c)
{
    for (size_t i = 0; i < c->made; i++) {
        s->report.trajectories++;
        s->tokens += (int64_t)sr1_trajectory_policy_count(c->t[i]);
        s->report.excluded += sr1__trajectory_excluded(c->t[i]);
    }
}

/* ---- choosing and writing ---- */

/* Best reward first, then the first made. */
static int compare_rewards(const void *a, const void *b)
{
    const sr1_trajectory *x = *(const sr1_trajectory *const *)a;
    const sr1_trajectory *y = *(const sr1_trajectory *const *)b;
    double d = sr1_trajectory_reward(y) - sr1_trajectory_reward(x);

    return d != 0.0 ? (d > 0.0 ? 1 : -1)
                    : sr1_trajectory_sample(x) - sr1_trajectory_sample(y);
}

/* The first rank writes; the others count. */
static sr1_status write_demonstration(struct synth *s, const sr1_trajectory *t)
{
    json_t *demo = s->out ? sr1__demonstration_json(s->rollout, t) : NULL;
    sr1_status st = SR1_OK;

    if (s->out)
        st = demo ? sr1__jsonl_add(s->out, demo) : sr1__fail_nomem("demonstration");
    json_decref(demo);
    s->report.written += st == SR1_OK;
    return st;
}

/* Of one question's trajectories. */
static sr1_status write_best_trajectories(struct synth *s, struct synth_chunk *c,
                                          size_t question)
{
    size_t n = 0, samples = (size_t)s->o.samples;

    for (size_t k = 0; k < samples; k++) {
        const sr1_trajectory *t = c->t[question * samples + k];

        if (sr1__trajectory_excluded(t))
            continue;
        if (!sr1__demonstration_fits(s->rollout, t))
            s->report.unfit++;
        else if (sr1_trajectory_reward(t) < s->o.min_reward)
            s->report.below++;
        else
            c->kept[n++] = t;
    }
    qsort((void *)c->kept, n, sizeof(*c->kept), compare_rewards);
    for (size_t k = 0; k < n && (int32_t)k < s->o.per_question; k++)
        SR1__TRY(write_demonstration(s, c->kept[k]));
    return SR1_OK;
}

static sr1_status synthesise_chunk(struct synth *s, size_t n)
{
    struct synth_chunk c;
    sr1_status st = synth_chunk_read(&c, s, n);

    if (st == SR1_OK)
        st = generate_synth_chunk(s, &c);
    if (st == SR1_OK)
        count_synth_chunk(s, &c);
    for (size_t i = 0; i < n && st == SR1_OK; i++)
        st = write_best_trajectories(s, &c, i);
    synth_chunk_free(&c);
    return st;
}

/* ---- the state ---- */

#define STATE_MAX ((size_t)1 << 16)

static json_t *rewards_json(const sr1_reward_set *rewards)
{
    json_t *list = json_array();

    for (size_t i = 0; list && i < rewards->n; i++)
        (void)json_array_append_new(list, json_pack("[s, f]", rewards->entries[i].name,
                                                    rewards->entries[i].weight));
    return list;
}

static sr1_status settings_json(json_t **out, const struct synth *s)
{
    json_t *more = json_pack(
        "{s:o, s:i, s:i, s:I, s:i, s:f}", "rewards", rewards_json(s->rewards), "samples",
        (int)s->o.samples, "greedy", (int)s->o.greedy, "seed", (json_int_t)s->o.seed,
        "per_question", (int)s->o.per_question, "min_reward", s->o.min_reward);
    char keys[17];

    snprintf(keys, sizeof(keys), "%016" PRIx64, s->rewards->keys);
    if (more && s->rewards->keys &&
        json_object_set_new(more, "reward_keys", json_string(keys)) != 0) {
        json_decref(more);
        more = NULL;
    }
    return sr1__work_fingerprint(out, s->rollout, s->data, more);
}

static sr1_status save_state(const struct synth *s)
{
    const sr1_synth_report *r = &s->report;
    uint64_t end = 0;
    json_t *o;
    sr1_status st;

    SR1__TRY(sr1__jsonl_sync(s->out)); /* before its size is recorded */
    SR1__TRY(sr1__file_end_hash(s->path, sr1__jsonl_size(s->out), &end));
    o = json_pack("{s:O, s:I, s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "settings",
                  s->settings, "end", (json_int_t)end, "finished",
                  s->total > 0 && s->done >= s->total, "prompt_time",
                  (json_int_t)sr1__chat_time(s->rollout->tokenizer), "rows",
                  (json_int_t)s->done, "bytes", (json_int_t)sr1__jsonl_size(s->out),
                  "trajectories", (json_int_t)r->trajectories, "written",
                  (json_int_t)r->written, "below", (json_int_t)r->below, "unfit",
                  (json_int_t)r->unfit, "excluded", (json_int_t)r->excluded);
    st = o ? sr1__json_save(o, 2, s->state) : sr1__fail_nomem("state");
    json_decref(o);
    return st;
}

/* The call ends, and says so: what is behind the demonstrations later is somebody's. */
static sr1_status mark_stopped(struct synth *s)
{
    json_t *o = NULL;
    int64_t bytes = 0;
    sr1_status st;

    SR1__TRY(sr1__json_load(&o, s->state, STATE_MAX));
    st = sr1__json_get_int(o, "bytes", &bytes);
    if (st == SR1_OK)
        st = sr1__jsonl_truncate(s->out, (uint64_t)bytes);
    if (st == SR1_OK && json_object_set_new(o, "stopped", json_true()) != 0)
        st = sr1__fail_nomem("state");
    if (st == SR1_OK)
        st = sr1__json_save(o, 2, s->state);
    json_decref(o);
    return st;
}

/* Lines that were corrected or added by hand are not ours to cut. Older states do not
 * say. */
static sr1_status refuse_edited(const struct synth *s, const json_t *o, uint64_t bytes)
{
    const json_t *then = json_object_get(o, "end");
    uint64_t end = 0;

    SR1__TRY(sr1__file_end_hash(s->path, bytes, &end));
    if (!then || ((uint64_t)json_integer_value(then) == end &&
                  !((json_is_true(json_object_get(o, "finished")) ||
                     json_is_true(json_object_get(o, "stopped"))) &&
                    sr1__jsonl_size(s->out) > bytes)))
        return SR1_OK;
    return sr1__fail(SR1_E_STATE,
                     "%s has been changed by others since its last demonstration was "
                     "written; give another name, and join the files",
                     s->path);
}

static sr1_status resume_from_state(struct synth *s, const json_t *o)
{
    int64_t bytes = 0;

    if (!json_equal(s->settings, json_object_get(o, "settings")))
        return sr1__fail(SR1_E_STATE,
                         "%s: what is there was made with other settings, questions or "
                         "rewards, or by another policy; give the same, or another name",
                         s->state);
    SR1__TRY(sr1__json_get_int(o, "rows", &s->done));
    SR1__TRY(sr1__json_get_int(o, "bytes", &bytes));
    SR1__TRY(sr1__json_get_int(o, "trajectories", &s->report.trajectories));
    SR1__TRY(sr1__json_get_int(o, "written", &s->report.written));
    SR1__TRY(sr1__json_get_int(o, "below", &s->report.below));
    SR1__TRY(sr1__json_get_int(o, "unfit", &s->report.unfit));
    SR1__TRY(sr1__json_get_int(o, "excluded", &s->report.excluded));
    if (s->done < 0 || bytes < 0 || (uint64_t)bytes > sr1__jsonl_size(s->out))
        return sr1__fail(SR1_E_CORRUPT,
                         "%s: it does not fit the demonstrations; remove both files to "
                         "begin again",
                         s->state);
    SR1__TRY(refuse_edited(s, o, (uint64_t)bytes));
    s->report.resumed = s->done;
    SR1__TRY(sr1__jsonl_truncate(s->out, (uint64_t)bytes));
    return save_state(s); /* a kill from here on leaves lines of ours */
}

/* Older states have no time; with another the prompt is another. */
static sr1_status load_state(struct synth *s)
{
    json_t *o = NULL, *time;
    sr1_status st;

    SR1__TRY(sr1__json_load(&o, s->state, STATE_MAX));
    time = json_object_get(o, "prompt_time");
    if (json_is_integer(time))
        sr1__chat_set_time(s->rollout->tokenizer, json_integer_value(time));
    json_decref(s->settings);
    s->settings = NULL;
    st = settings_json(&s->settings, s);
    if (st == SR1_OK)
        st = resume_from_state(s, o);
    json_decref(o);
    return st;
}

static int has_bytes(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && st.st_size > 0;
}

/* A file that was there without a state is not ours to change. */
static sr1_status open_output(struct synth *s)
{
    struct sr1__buf name;

    sr1__buf_init(&name, 0);
    sr1__buf_fmt(&name, "%s.state", s->path);
    SR1__TRY(sr1__buf_finish(&name, "state", &s->state));
    if (sr1__path_exists(s->state)) {
        SR1__TRY(sr1__jsonl_open(&s->out, s->path));
        return load_state(s);
    }
    if (has_bytes(s->path))
        return sr1__fail(SR1_E_STATE,
                         "%s is there and was not begun by this; give another name",
                         s->path);
    SR1__TRY(sr1__jsonl_open(&s->out, s->path));
    return save_state(s);
}

/* ---- all of it ---- */

/* Rows under way at once in each process. */
static int32_t rows_at_once(const sr1_rollout *r)
{
    return r->server.ops ? 4 * r->server.n_slots : r->limits.max_rows;
}

static size_t chunk_size(const struct synth *s)
{
    int64_t n = rows_at_once(s->rollout) / s->o.samples;
    int64_t left = s->total - s->done;

    n = (n > 0 ? n : 1) * sr1__dist_size(s->dist);
    return (size_t)(n < left ? n : left);
}

/* What all ranks must be told alike; settings have the questions and the weights. */
static sr1_status compare_synth_calls(struct synth *s)
{
    sr1_status st;

    SR1__TRY(sr1__share_date(s->dist, s->rollout));
    st = settings_json(&s->settings, s);
    return sr1__work_same(s->dist, st, s->settings, (size_t)rows_at_once(s->rollout));
}

/* The first rank says what an earlier call did, and which time prompts show. */
static sr1_status share_progress(struct synth *s)
{
    struct {
        int64_t done, time;
        sr1_synth_report report;
    } at = {s->done, sr1__chat_time(s->rollout->tokenizer), s->report};

    SR1__TRY(sr1__dist_broadcast(s->dist, "what was done before", 0, &at, sizeof(at)));
    s->done = at.done;
    s->report = at.report;
    sr1__chat_set_time(s->rollout->tokenizer, at.time);
    return SR1_OK;
}

static sr1_status begin_synthesis(struct synth *s)
{
    sr1_status st = SR1_OK;

    SR1__TRY(compare_synth_calls(s));
    if (sr1__dist_rank(s->dist) == 0)
        st = open_output(s);
    s->begun = s->out && st == SR1_OK;
    SR1__TRY(sr1__dist_agree(s->dist, s->path, st));
    SR1__TRY(share_progress(s));
    s->total = sr1_dataset_count(s->data);
    if (s->o.max_rows > 0 && s->o.max_rows < s->total)
        s->total = s->o.max_rows;
    return sr1__dist_agree(s->dist, "rows",
                           sr1__rollout_filter_prompts(s->rollout, s->data, "questions",
                                                       s->total, &s->rows, &s->total));
}

static sr1_status synthesise_rows(struct synth *s)
{
    SR1__TRY(begin_synthesis(s));
    if (s->out && s->done >= s->total)
        SR1__TRY(save_state(s)); /* it is finished, as before */
    while (s->done < s->total) {
        size_t n = chunk_size(s);
        sr1_status st = synthesise_chunk(s, n);

        s->done += (int64_t)n;
        if (st == SR1_OK && s->out)
            st = save_state(s);
        SR1__TRY(sr1__dist_agree(s->dist, "demonstrations", st));
    }
    s->report.rows = s->done;
    return SR1_OK;
}

static const sr1_synth_options defaults = {.struct_size = sizeof(sr1_synth_options),
                                           .samples = 1,
                                           .per_question = 1,
                                           .min_reward = 1.0};

void sr1_synth_options_init(sr1_synth_options *options)
{
    sr1__struct_init(options, &defaults, sizeof(defaults));
}

static sr1_status check_synth_options(const sr1_synth_options *o)
{
    if (o->samples < 1 || o->per_question < 1 || o->max_rows < 0 ||
        !isfinite(o->min_reward))
        return sr1__fail(SR1_E_INVALID,
                         "synth: samples, per_question, max_rows or min_reward is out of "
                         "range");
    return SR1_OK;
}

sr1_status sr1_synthesise(const char *path, sr1_rollout *rollout, sr1_reward_set *rewards,
                          const sr1_dataset *data, const sr1_synth_options *options,
                          sr1_synth_report *report)
{
    struct synth s = {.rollout = rollout, .rewards = rewards, .data = data, .path = path};
    int64_t time;
    sr1_status st;

    if (!path || !rollout || !rewards || !data)
        return sr1__fail(SR1_E_INVALID,
                         "synth: path, rollout, rewards and dataset are required");
    s.o = defaults;
    SR1__TRY(sr1__struct_take(&s.o, sizeof(s.o), options,
                              SR1__STRUCT_END(sr1_synth_options, max_rows),
                              "synth options"));
    SR1__TRY(check_synth_options(&s.o));
    s.dist = sr1__ranks_dist(s.o.ranks);
    if (report)
        SR1__TRY(sr1__struct_check(report, "synth report"));
    sr1__life_hold(&rollout->life);
    time = sr1__chat_time(rollout->tokenizer);
    st = synthesise_rows(&s);
    if (st != SR1_OK && s.begun) {
        struct sr1__error first;

        sr1__error_save(&first, st);
        (void)mark_stopped(&s);
        st = sr1__error_raise(&first);
    }
    sr1__chat_set_time(rollout->tokenizer, time);
    sr1_rollout_free(rollout);
    if (st == SR1_OK && report)
        st = sr1__struct_give(report, &s.report, sizeof(s.report), "synth report");
    sr1__jsonl_close(s.out);
    sr1__free(s.rows);
    sr1__free(s.state);
    json_decref(s.settings);
    return st;
}
