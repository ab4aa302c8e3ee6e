/* environment/trajectory/trajectory_from_json.c - read the JSON form back.
 *
 * The builder builds the trajectory from ids, segments and steps; then the redundant
 * members (positions, text, places of segments) must agree with the result. */
#include "environment/trajectory/json_form.h"

#include "base/mem.h"
#include "base/messages.h"
#include "environment/trajectory/builder.h"
#include "environment/trajectory/trajectory_layout.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* null: *has 0. */
static sr1_status get_optional(const json_t *o, const char *key, int *has, double *out)
{
    *has = !json_is_null(json_object_get(o, key));
    *out = 0.0;
    return *has ? sr1__json_get_num(o, key, out) : SR1_OK;
}

static sr1_status to_float(double v, const char *key, float *out)
{
    if (fabs(v) > (double)FLT_MAX)
        return sr1__fail(SR1_E_PARSE, "'%s' does not fit in a float", key);
    *out = (float)v;
    return SR1_OK;
}

/* A list of 32-bit integers; free *out with sr1__free. */
static sr1_status get_json_ids(const json_t *o, const char *key, int32_t **out, size_t *n)
{
    const json_t *a;
    int32_t *v;

    SR1__TRY(sr1__form_get_array(o, key, &a));
    SR1__CALLOC(v, json_array_size(a), key);
    for (size_t i = 0; i < json_array_size(a); i++) {
        const json_t *item = json_array_get(a, i);
        json_int_t id = json_integer_value(item);

        if (!json_is_integer(item) || id < 0 || id > INT32_MAX) {
            sr1__free(v);
            return sr1__fail(SR1_E_PARSE, "'%s': item %zu is not an id", key, i);
        }
        v[i] = (int32_t)id;
    }
    *out = v;
    *n = json_array_size(a);
    return SR1_OK;
}

/* ---- building ---- */

struct json_reader {
    const json_t *o;
    struct sr1__trajectory_builder *b;
    int32_t *ids;
    size_t n_ids;
    size_t n_prompt;
    size_t at;                       /* next id */
    const json_t *steps;             /* an object each, or: */
    const json_t *texts, *log_probs; /* of all steps, in lines of a run */
    size_t n_steps;
    size_t step; /* next step */
    struct sr1__str text;
};

static sr1_status collect_texts(const json_t *a, const char *key, const char **texts,
                                size_t *lens)
{
    for (size_t i = 0; i < json_array_size(a); i++) {
        const json_t *item = json_array_get(a, i);

        if (!json_is_string(item))
            return sr1__fail(SR1_E_PARSE, "'%s': item %zu is not a string", key, i);
        texts[i] = json_string_value(item);
        lens[i] = json_string_length(item);
    }
    return SR1_OK;
}

/* The gold answers, and with them the context is whole. */
static sr1_status read_trajectory_truths(struct json_reader *r,
                                         struct sr1__trajectory_context *c)
{
    const json_t *a;
    const char **texts;
    size_t *lens;
    sr1_status status;

    SR1__TRY(sr1__form_get_array(r->o, "ground_truths", &a));
    texts = sr1__calloc(json_array_size(a), sizeof *texts);
    lens = sr1__calloc(json_array_size(a), sizeof *lens);
    status = texts && lens ? collect_texts(a, "ground_truths", texts, lens)
                           : sr1__fail_nomem("gold answers");
    if (status == SR1_OK) {
        c->ground_truths = texts;
        c->ground_truth_lens = lens;
        c->n_ground_truths = json_array_size(a);
        status = sr1__trajectory_builder_context(r->b, c);
    }
    sr1__free(texts);
    sr1__free(lens);
    return status;
}

static sr1_status read_context(struct json_reader *r)
{
    struct sr1__trajectory_context c = {0};

    SR1__TRY(sr1__json_get_num(r->o, "temperature", &c.temperature));
    SR1__TRY(sr1__json_get_num(r->o, "top_p", &c.top_p));
    SR1__TRY(sr1__form_get_i32(r->o, "top_k", &c.top_k));
    SR1__TRY(sr1__json_get_int(r->o, "weights_version", &c.weights_version));
    SR1__TRY(sr1__form_get_name(r->o, "data_source", &c.data_source));
    if (json_object_get(r->o, "begins_in_thought"))
        SR1__TRY(sr1__form_get_i32(r->o, "begins_in_thought", &c.begins_in_thought));
    return read_trajectory_truths(r, &c);
}

/* A string that sr1__json_form_decode_hex has made plain. */
static sr1_status item_text(const json_t *a, const char *key, size_t i,
                            struct sr1__str *out)
{
    const json_t *item = json_array_get(a, i);

    if (!json_is_string(item))
        return sr1__fail(SR1_E_PARSE, "'%s': item %zu is not a string", key, i);
    out->s = json_string_value(item);
    out->n = json_string_length(item);
    return SR1_OK;
}

static sr1_status read_short_step(struct json_reader *r, int32_t turn)
{
    const json_t *log_prob = json_array_get(r->log_probs, r->step);
    struct sr1__str text = {"", 0};
    float lp = 0.0f;

    if (r->step >= r->n_steps)
        return sr1__fail(SR1_E_CORRUPT, "there are too few");
    if (!json_is_number(log_prob))
        return sr1__fail(SR1_E_PARSE, "'log_prob': item %zu is not a number", r->step);
    SR1__TRY(to_float(json_number_value(log_prob), "log_prob", &lp));
    SR1__TRY(item_text(r->texts, "token_text", r->step, &text));
    r->step++;
    return sr1__trajectory_builder_policy(r->b, r->ids[r->at++], lp, turn, text.s,
                                          text.n);
}

static sr1_status read_step(struct json_reader *r, int32_t turn)
{
    const json_t *step = json_array_get(r->steps, r->step);
    int32_t id, position;
    double log_prob;
    float lp = 0.0f;
    struct sr1__str text;

    SR1__TRY(sr1__form_get_i32(step, "token_id", &id));
    SR1__TRY(sr1__form_get_i32(step, "position", &position));
    SR1__TRY(sr1__json_get_num(step, "log_prob", &log_prob));
    SR1__TRY(to_float(log_prob, "log_prob", &lp));
    SR1__TRY(sr1__form_get_text(step, "token_text", &text));
    if (position < 0 || (size_t)position != r->at || id != r->ids[r->at])
        return sr1__fail(SR1_E_CORRUPT, "step %zu does not agree with 'full_input_ids'",
                         r->step);
    r->step++;
    r->at++;
    return sr1__trajectory_builder_policy(r->b, id, lp, turn, text.s, text.n);
}

static sr1_status read_steps(struct json_reader *r, int32_t turn, size_t n)
{
    for (size_t i = 0; i < n; i++)
        SR1__TRY(sr1__context(r->steps ? read_step(r, turn) : read_short_step(r, turn),
                              "token_steps"));
    return SR1_OK;
}

static sr1_status read_block_json(struct json_reader *r, const json_t *segment,
                                  int32_t turn, size_t n)
{
    size_t begin, len, body_begin, body_len;

    SR1__TRY(sr1__form_get_size(segment, "text_begin", &begin));
    SR1__TRY(sr1__form_get_size(segment, "text_len", &len));
    SR1__TRY(sr1__form_get_size(segment, "body_begin", &body_begin));
    SR1__TRY(sr1__form_get_size(segment, "body_len", &body_len));
    if (begin > r->text.n || len > r->text.n - begin || body_begin < begin)
        return sr1__fail(SR1_E_CORRUPT, "is not within 'generated_text'");
    SR1__TRY(sr1__trajectory_builder_environment(r->b, r->ids + r->at, n, turn,
                                                 r->text.s + begin, len,
                                                 body_begin - begin, body_len));
    r->at += n;
    return SR1_OK;
}

static sr1_status read_segment(struct json_reader *r, const json_t *segment)
{
    const char *source;
    int32_t turn;
    size_t n;

    SR1__TRY(sr1__form_get_name(segment, "source", &source));
    SR1__TRY(sr1__form_get_i32(segment, "turn", &turn));
    SR1__TRY(sr1__form_get_size(segment, "token_count", &n));
    if (n == 0 || n > r->n_ids - r->at)
        return sr1__fail(SR1_E_CORRUPT, "'token_count' does not fit 'full_input_ids'");
    if (strcmp(source, SR1__JSON_POLICY) == 0)
        return read_steps(r, turn, n);
    if (strcmp(source, SR1__JSON_ENVIRONMENT) == 0)
        return read_block_json(r, segment, turn, n);
    return sr1__fail(SR1_E_PARSE, "'source' is neither policy nor environment");
}

/* Lines written before these members existed do not have them. */
static sr1_status read_action_reward(struct json_reader *r, const json_t *search)
{
    double reward = 0.0;
    int32_t success = 0;
    int has = json_object_get(search, "reward") != NULL;

    if (has)
        SR1__TRY(get_optional(search, "reward", &has, &reward));
    if (json_object_get(search, "success"))
        SR1__TRY(sr1__form_get_i32(search, "success", &success));
    return sr1__trajectory_builder_action_reward(r->b, has ? reward : 0.0, success);
}

static sr1_status read_action(struct json_reader *r, const json_t *search)
{
    const char *hit_ids[SR1_TRAJECTORY_MAX_HIT_IDS];
    size_t lens[SR1_TRAJECTORY_MAX_HIT_IDS];
    int32_t turn, status, hits;
    struct sr1__str query;
    const json_t *ids;
    size_t n;

    SR1__TRY(sr1__form_get_i32(search, "turn", &turn));
    SR1__TRY(sr1__form_get_i32(search, "status", &status));
    SR1__TRY(sr1__form_get_i32(search, "hits", &hits));
    SR1__TRY(sr1__form_get_text(search, "query", &query));
    SR1__TRY(sr1__form_get_array(search, "hit_ids", &ids));
    n = json_array_size(ids);
    if (n > SR1_TRAJECTORY_MAX_HIT_IDS ||
        (n > 0 && n < SR1_TRAJECTORY_MAX_HIT_IDS && (int64_t)n != hits) ||
        (int64_t)n > hits)
        return sr1__fail(SR1_E_CORRUPT, "'hit_ids' does not agree with 'hits'");
    SR1__TRY(collect_texts(ids, "hit_ids", hit_ids, lens));
    for (size_t k = 0; k < n; k++)
        if (strlen(hit_ids[k]) != lens[k])
            return sr1__fail(SR1_E_PARSE, "'hit_ids' holds a NUL");
    SR1__TRY(sr1__trajectory_builder_action(r->b, turn, query.s, query.n, status, hits,
                                            n ? hit_ids : NULL));
    return read_action_reward(r, search);
}

/* Feed the items of a list to fn; its errors get the item's number. */
typedef sr1_status (*item_fn)(struct json_reader *r, const json_t *item);

static sr1_status read_json_list(struct json_reader *r, const char *key, item_fn fn)
{
    const json_t *a;

    SR1__TRY(sr1__form_get_array(r->o, key, &a));
    for (size_t i = 0; i < json_array_size(a); i++)
        SR1__TRY(sr1__context(fn(r, json_array_get(a, i)), "%s %zu", key, i));
    return SR1_OK;
}

static sr1_status collect_history(struct json_reader *r, const json_t *a,
                                  struct sr1__messages *m)
{
    for (size_t i = 0; i < json_array_size(a); i++) {
        const json_t *message = json_array_get(a, i);
        const char *role;
        struct sr1__str text;

        SR1__TRY(
            sr1__context(sr1__form_get_name(message, "role", &role), "history %zu", i));
        SR1__TRY(sr1__context(sr1__form_get_text(message, "content", &text),
                              "history %zu", i));
        SR1__TRY(sr1__messages_add(m, role, text.s, text.n));
    }
    return sr1__trajectory_builder_history(r->b, m->roles, m->texts, m->sizes, m->n);
}

static sr1_status read_history(struct json_reader *r)
{
    struct sr1__messages m = {0};
    const json_t *a;
    sr1_status status;

    if (!json_object_get(r->o, "history"))
        return SR1_OK;
    SR1__TRY(sr1__form_get_array(r->o, "history", &a));
    status = collect_history(r, a, &m);
    sr1__messages_free(&m);
    return status;
}

/* token_steps is a list of objects, or an object of lists. */
static sr1_status find_steps(struct json_reader *r)
{
    const json_t *steps = json_object_get(r->o, "token_steps");

    if (!json_is_object(steps)) {
        SR1__TRY(sr1__form_get_array(r->o, "token_steps", &r->steps));
        r->n_steps = json_array_size(r->steps);
        return SR1_OK;
    }
    SR1__TRY(sr1__form_get_array(steps, "token_text", &r->texts));
    SR1__TRY(sr1__form_get_array(steps, "log_prob", &r->log_probs));
    r->n_steps = json_array_size(r->texts);
    if (json_array_size(r->log_probs) != r->n_steps)
        return sr1__fail(SR1_E_CORRUPT, "'token_text' and 'log_prob' differ in length");
    return SR1_OK;
}

static sr1_status read_tokens_json(struct json_reader *r)
{
    SR1__TRY(read_context(r));
    SR1__TRY(read_history(r));
    SR1__TRY(sr1__form_read_row(r->o, r->b));
    SR1__TRY(sr1__form_get_size(r->o, "prompt_tokens", &r->n_prompt));
    if (r->n_prompt > r->n_ids)
        return sr1__fail(SR1_E_CORRUPT, "'prompt_tokens' does not fit 'full_input_ids'");
    SR1__TRY(sr1__form_get_text(r->o, "generated_text", &r->text));
    SR1__TRY(find_steps(r));
    SR1__TRY(sr1__trajectory_builder_prompt(r->b, r->ids, r->n_prompt));
    r->at = r->n_prompt;
    SR1__TRY(read_json_list(r, "segments", read_segment));
    if (r->at != r->n_ids || r->step != r->n_steps)
        return sr1__fail(SR1_E_CORRUPT,
                         "'segments' do not cover 'full_input_ids' and 'token_steps'");
    return read_json_list(r, "searches", read_action);
}

static sr1_status get_stop_reason(const json_t *o, int32_t *out)
{
    const char *name;
    int32_t reason = 0;

    SR1__TRY(sr1__form_get_name(o, "stop_reason", &name));
    while (strcmp(sr1_stop_reason_name(reason), "?") != 0 &&
           strcmp(sr1_stop_reason_name(reason), name) != 0)
        reason++;
    *out = reason; /* the builder refuses an unknown one */
    return SR1_OK;
}

static sr1_status read_version_run(const json_t *pair, struct sr1__version_run *run)
{
    const json_t *begin = json_array_get(pair, 0), *version = json_array_get(pair, 1);

    if (json_array_size(pair) != 2 || !json_is_integer(begin) ||
        json_integer_value(begin) < 0 || !json_is_integer(version))
        return sr1__fail(SR1_E_PARSE, "'weights_versions' is no list of pairs");
    run->begin = (size_t)json_integer_value(begin);
    run->version = json_integer_value(version);
    return SR1_OK;
}

static sr1_status read_versions(struct json_reader *r, sr1_trajectory *t)
{
    struct sr1__version_run *runs;
    sr1_status status = SR1_OK;
    const json_t *a;
    size_t n;

    if (!json_object_get(r->o, "weights_versions"))
        return SR1_OK;
    SR1__TRY(sr1__form_get_array(r->o, "weights_versions", &a));
    n = json_array_size(a);
    runs = sr1__calloc(n + 1, sizeof *runs);
    SR1__CHECK_ALLOC(runs, "weights versions");
    for (size_t i = 0; i < n && status == SR1_OK; i++)
        status = read_version_run(json_array_get(a, i), &runs[i]);
    if (status == SR1_OK)
        status = sr1__trajectory_set_versions(t, runs, n);
    sr1__free(runs);
    return status;
}

static sr1_status read_copy(const struct json_reader *r, sr1_trajectory *t)
{
    int64_t copy;

    if (!json_object_get(r->o, "copy"))
        return SR1_OK;
    SR1__TRY(sr1__json_get_int(r->o, "copy", &copy));
    return sr1__trajectory_set_copy(t, copy);
}

static sr1_status read_trajectory_json(struct json_reader *r, sr1_trajectory **out)
{
    sr1_trajectory *t = NULL;
    struct sr1__str answer;
    int32_t stop_reason;
    sr1_status status;

    SR1__TRY(read_tokens_json(r));
    SR1__TRY(sr1__form_get_text(r->o, "final_answer", &answer));
    SR1__TRY(get_stop_reason(r->o, &stop_reason));
    status = sr1__trajectory_builder_finish(r->b, stop_reason, answer.s, answer.n, &t);
    r->b = NULL;
    if (status == SR1_OK)
        status = read_versions(r, t);
    if (status == SR1_OK)
        status = read_copy(r, t);
    if (status == SR1_OK)
        *out = t;
    else
        sr1_trajectory_free(t);
    return status;
}

static sr1_status build_from_json(const json_t *o, sr1_trajectory **out)
{
    struct json_reader r = {.o = o};
    struct sr1__str query;
    const char *query_id;
    int32_t sample;
    sr1_status status;

    SR1__TRY(sr1__form_get_text(o, "query", &query));
    SR1__TRY(sr1__form_get_name(o, "query_id", &query_id));
    SR1__TRY(sr1__form_get_i32(o, "sample", &sample));
    SR1__TRY(get_json_ids(o, "full_input_ids", &r.ids, &r.n_ids));
    status = sr1__trajectory_builder_new(&r.b, query.s, query.n, query_id, sample);
    if (status == SR1_OK)
        status = read_trajectory_json(&r, out);
    sr1__trajectory_builder_free(r.b);
    sr1__free(r.ids);
    return status;
}

/* ---- what is written twice ---- */

static sr1_status check_segment(const json_t *j, const sr1_text_segment *s)
{
    const struct {
        const char *key;
        size_t made;
    } places[] = {
        {"token_begin", s->token_begin}, {"token_count", s->token_count},
        {"text_begin", s->text_begin},   {"text_len", s->text_len},
        {"body_begin", s->body_begin},   {"body_len", s->body_len},
    };
    size_t v;

    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        SR1__TRY(sr1__form_get_size(j, places[i].key, &v));
        if (v != places[i].made)
            return sr1__fail(SR1_E_CORRUPT, "segments: '%s' is %zu where %zu belongs",
                             places[i].key, v, places[i].made);
    }
    return SR1_OK;
}

static sr1_status check_agreement(const json_t *o, const sr1_trajectory *t)
{
    const json_t *segments = json_object_get(o, "segments");
    const json_t *positions;
    struct sr1__str text;

    SR1__TRY(sr1__form_get_array(o, "generated_positions", &positions));
    SR1__TRY(sr1__form_get_text(o, "generated_text", &text));
    if (text.n != t->text.len || memcmp(text.s, t->text.data, text.n) != 0)
        return sr1__fail(SR1_E_CORRUPT, "'generated_text' is not the text of its tokens");
    if (json_array_size(segments) != t->n_segments)
        return sr1__fail(SR1_E_CORRUPT, "'segments' are split where they should not be");
    for (size_t i = 0; i < t->n_segments; i++)
        SR1__TRY(check_segment(json_array_get(segments, i), &t->segments[i]));
    for (size_t i = 0; i < t->n_policy || i < json_array_size(positions); i++)
        if (i >= t->n_policy || i >= json_array_size(positions) ||
            json_integer_value(json_array_get(positions, i)) != t->policy_positions[i])
            return sr1__fail(SR1_E_CORRUPT,
                             "'generated_positions' do not agree with 'segments'");
    return SR1_OK;
}

/* ---- reward and advantage ---- */

static sr1_status read_parts(const json_t *a, struct sr1__reward_value *parts)
{
    for (size_t i = 0; i < json_array_size(a); i++) {
        const json_t *item = json_array_get(a, i);
        int has;

        SR1__TRY(sr1__form_get_name(item, "name", &parts[i].name));
        SR1__TRY(get_optional(item, "value", &has, &parts[i].value));
        if (!has)
            parts[i].value = NAN;
        SR1__TRY(sr1__json_get_num(item, "weight", &parts[i].weight));
    }
    return SR1_OK;
}

static sr1_status read_reward(const json_t *o, sr1_trajectory *t)
{
    struct sr1__reward_value *parts;
    const json_t *a;
    double total;
    int has;
    sr1_status status;

    SR1__TRY(get_optional(o, "reward", &has, &total));
    SR1__TRY(sr1__form_get_array(o, "reward_parts", &a));
    if (!has)
        return json_array_size(a) == 0
                   ? SR1_OK
                   : sr1__fail(SR1_E_CORRUPT, "'reward_parts' without a 'reward'");
    SR1__CALLOC(parts, json_array_size(a), "reward parts");
    status = sr1__context(read_parts(a, parts), "reward_parts");
    if (status == SR1_OK)
        status = sr1__trajectory_set_reward(t, parts, json_array_size(a), total);
    sr1__free(parts);
    return status;
}

static sr1_status read_float_list(const json_t *a, const char *key, float *v)
{
    for (size_t i = 0; i < json_array_size(a); i++) {
        const json_t *item = json_array_get(a, i);

        if (!json_is_number(item))
            return sr1__fail(SR1_E_PARSE, "'%s': item %zu is not a number", key, i);
        SR1__TRY(to_float(json_number_value(item), key, &v[i]));
    }
    return SR1_OK;
}

static sr1_status read_column(const json_t *o, int32_t column, sr1_trajectory *t)
{
    const char *name = sr1_column_name(column);
    const json_t *a = json_object_get(o, name);
    float *v;
    sr1_status status;

    if (!a || json_is_null(a))
        return SR1_OK;
    SR1__TRY(sr1__form_get_array(o, name, &a));
    if (json_array_size(a) == 0)
        return sr1__fail(SR1_E_CORRUPT, "'%s' is empty", name);
    SR1__CALLOC(v, json_array_size(a), name);
    status = read_float_list(a, name, v);
    if (status == SR1_OK)
        status = sr1_trajectory_set_column(t, column, v, json_array_size(a));
    sr1__free(v);
    return status;
}

static sr1_status read_credit(const json_t *o, sr1_trajectory *t)
{
    double advantage;
    int has;

    SR1__TRY(read_reward(o, t));
    SR1__TRY(get_optional(o, "advantage", &has, &advantage));
    if (has)
        SR1__TRY(sr1_trajectory_set_advantage(t, advantage));
    for (int32_t c = 0; c < SR1_COLUMN_COUNT; c++)
        SR1__TRY(read_column(o, c, t));
    return SR1_OK;
}

static sr1_status from_json(json_t *o, sr1_trajectory **out)
{
    sr1_trajectory *t = NULL;
    sr1_status status;

    SR1__TRY(sr1__json_form_decode_hex(o));
    SR1__TRY(build_from_json(o, &t));
    status = check_agreement(o, t);
    if (status == SR1_OK)
        status = read_credit(o, t);
    if (status == SR1_OK)
        *out = t;
    else
        sr1_trajectory_free(t);
    return status;
}

/* Errors of the builder about values from the text become errors of the text. */
static sr1_status to_json_error(sr1_status status)
{
    if (status == SR1_OK || status == SR1_E_NOMEM)
        return status;
    return sr1__fail(status == SR1_E_PARSE ? SR1_E_PARSE : SR1_E_CORRUPT,
                     "trajectory in JSON: %s", sr1_last_error());
}

sr1_status sr1_trajectory_from_json(sr1_trajectory **out, const char *text, size_t n)
{
    json_t *o = NULL;
    sr1_status status;

    SR1__REQUIRE(out && (text || !n), "trajectory in JSON: out and text");
    SR1__TRY(sr1__json_parse(&o, text, n, "trajectory in JSON"));
    status = to_json_error(from_json(o, out));
    json_decref(o);
    return status;
}
