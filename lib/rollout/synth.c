/* rollout/synth.c - a policy's own good trajectories as demonstrations (data/demo.h).
 *
 * Rows go in chunks. After each chunk the state file beside the output says how far it
 * is: rows done and bytes written; what a stop left behind that is cut off. */
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

/* ---- one demonstration ---- */

/* A border of messages stands around a result; rollouts and training put it there anew.
 */
static void strip_border(const struct sr1__chat_border *b, const char **text, size_t *n)
{
    const char *heads[] = {b->close, b->close + b->end_len};
    size_t tail = strlen(b->open);

    for (size_t i = 0; i < 2; i++) {
        size_t k = strlen(heads[i]);

        if (k <= *n && memcmp(*text, heads[i], k) == 0) {
            *text += k;
            *n -= k;
            break;
        }
    }
    if (tail <= *n && memcmp(*text + *n - tail, b->open, tail) == 0)
        *n -= tail;
}

/* NULL without memory, or where the text is none that JSON takes. */
static json_t *segment_json(const sr1_rollout *r, const sr1_trajectory *t,
                            const sr1_text_segment *s)
{
    const char *text = sr1_trajectory_generated_text(t, NULL) + s->text_begin;
    int policy = s->source == SR1_SOURCE_POLICY;
    size_t n = s->text_len;

    if (!policy && sr1__env_protocol(r->env)->chat)
        strip_border(&r->border, &text, &n);
    return json_pack("{s:s, s:s%}", "source", policy ? "policy" : "environment", "text",
                     text, n);
}

/* Is it fit to be imitated? It answered, and the protocol never had to correct it. */
static int is_fit(const sr1_rollout *r, const sr1_trajectory *t)
{
    size_t len, n = sr1_trajectory_segment_count(t);
    const char *text = sr1_trajectory_generated_text(t, &len);
    size_t begin, body;

    if (sr1_trajectory_stop_reason(t) != SR1_STOP_ANSWER ||
        memchr(text, '\0', len) != NULL)
        return 0;
    for (size_t i = 0; i < n; i++) {
        sr1_text_segment s = {.struct_size = sizeof(s)};

        if (sr1_trajectory_segment(t, i, &s) != SR1_OK)
            return 0;
        if (s.source == SR1_SOURCE_ENVIRONMENT &&
            sr1__observation_split(sr1__env_protocol(r->env), text + s.text_begin,
                                   s.text_len, &begin, &body) != SR1_OK)
            return 0;
    }
    return 1;
}

static json_t *segments_json(const sr1_rollout *r, const sr1_trajectory *t)
{
    json_t *list = json_array();

    for (size_t i = 0; list && i < sr1_trajectory_segment_count(t); i++) {
        sr1_text_segment s = {.struct_size = sizeof(s)};

        if (sr1_trajectory_segment(t, i, &s) != SR1_OK ||
            json_array_append_new(list, segment_json(r, t, &s)) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

static json_t *demo_json(const sr1_rollout *r, const sr1_trajectory *t)
{
    size_t n;
    const char *question = sr1_trajectory_query(t, &n);
    json_t *o = json_pack("{s:s%, s:o}", "question", question, n, "segments",
                          segments_json(r, t));

    if (!o || json_object_set_new(o, "id", json_string(sr1_trajectory_query_id(t))) ||
        json_object_set_new(o, "sample", json_integer(sr1_trajectory_sample(t))) ||
        json_object_set_new(o, "reward", sr1__json_number(sr1_trajectory_reward(t))) ||
        json_object_set_new(o, "data_source",
                            json_string(sr1_trajectory_data_source(t))) ||
        (r->remote &&
         json_object_set_new(o, "model",
                             json_string(sr1_openai_model(r->remote->client))))) {
        json_decref(o);
        return NULL;
    }
    return o;
}

sr1_status sr1_rollout_demonstration(const sr1_rollout *r, const sr1_trajectory *t,
                                     char **text, size_t *n)
{
    struct sr1__buf b;
    json_t *o;
    sr1_status st;

    if (!r || !t || !text)
        return sr1__fail(SR1_E_INVALID,
                         "demonstration: rollout, trajectory and text are required");
    if (!is_fit(r, t))
        return sr1__fail(SR1_E_UNSUPPORTED,
                         "the trajectory has no answer, or the protocol corrected it");
    o = demo_json(r, t);
    if (!o)
        return sr1__fail_nomem("demonstration");
    sr1__buf_init(&b, 0);
    st = sr1__json_dump(o, 0, &b);
    json_decref(o);
    if (st == SR1_OK) {
        if (n)
            *n = b.len;
        *text = sr1__buf_take(&b);
        st = *text ? SR1_OK : sr1__fail_nomem("demonstration");
    }
    sr1__buf_free(&b);
    return st;
}

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
    size_t n, made;
    sr1_row **rows;              /* [n] */
    sr1_query *queries;          /* [n] */
    const char ***answers;       /* [n] */
    sr1_trajectory **t;          /* [made], question by question */
    const sr1_trajectory **kept; /* [made] those that can be scored */
};

static void chunk_free(struct chunk *c)
{
    for (size_t i = 0; i < c->n; i++) {
        if (c->rows)
            sr1_row_free(c->rows[i]);
        if (c->answers)
            sr1__free((void *)c->answers[i]);
    }
    for (size_t i = 0; c->t && i < c->made; i++)
        sr1_trajectory_free(c->t[i]);
    sr1__free(c->rows);
    sr1__free(c->queries);
    sr1__free((void *)c->answers);
    sr1__free(c->t);
    sr1__free((void *)c->kept);
}

static sr1_status read_row(struct chunk *c, const struct synth *s, size_t i)
{
    sr1_query *q = &c->queries[i];
    size_t n;

    SR1__TRY(sr1_dataset_read(s->data, s->done + (int64_t)i, &c->rows[i]));
    n = sr1_row_answer_count(c->rows[i]);
    c->answers[i] = sr1__calloc(n + 1, sizeof(char *));
    if (!c->answers[i])
        return sr1__fail_nomem("gold answers");
    for (size_t k = 0; k < n; k++)
        c->answers[i][k] = sr1_row_answer(c->rows[i], k);
    *q = (sr1_query){.struct_size = sizeof(*q),
                     .text = sr1_row_question(c->rows[i]),
                     .text_len = strlen(sr1_row_question(c->rows[i])),
                     .id = sr1_row_id(c->rows[i]),
                     .answers = c->answers[i],
                     .n_answers = n,
                     .data_source = sr1_row_data_source(c->rows[i])};
    return SR1_OK;
}

static sr1_status chunk_read(struct chunk *c, const struct synth *s, size_t n)
{
    *c = (struct chunk){.n = n, .made = n * (size_t)s->o.samples};
    c->rows = sr1__calloc(n, sizeof(sr1_row *));
    c->queries = sr1__calloc(n, sizeof(*c->queries));
    c->answers = sr1__calloc(n, sizeof(char **));
    c->t = sr1__calloc(c->made, sizeof(sr1_trajectory *));
    c->kept = sr1__calloc(c->made, sizeof(sr1_trajectory *));
    if (!c->rows || !c->queries || !c->answers || !c->t || !c->kept)
        return sr1__fail_nomem("questions");
    for (size_t i = 0; i < n; i++)
        SR1__TRY(read_row(c, s, i));
    return SR1_OK;
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

    return sr1_rollout_generate(s->rollout, c->queries, c->n, &o, c->t);
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
        s->report.excluded += sr1__trajectory_excluded(c->t[i]);
        if (!sr1__trajectory_excluded(c->t[i]))
            scored[n++] = c->t[i];
    }
    st = sr1_reward_set_apply(s->rewards, scored, n);
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
    json_t *demo = demo_json(s->rollout, t);
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
        if (!is_fit(s->rollout, t))
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

/* What must be the same for a work to be gone on with. */
static json_t *settings_json(const struct synth *s)
{
    return json_pack("{s:I, s:i, s:i, s:I, s:i, s:f}", "questions",
                     (json_int_t)sr1_dataset_count(s->data), "samples", (int)s->o.samples,
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

    json_decref(settings);
    if (!same)
        return sr1__fail(SR1_E_STATE,
                         "%s: what is there was made with other settings; give the same, "
                         "or another name",
                         s->state);
    SR1__TRY(sr1__json_get_int(o, "rows", &s->done));
    SR1__TRY(sr1__json_get_int(o, "bytes", &bytes));
    SR1__TRY(sr1__json_get_int(o, "trajectories", &s->report.trajectories));
    SR1__TRY(sr1__json_get_int(o, "written", &s->report.written));
    SR1__TRY(sr1__json_get_int(o, "below", &s->report.below));
    SR1__TRY(sr1__json_get_int(o, "unfit", &s->report.unfit));
    SR1__TRY(sr1__json_get_int(o, "excluded", &s->report.excluded));
    if (s->done < 0 || bytes < 0 || (uint64_t)bytes > sr1__jsonl_size(s->out))
        return sr1__fail(SR1_E_CORRUPT, "%s: it does not fit the demonstrations",
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
