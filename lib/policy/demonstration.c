/* policy/demonstration.c - a trajectory as a demonstration (text/data/demo.h). */
#include "policy/demonstration.h"

#include <searchr1/ext/synthesis.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "environment/env/conversation_turns.h"
#include "policy/rollout_internal.h"

#include <string.h>

/* A border of messages stands around a result; rollouts and training put it there anew.
 */
static void strip_border(const sr1_rollout *r, struct sr1__str *text)
{
    const struct sr1__turn_delimiters *b = &r->border, *result = sr1__result_border(r);
    const char *heads[] = {b->close, b->close + b->end_len, result->close,
                           result->close + result->end_len};
    size_t tail = strlen(b->open);

    for (size_t i = 0; i < 4; i++) {
        size_t k = strlen(heads[i]);

        if (k <= text->n && memcmp(text->s, heads[i], k) == 0) {
            text->s += k;
            text->n -= k;
            break;
        }
    }
    if (tail <= text->n && memcmp(text->s + text->n - tail, b->open, tail) == 0)
        text->n -= tail;
}

static int append_segment(json_t *list, const char *source, struct sr1__str text)
{
    return json_array_append_new(
        list, json_pack("{s:s, s:s%}", "source", source, "text", text.s, text.n));
}

/* ---- results of several calls ---- */

/* The results of n calls, which stand in one block, a segment each, from its tag to its
 * tag. A body may look like the words between two results: where there are not n, the
 * block is one segment. */
static int append_results(json_t *list, const struct sr1__protocol *p,
                          struct sr1__str block, size_t n)
{
    size_t keep = strlen(p->tags[SR1__TAG_CLOSE(SR1__ROLE_RESULT)]) + strlen(p->around);
    size_t lead = strlen(p->around) + strlen(p->tags[SR1__TAG_OPEN(SR1__ROLE_RESULT)]);
    struct sr1__str parts[SR1__MAX_CALLS];
    const char *end = block.s + block.n;
    size_t found = 0;
    int bad = 0;

    if (sr1__protocol_split_results(p, block, parts, SR1__MAX_CALLS, &found) != SR1_OK)
        return -1;
    if (found != n || n > SR1__MAX_CALLS)
        return append_segment(list, "environment", block);
    for (size_t i = 0; i < n && !bad; i++) {
        const char *from = i == 0 ? block.s : parts[i].s - lead;
        const char *to = i + 1 == n ? end : parts[i].s + parts[i].n + keep;

        bad = append_segment(list, "environment",
                             (struct sr1__str){from, (size_t)(to - from)});
    }
    return bad ? -1 : 0;
}

static int append_trajectory_segment(json_t *list, const sr1_rollout *r,
                                     const sr1_trajectory *t, const sr1_text_segment *s)
{
    const struct sr1__protocol *p = sr1__env_protocol(r->env);
    struct sr1__str text = {sr1_trajectory_generated_text(t, NULL) + s->text_begin,
                            s->text_len};

    if (s->source == SR1_SOURCE_POLICY)
        return append_segment(list, "policy", text);
    if (p->chat)
        strip_border(r, &text);
    return p->several ? append_results(list, p, text, sr1__turn_actions(t, s->turn))
                      : append_segment(list, "environment", text);
}

/* A text that demonstrations can hold. */
static int is_utf8_without_nul(const char *text, size_t n)
{
    return memchr(text, '\0', n) == NULL && sr1__utf8_valid(text, n);
}

static int has_plain_texts(const sr1_trajectory *t)
{
    size_t n;
    const char *text = sr1_trajectory_generated_text(t, &n);
    int plain = is_utf8_without_nul(text, n);

    text = sr1_trajectory_query(t, &n);
    plain &= is_utf8_without_nul(text, n);
    text = sr1_trajectory_query_id(t);
    plain &= is_utf8_without_nul(text, strlen(text));
    text = sr1_trajectory_data_source(t);
    plain &= is_utf8_without_nul(text, strlen(text));
    for (size_t i = 0; plain && i < sr1_trajectory_history_count(t); i++) {
        text = sr1_trajectory_history(t, i, NULL, &n);
        plain = is_utf8_without_nul(text, n);
    }
    return plain;
}

int sr1__demonstration_fits(const sr1_rollout *r, const sr1_trajectory *t)
{
    size_t n = sr1_trajectory_segment_count(t);
    const char *text = sr1_trajectory_generated_text(t, NULL);
    size_t begin, body;

    if (sr1_trajectory_stop_reason(t) != SR1_STOP_ANSWER || !has_plain_texts(t))
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
            append_trajectory_segment(list, r, t, &s) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

/* 0, or -1 without memory. Where there is none, the line does not speak of it. */
static int add_history(json_t *o, const sr1_trajectory *t)
{
    size_t n = sr1_trajectory_history_count(t), len;
    json_t *list = n ? json_array() : NULL;
    int bad = n && json_object_set_new(o, "history", list) != 0;

    for (size_t i = 0; !bad && i < n; i++) {
        const char *role, *text = sr1_trajectory_history(t, i, &role, &len);

        bad = json_array_append_new(
            list, json_pack("{s:s, s:s%}", "role", role, "content", text, len));
    }
    return bad ? -1 : 0;
}

json_t *sr1__demonstration_json(const sr1_rollout *r, const sr1_trajectory *t)
{
    size_t n;
    const char *question = sr1_trajectory_query(t, &n);
    json_t *o = json_pack("{s:s%, s:o}", "question", question, n, "segments",
                          segments_json(r, t));

    if (!o || add_history(o, t) != 0 ||
        json_object_set_new(o, "id", json_string(sr1_trajectory_query_id(t))) ||
        json_object_set_new(o, "sample", json_integer(sr1_trajectory_sample(t))) ||
        json_object_set_new(o, "reward", sr1__json_number(sr1_trajectory_reward(t))) ||
        json_object_set_new(o, "data_source",
                            json_string(sr1_trajectory_data_source(t))) ||
        (r->server.ops &&
         json_object_set_new(o, "model", json_string(r->server.model)))) {
        json_decref(o);
        return NULL;
    }
    return o;
}

sr1_status sr1_rollout_demonstration(const sr1_rollout *r, const sr1_trajectory *t,
                                     char **text, size_t *n)
{
    struct sr1__buf b;
    size_t len;
    json_t *o;
    sr1_status st;

    if (!r || !t || !text)
        return sr1__fail(SR1_E_INVALID,
                         "demonstration: rollout, trajectory and text are required");
    if (!sr1__demonstration_fits(r, t))
        return sr1__fail(SR1_E_UNSUPPORTED,
                         "the trajectory has no answer, the protocol corrected it, or a "
                         "text of it is not UTF-8 without NUL");
    o = sr1__demonstration_json(r, t);
    if (!o)
        return sr1__fail_nomem("demonstration");
    sr1__buf_init(&b, 0);
    st = sr1__json_dump(o, 0, &b);
    json_decref(o);
    if (st != SR1_OK) {
        sr1__buf_free(&b);
        return st;
    }
    len = b.len;
    *text = sr1__buf_take(&b);
    if (n)
        *n = len;
    return SR1_OK;
}
