/* rollout/synth.c - a policy's own good trajectories as demonstrations (data/demo.h).
 *
 * Rows go in chunks. After each chunk the state file beside the output says how far it
 * is: rows done and bytes written; what a stop left behind that is cut off. */
#include "rollout/asked.h"
#include "rollout/demonstration.h"
#include "rollout/remote.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/struct.h"
#include "data/jsonl.h"
#include "trajectory/trajectory.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- the work ---- */

struct synth {
    sr1_rollout *rollout;
    sr1_reward_set *rewards;
    const sr1_dataset *data;
    sr1_synth_options o;
    struct sr1__jsonl *out;
    char *state; /* path */
    int64_t total, done, tokens;
    sr1_synth_report report;
};

/* Questions of a chunk, and what was made of them. */
struct chunk {
    size_t made;
    struct sr1__asked asked;
    sr1_trajectory **t;          /* [made], question by question */
    const sr1_trajectory **kept; /* [made] those that can be scored */
};

static void chunk_free(struct chunk *c)
{
    for (size_t i = 0; c->t && i < c->made; i++)
        sr1_trajectory_free(c->t[i]);
    sr1__free(c->t);
    sr1__free((void *)c->kept);
    sr1__asked_free(&c->asked);
}

static sr1_status chunk_read(struct chunk *c, const struct synth *s, size_t n)
{
    *c = (struct chunk){.made = n * (size_t)s->o.samples};
    c->t = sr1__calloc(c->made, sizeof(sr1_trajectory *));
    c->kept = sr1__calloc(c->made, sizeof(sr1_trajectory *));
    if (!c->t || !c->kept)
        return sr1__fail_nomem("questions");
    return sr1__asked_read(&c->asked, s->data, NULL, s->done, n);
}

static sr1_status forward_progress(void *user, int64_t finished, int64_t total,
                                   int64_t tokens)
{
    const struct synth *s = user;

    (void)total;
    return s->o.progress(s->o.user, s->done * s->o.samples + finished,
                         s->total * s->o.samples, s->tokens + tokens);
}

static sr1_status roll_out(struct synth *s, struct chunk *c)
{
    sr1_rollout_options o = {.struct_size = sizeof(o),
                             .group_size = s->o.samples,
                             .greedy = s->o.greedy,
                             .seed = s->o.seed,
                             .user = s,
                             .progress = s->o.progress ? forward_progress : NULL};

    return sr1_rollout_generate(s->rollout, c->asked.queries, c->asked.n, &o, c->t);
}

static sr1_status reward(struct synth *s, struct chunk *c)
{
    sr1_trajectory **scored = sr1__calloc(c->made, sizeof(*scored));
    size_t n = 0;
    sr1_status st;

    if (!scored)
        return sr1__fail_nomem("trajectories");
    for (size_t i = 0; i < c->made; i++) {
        s->report.trajectories++;
        s->tokens += (int64_t)sr1_trajectory_policy_count(c->t[i]);
        if (!sr1__trajectory_excluded(c->t[i]))
            scored[n++] = c->t[i];
    }
    st = sr1_reward_set_apply(s->rewards, scored, n);
    for (size_t i = 0; i < c->made; i++) /* those whose reward could not be had too */
        s->report.excluded += sr1__trajectory_excluded(c->t[i]);
    sr1__free(scored);
    return st;
}

/* ---- choosing and writing ---- */

/* Best reward first, then the first made. */
static int by_reward(const void *a, const void *b)
{
    const sr1_trajectory *x = *(const sr1_trajectory *const *)a;
    const sr1_trajectory *y = *(const sr1_trajectory *const *)b;
    double d = sr1_trajectory_reward(y) - sr1_trajectory_reward(x);

    return d != 0.0 ? (d > 0.0 ? 1 : -1)
                    : sr1_trajectory_sample(x) - sr1_trajectory_sample(y);
}

static sr1_status write_one(struct synth *s, const sr1_trajectory *t)
{
    json_t *demo = sr1__demonstration_json(s->rollout, t);
    sr1_status st =
        demo ? sr1__jsonl_add(s->out, demo) : sr1__fail_nomem("demonstration");

    json_decref(demo);
    s->report.written += st == SR1_OK;
    return st;
}

/* Of one question's trajectories. */
static sr1_status write_best(struct synth *s, struct chunk *c, size_t question)
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
    qsort((void *)c->kept, n, sizeof(*c->kept), by_reward);
    for (size_t k = 0; k < n && (int32_t)k < s->o.per_question; k++)
        SR1__TRY(write_one(s, c->kept[k]));
    return SR1_OK;
}

static sr1_status run_chunk(struct synth *s, size_t n)
{
    struct chunk c;
    sr1_status st = chunk_read(&c, s, n);

    if (st == SR1_OK)
        st = roll_out(s, &c);
    if (st == SR1_OK)
        st = reward(s, &c);
    for (size_t i = 0; i < n && st == SR1_OK; i++)
        st = write_best(s, &c, i);
    chunk_free(&c);
    return st;
}

/* ---- the state ---- */

/* The questions by their number and the ids of the first and the last. NULL without
 * memory, or where they cannot be read. */
static json_t *questions_json(const sr1_dataset *data)
{
    int64_t n = sr1_dataset_count(data), ends[2] = {0, n - 1};
    json_t *list = json_pack("[I]", (json_int_t)n);

    for (size_t i = 0; list && i < 2; i++) {
        sr1_row *row = NULL;
        int bad = sr1_dataset_read(data, ends[i], &row) != SR1_OK ||
                  json_array_append_new(list, json_string(sr1_row_id(row))) != 0;

        sr1_row_free(row);
        if (bad) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

static json_t *rewards_json(const sr1_reward_set *rewards)
{
    json_t *list = json_array();

    for (size_t i = 0; list && i < sr1_reward_set_count(rewards); i++)
        (void)json_array_append_new(list, json_string(sr1_reward_set_name(rewards, i)));
    return list;
}

/* Who answers, and how. */
static json_t *policy_json(const sr1_rollout *r)
{
    const char *server = r->remote ? sr1_openai_model(r->remote->client) : "";

    return json_pack("{s:s, s:s, s:s, s:f, s:f, s:i, s:I, s:i}", "server", server,
                     "protocol", sr1__env_protocol(r->env)->name, "environment",
                     sr1_env_name(r->env), "temperature", r->sampling.temperature,
                     "top_p", r->sampling.top_p, "top_k", (int)r->sampling.top_k,
                     "max_tokens", (json_int_t)r->limits.max_tokens, "max_turns",
                     (int)r->limits.max_turns);
}

/* What must be the same for a work to be gone on with. NULL without memory. */
static json_t *settings_json(const struct synth *s)
{
    return json_pack("{s:o, s:o, s:o, s:i, s:i, s:I, s:i, s:f}", "questions",
                     questions_json(s->data), "policy", policy_json(s->rollout),
                     "rewards", rewards_json(s->rewards), "samples", (int)s->o.samples,
                     "greedy", (int)s->o.greedy, "seed", (json_int_t)s->o.seed,
                     "per_question", (int)s->o.per_question, "min_reward",
                     s->o.min_reward);
}

static sr1_status save_state(const struct synth *s)
{
    const sr1_synth_report *r = &s->report;
    json_t *o = json_pack("{s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "settings",
                          settings_json(s), "rows", (json_int_t)s->done, "bytes",
                          (json_int_t)sr1__jsonl_size(s->out), "trajectories",
                          (json_int_t)r->trajectories, "written", (json_int_t)r->written,
                          "below", (json_int_t)r->below, "unfit", (json_int_t)r->unfit,
                          "excluded", (json_int_t)r->excluded);
    sr1_status st = o ? sr1__json_save(o, 2, s->state) : sr1__fail_nomem("state");

    json_decref(o);
    return st;
}

static sr1_status take_state(struct synth *s, const json_t *o)
{
    json_t *settings = settings_json(s);
    int same = json_equal(settings, json_object_get(o, "settings"));
    int64_t bytes = 0;

    if (!settings)
        return sr1__fail_nomem("state");
    json_decref(settings);
    if (!same)
        return sr1__fail(SR1_E_STATE,
                         "%s: what is there was made with other settings, questions or "
                         "rewards; give the same, or another name",
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
    s->report.resumed = s->done;
    return sr1__jsonl_truncate(s->out, (uint64_t)bytes);
}

#define STATE_MAX ((size_t)1 << 16)

static sr1_status load_state(struct synth *s)
{
    json_t *o = NULL;
    sr1_status st;

    SR1__TRY(sr1__json_load(&o, s->state, STATE_MAX));
    st = take_state(s, o);
    json_decref(o);
    return st;
}

static int has_bytes(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && st.st_size > 0;
}

/* A file that was there without a state is not ours to change. */
static sr1_status open_output(struct synth *s, const char *path)
{
    struct sr1__buf name;

    sr1__buf_init(&name, 0);
    sr1__buf_fmt(&name, "%s.state", path);
    s->state = sr1__buf_take(&name);
    if (!s->state) {
        sr1__buf_free(&name);
        return sr1__fail_nomem("state");
    }
    if (sr1__path_exists(s->state)) {
        SR1__TRY(sr1__jsonl_open(&s->out, path));
        return load_state(s);
    }
    if (has_bytes(path))
        return sr1__fail(SR1_E_STATE,
                         "%s is there and was not begun by this; give another name",
                         path);
    SR1__TRY(sr1__jsonl_open(&s->out, path));
    return save_state(s);
}

/* ---- all of it ---- */

static size_t chunk_size(const struct synth *s)
{
    const sr1_rollout *r = s->rollout;
    int32_t at_once =
        r->remote ? 4 * sr1__pool_threads(r->remote->pool) : r->limits.max_rows;
    int64_t n = at_once / s->o.samples;
    int64_t left = s->total - s->done;

    n = n > 0 ? n : 1;
    return (size_t)(n < left ? n : left);
}

static sr1_status work(struct synth *s, const char *path)
{
    SR1__TRY(open_output(s, path));
    s->total = sr1_dataset_count(s->data);
    if (s->o.max_rows > 0 && s->o.max_rows < s->total)
        s->total = s->o.max_rows;
    while (s->done < s->total) {
        size_t n = chunk_size(s);

        SR1__TRY(run_chunk(s, n));
        s->done += (int64_t)n;
        SR1__TRY(save_state(s));
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
    sr1__struct_init(options, &defaults, SR1__STRUCT_END(sr1_synth_options, user));
}

static sr1_status check(const sr1_synth_options *o)
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
    struct synth s = {.rollout = rollout, .rewards = rewards, .data = data};
    sr1_status st;

    if (!path || !rollout || !rewards || !data)
        return sr1__fail(SR1_E_INVALID,
                         "synth: path, rollout, rewards and dataset are required");
    s.o = defaults;
    SR1__TRY(sr1__struct_take(&s.o, sizeof(s.o), options,
                              SR1__STRUCT_END(sr1_synth_options, max_rows),
                              "synth options"));
    SR1__TRY(check(&s.o));
    if (report)
        SR1__TRY(sr1__struct_check(report, "synth report"));
    st = work(&s, path);
    if (st == SR1_OK && report)
        st = sr1__struct_give(report, &s.report, sizeof(s.report), "synth report");
    sr1__jsonl_close(s.out);
    sr1__free(s.state);
    return st;
}
