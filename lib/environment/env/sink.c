/* environment/env/sink.c - observations, and the sink through which environments fill
 * them. */
#include "environment/env/sink.h"

#include "base/mem.h"
#include "base/utf8.h"
#include "base/text.h"

#include <math.h>
#include <string.h>

void sr1__observation_init(struct sr1__observation *o)
{
    memset(o, 0, sizeof *o);
    sr1__buf_init(&o->head, 0);
    sr1__buf_init(&o->body, 0);
    sr1__buf_init(&o->tail, 0);
}

void sr1__observation_free(struct sr1__observation *o)
{
    int32_t i;

    for (i = 0; i < o->n_hit_ids; i++)
        sr1__free(o->hit_ids[i]);
    sr1__free(o->hit_ids);
    sr1__free(o->failure);
    sr1__buf_free(&o->head);
    sr1__buf_free(&o->body);
    sr1__buf_free(&o->tail);
    sr1__observation_init(o);
}

static sr1_status check_sink_index(const sr1_env_sink *sink, size_t i)
{
    if (sink == NULL)
        return sr1__fail(SR1_E_INVALID, "environment sink is NULL");
    if (i >= sink->n)
        return sr1__fail(SR1_E_INVALID, "environment sink: action %zu of %zu", i,
                         sink->n);
    return SR1_OK;
}

sr1_status sr1_env_sink_text(sr1_env_sink *sink, size_t i, const char *text, size_t len)
{
    struct sr1__buf *body;

    SR1__TRY(check_sink_index(sink, i));
    if (text == NULL && len > 0)
        return sr1__fail(SR1_E_INVALID, "environment sink: text is NULL");
    body = &sink->out[i].body;
    if (body->len <= SR1__OBSERVATION_MAX) {
        size_t room = SR1__OBSERVATION_MAX + 1 - body->len; /* 1 too many marks a cut */

        sr1__buf_add(body, text, len < room ? len : room);
    }
    return sr1__buf_status(body, "text of an observation");
}

sr1_status sr1_env_sink_hit(sr1_env_sink *sink, size_t i, const char *id)
{
    struct sr1__observation *o;
    char **ids, *copy;

    SR1__TRY(check_sink_index(sink, i));
    o = &sink->out[i];
    copy = sr1__strdup(id != NULL ? id : "");
    ids = copy != NULL ? sr1__realloc(o->hit_ids, (size_t)o->n_hit_ids + 1, sizeof *ids)
                       : NULL;
    if (ids == NULL) {
        sr1__free(copy);
        return sr1__fail_nomem("ids of hits");
    }
    o->hit_ids = ids;
    o->hit_ids[o->n_hit_ids++] = copy;
    o->n_hits++;
    return SR1_OK;
}

sr1_status sr1_env_sink_status(sr1_env_sink *sink, size_t i, int32_t status)
{
    SR1__TRY(check_sink_index(sink, i));
    if (status < SR1_ACTION_OK || status > SR1_ACTION_ERROR)
        return sr1__fail(SR1_E_INVALID, "environment sink: %d is no SR1_ACTION_*",
                         (int)status);
    sink->out[i].status = status;
    return SR1_OK;
}

sr1_status sr1__env_sink_failure(sr1_env_sink *sink, size_t i, int32_t status,
                                 const char *why)
{
    SR1__TRY(sr1_env_sink_status(sink, i, status));
    sr1__free(sink->out[i].failure);
    sink->out[i].failure = sr1__strdup(why);
    return sink->out[i].failure ? SR1_OK : sr1__fail_nomem("why a search failed");
}

sr1_status sr1_env_sink_done(sr1_env_sink *sink, size_t i)
{
    SR1__TRY(check_sink_index(sink, i));
    sink->out[i].done = 1;
    return SR1_OK;
}

sr1_status sr1_env_sink_flags(sr1_env_sink *sink, size_t i, int32_t flags)
{
    SR1__TRY(check_sink_index(sink, i));
    if (flags & ~(SR1_ANSWER_PLAIN | SR1_ANSWER_UNEXECUTED))
        return sr1__fail(SR1_E_INVALID, "environment sink: %d is no SR1_ANSWER_*",
                         (int)flags);
    sink->out[i].flags = flags;
    return SR1_OK;
}

sr1_status sr1_env_sink_reward(sr1_env_sink *sink, size_t i, double reward)
{
    double sum;

    SR1__TRY(check_sink_index(sink, i));
    sum = sink->out[i].reward + reward;
    if (!isfinite(sum))
        return sr1__fail(SR1_E_NUMERIC, "environment sink: the reward %g is not finite",
                         sum);
    sink->out[i].reward = sum;
    return SR1_OK;
}

sr1_status sr1_env_sink_success(sr1_env_sink *sink, size_t i)
{
    SR1__TRY(check_sink_index(sink, i));
    sink->out[i].success = 1;
    return SR1_OK;
}

/* Replace bytes that are not UTF-8 by U+FFFD. */
static sr1_status replace_invalid_utf8(struct sr1__buf *body)
{
    struct sr1__buf whole;
    size_t at, taken;

    if (sr1__utf8_valid(body->data, body->len))
        return SR1_OK;
    sr1__buf_init(&whole, 0);
    for (at = 0; at < body->len; at += taken) {
        char utf8[4];
        uint32_t cp;

        taken = sr1__char_next(body->data + at, body->len - at, &cp);
        sr1__buf_add(&whole, utf8, (size_t)sr1__utf8_put(cp, utf8));
    }
    sr1__buf_free(body);
    *body = whole;
    return sr1__buf_status(body, "text of an observation");
}

/* Length of valid s[0..n) without the piece of a character that it may end with. */
static size_t whole_characters(const char *s, size_t n)
{
    return n <= SR1__OBSERVATION_MAX ? n : sr1__utf8_complete(s, SR1__OBSERVATION_MAX);
}

sr1_status sr1__observation_finish(struct sr1__observation *o)
{
    struct sr1__buf *body = &o->body;
    size_t begin = 0, len;

    if (body->len == 0)
        return SR1_OK;
    len = whole_characters(body->data, body->len);
    sr1__strip(body->data, &begin, &len);
    memmove(body->data, body->data + begin, len);
    body->data[len] = '\0';
    body->len = len;
    return replace_invalid_utf8(body);
}
