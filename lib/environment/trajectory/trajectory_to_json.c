/* environment/trajectory/trajectory_to_json.c - a trajectory as one line of JSON.
 *
 * Every number that is a float is written as a real with 17 digits, so that it reads back
 * bit for bit (-0.0 too). A helper returns 0, or -1 without memory, as jansson does. */
#include "base/num.h"
#include "environment/trajectory/json_form.h"
#include "environment/trajectory/trajectory_layout.h"
#include "environment/trajectory/trajectory.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static int set_json_text(json_t *o, const char *key, const char *data, size_t len)
{
    return json_object_set_new(o, key, sr1__form_text_new(data, len));
}

static int set_bytes(json_t *o, const char *key, const struct sr1__owned_bytes *b)
{
    return set_json_text(o, key, b->data, b->len);
}

static int set_name(json_t *o, const char *key, const char *s)
{
    return set_json_text(o, key, s, strlen(s));
}

static int set_json_int(json_t *o, const char *key, int64_t v)
{
    return json_object_set_new(o, key, json_integer(v));
}

static int set_json_real(json_t *o, const char *key, double v)
{
    return json_object_set_new(o, key, json_real(v));
}

/* The number once it has been set, else null. */
static int set_optional(json_t *o, const char *key, int32_t has, double v)
{
    return json_object_set_new(o, key, has ? json_real(v) : json_null());
}

static int set_ints(json_t *o, const char *key, const int32_t *v, size_t n)
{
    json_t *a = json_array();
    int bad = json_object_set_new(o, key, a);

    for (size_t i = 0; !bad && i < n; i++)
        bad = json_array_append_new(a, json_integer(v[i]));
    return bad;
}

static int set_float_list(json_t *o, const char *key, const float *v, size_t n)
{
    json_t *a = json_array();
    int bad = json_object_set_new(o, key, a);

    for (size_t i = 0; !bad && i < n; i++)
        bad = json_array_append_new(a, json_real(v[i]));
    return bad;
}

/* A list under key whose items are filled by fill(t, i, item). */
typedef int (*fill_fn)(const sr1_trajectory *t, size_t i, json_t *item);

static int set_list(json_t *o, const char *key, const sr1_trajectory *t, size_t n,
                    fill_fn fill)
{
    json_t *a = json_array();
    int bad = json_object_set_new(o, key, a);

    for (size_t i = 0; !bad && i < n; i++) {
        json_t *item = json_object();

        bad = json_array_append_new(a, item) || fill(t, i, item);
    }
    return bad;
}

static int fill_step(const sr1_trajectory *t, size_t i, json_t *item)
{
    sr1_token_step step = {.struct_size = sizeof step};

    return sr1_trajectory_step(t, i, &step) != SR1_OK ||
           set_json_int(item, "token_id", step.token_id) ||
           set_json_text(item, "token_text", step.text, step.text_len) ||
           set_json_real(item, "log_prob", step.log_prob) ||
           set_json_int(item, "position", step.position) ||
           set_json_int(item, "turn", step.turn);
}

static int fill_segment(const sr1_trajectory *t, size_t i, json_t *item)
{
    const sr1_text_segment *s = &t->segments[i];
    const char *source =
        s->source == SR1_SOURCE_POLICY ? SR1__JSON_POLICY : SR1__JSON_ENVIRONMENT;

    return set_name(item, "source", source) || set_json_int(item, "turn", s->turn) ||
           set_json_int(item, "token_begin", (int64_t)s->token_begin) ||
           set_json_int(item, "token_count", (int64_t)s->token_count) ||
           set_json_int(item, "text_begin", (int64_t)s->text_begin) ||
           set_json_int(item, "text_len", (int64_t)s->text_len) ||
           set_json_int(item, "body_begin", (int64_t)s->body_begin) ||
           set_json_int(item, "body_len", (int64_t)s->body_len);
}

static int fill_search(const sr1_trajectory *t, size_t i, json_t *item)
{
    const struct sr1__action_record *s = &t->searches[i];
    json_t *ids = json_array();
    int bad = set_json_int(item, "turn", s->turn) ||
              set_bytes(item, "query", &s->query) ||
              set_json_int(item, "status", s->status) ||
              set_json_int(item, "hits", s->n_hits) ||
              set_json_real(item, "reward", s->reward) ||
              set_json_int(item, "success", s->success);

    bad |= json_object_set_new(item, "hit_ids", ids);
    for (int32_t k = 0; !bad && k < s->n_hit_ids; k++)
        bad = json_array_append_new(
            ids, sr1__form_text_new(s->hit_ids[k], strlen(s->hit_ids[k])));
    return bad;
}

static int set_reward_component_json(const sr1_trajectory *t, size_t i, json_t *item)
{
    const struct sr1__reward_component *p = &t->parts[i];

    return set_name(item, "name", p->name) ||
           (isnan(p->value) ? json_object_set_new(item, "value", json_null())
                            : set_json_real(item, "value", p->value)) ||
           set_json_real(item, "weight", p->weight);
}

static int set_ground_truths(json_t *o, const sr1_trajectory *t)
{
    json_t *a = json_array();
    int bad = json_object_set_new(o, "ground_truths", a);

    for (size_t i = 0; !bad && i < t->n_ground_truths; i++)
        bad = json_array_append_new(
            a, sr1__form_text_new(t->ground_truths[i].data, t->ground_truths[i].len));
    return bad;
}

static int set_message_json(const sr1_trajectory *t, size_t i, json_t *item)
{
    return set_bytes(item, "role", &t->history[2 * i]) ||
           set_bytes(item, "content", &t->history[2 * i + 1]);
}

/* The member is omitted if there is no value. */
static int set_history(json_t *o, const sr1_trajectory *t)
{
    return t->n_history ? set_list(o, "history", t, t->n_history, set_message_json) : 0;
}

static int set_row(json_t *o, const sr1_trajectory *t)
{
    size_t len;
    const char *row = sr1_trajectory_row_json(t, &len);

    return len ? set_json_text(o, "row", row, len) : 0;
}

/* Only of a copy. */
static int set_copy(json_t *o, const sr1_trajectory *t)
{
    return t->copy ? set_json_int(o, "copy", t->copy) : 0;
}

static int set_identity(json_t *o, const sr1_trajectory *t)
{
    char key[17];

    snprintf(key, sizeof key, "%016llx", (unsigned long long)t->group_key);
    return set_bytes(o, "query", &t->query) || set_bytes(o, "query_id", &t->query_id) ||
           set_json_int(o, "sample", t->sample) || set_copy(o, t) ||
           set_name(o, "group_key", key) ||
           set_bytes(o, "data_source", &t->data_source) || set_ground_truths(o, t) ||
           set_history(o, t) || set_row(o, t);
}

/* Members that people look for come first in the line, long lists last. */
static int set_outcome(json_t *o, const sr1_trajectory *t)
{
    return set_bytes(o, "generated_text", &t->text) ||
           set_bytes(o, "final_answer", &t->answer) ||
           set_name(o, "stop_reason", sr1_stop_reason_name(t->stop_reason)) ||
           set_optional(o, "reward", t->has_reward, t->reward) ||
           set_list(o, "reward_parts", t, t->n_parts, set_reward_component_json) ||
           set_optional(o, "advantage", t->has_advantage, t->advantage) ||
           set_list(o, "searches", t, t->n_searches, fill_search);
}

/* Only where not all tokens are of weights_version: [[first policy token, version], ...].
 */
static int set_versions(json_t *o, const sr1_trajectory *t)
{
    json_t *list;

    if (t->n_versions == 0)
        return 0;
    list = json_array();
    for (size_t i = 0; list && i < t->n_versions; i++)
        if (json_array_append_new(list,
                                  json_pack("[I, I]", (json_int_t)t->versions[i].begin,
                                            (json_int_t)t->versions[i].version)) != 0) {
            json_decref(list);
            return -1;
        }
    return json_object_set_new(o, "weights_versions", list);
}

static int set_sampling(json_t *o, const sr1_trajectory *t)
{
    return set_json_real(o, "temperature", t->temperature) ||
           set_json_real(o, "top_p", t->top_p) || set_json_int(o, "top_k", t->top_k) ||
           set_json_int(o, "weights_version", t->weights_version) || set_versions(o, t) ||
           (t->begins_in_thought && set_json_int(o, "begins_in_thought", 1));
}

static int set_counts(json_t *o, const sr1_trajectory *t)
{
    return set_json_int(o, "prompt_tokens", (int64_t)t->n_prompt) ||
           set_json_int(o, "policy_tokens", (int64_t)t->n_policy) ||
           set_list(o, "segments", t, t->n_segments, fill_segment);
}

static int set_tokens(json_t *o, const sr1_trajectory *t)
{
    return set_counts(o, t) || set_ints(o, "full_input_ids", t->ids, t->n_tokens) ||
           set_ints(o, "generated_positions", t->policy_positions, t->n_policy) ||
           set_list(o, "token_steps", t, t->n_policy, fill_step);
}

static int set_column_members(json_t *o, const sr1_trajectory *t)
{
    int bad = 0;

    for (int32_t c = 0; c < SR1_COLUMN_COUNT && !bad; c++)
        if (t->credit[c])
            bad = set_float_list(o, sr1_column_name(c), t->credit[c], t->n_policy);
    return bad;
}

sr1_status sr1_trajectory_to_json(const sr1_trajectory *t, char **text, size_t *n)
{
    struct sr1__buf b;
    sr1_status status;
    json_t *o;

    SR1__REQUIRE(t && text && n, "trajectory as JSON: trajectory, text and n");
    o = json_object();
    sr1__buf_init(&b, 0);
    if (set_identity(o, t) || set_outcome(o, t) || set_sampling(o, t) ||
        set_tokens(o, t) || set_column_members(o, t))
        status = sr1__fail_nomem("trajectory as JSON");
    else
        status = sr1__json_dump(o, 0, &b);
    json_decref(o);
    if (status != SR1_OK) {
        sr1__buf_free(&b);
        return status;
    }
    *n = b.len;
    *text = b.data;
    return SR1_OK;
}

/* ---- one line of a run's record ---- */

static void add_ints(struct sr1__buf *b, const char *key, const int32_t *v, size_t n)
{
    sr1__buf_fmt(b, ",\"%s\":[", key);
    for (size_t i = 0; i < n; i++)
        sr1__buf_fmt(b, "%s%d", i ? "," : "", (int)v[i]);
    sr1__buf_char(b, ']');
}

static void add_floats(struct sr1__buf *b, const char *key, const float *v, size_t n)
{
    char number[32];

    sr1__buf_fmt(b, ",\"%s\":[", key);
    for (size_t i = 0; i < n; i++) {
        sr1__format_float(v[i], number);
        sr1__buf_fmt(b, "%s%s", i ? "," : "", number);
    }
    sr1__buf_char(b, ']');
}

static sr1_status append_text_member(struct sr1__buf *b, const char *data, size_t len)
{
    json_t *j = sr1__form_text_new(data, len);
    sr1_status status = j ? sr1__json_dump(j, 0, b) : sr1__fail_nomem("text");

    json_decref(j);
    return status;
}

/* For each token the values that the rest of the line does not have: its text and its
 * log-prob. */
static sr1_status append_token_steps(struct sr1__buf *b, const sr1_trajectory *t)
{
    char number[32];

    sr1__buf_str(b, ",\"token_steps\":{\"token_text\":[");
    for (size_t i = 0; i < t->n_policy; i++) {
        sr1_token_step step = {.struct_size = sizeof step};

        SR1__TRY(sr1_trajectory_step(t, i, &step));
        sr1__buf_str(b, i ? "," : "");
        SR1__TRY(append_text_member(b, step.text, step.text_len));
    }
    sr1__buf_str(b, "],\"log_prob\":[");
    for (size_t i = 0; i < t->n_policy; i++) {
        sr1_token_step step = {.struct_size = sizeof step};

        SR1__TRY(sr1_trajectory_step(t, i, &step));
        sr1__format_float((float)step.log_prob, number);
        sr1__buf_fmt(b, "%s%s", i ? "," : "", number);
    }
    sr1__buf_str(b, "]}");
    return SR1_OK;
}

static sr1_status add_short_members(struct sr1__buf *b, const sr1_trajectory *t)
{
    json_t *o = json_object();
    sr1_status status;

    if (set_identity(o, t) || set_outcome(o, t) || set_sampling(o, t) || set_counts(o, t))
        status = sr1__fail_nomem("trajectory as JSON");
    else
        status = sr1__json_dump(o, 0, b);
    json_decref(o);
    return status;
}

sr1_status sr1__trajectory_to_line(const sr1_trajectory *t, int64_t step,
                                   struct sr1__buf *b)
{
    size_t open;

    sr1__buf_fmt(b, "{\"step\":%lld", (long long)step);
    open = b->len;
    SR1__TRY(add_short_members(b, t));
    SR1__TRY(sr1__buf_status(b, "trajectory as JSON"));
    b->data[open] = ','; /* for '{', */
    b->len--;            /* and without '}': one object */
    add_ints(b, "full_input_ids", t->ids, t->n_tokens);
    add_ints(b, "generated_positions", t->policy_positions, t->n_policy);
    SR1__TRY(append_token_steps(b, t));
    for (int32_t c = 0; c < SR1_COLUMN_COUNT; c++)
        if (t->credit[c])
            add_floats(b, sr1_column_name(c), t->credit[c], t->n_policy);
    sr1__buf_char(b, '}');
    return sr1__buf_status(b, "trajectory as JSON");
}
