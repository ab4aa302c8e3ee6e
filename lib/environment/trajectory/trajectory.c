/* environment/trajectory/trajectory.c - reference counting, getters and size of a
 * finished trajectory, and the few values that are set after generation (builder.c
 * builds, trajectory_equal.c compares, credit.c sets rewards and advantages). */
#include "environment/trajectory/trajectory_layout.h"

#include "base/mem.h"
#include "base/struct.h"

#include <string.h>

#define COLUMN(member, length)                                                           \
    {                                                                                    \
        offsetof(struct sr1_trajectory, member),                                         \
            sizeof *((struct sr1_trajectory *)0)->member, length                         \
    }

const struct sr1__column sr1__columns[SR1__N_COLUMNS] = {
    COLUMN(ids, SR1__COLUMN_ALL),
    COLUMN(sources, SR1__COLUMN_ALL),
    COLUMN(policy_mask, SR1__COLUMN_ALL),
    COLUMN(turns, SR1__COLUMN_ALL),
    COLUMN(log_probs, SR1__COLUMN_ALL),
    COLUMN(text_ends, SR1__COLUMN_GENERATED),
    COLUMN(policy_positions, SR1__COLUMN_POLICY),
    COLUMN(policy_log_probs, SR1__COLUMN_POLICY),
};

const size_t sr1__texts[SR1__N_TEXTS] = {
    offsetof(struct sr1_trajectory, query),
    offsetof(struct sr1_trajectory, query_id),
    offsetof(struct sr1_trajectory, data_source),
    offsetof(struct sr1_trajectory, text),
    offsetof(struct sr1_trajectory, answer),
};

size_t sr1__column_count(const sr1_trajectory *t, const struct sr1__column *c)
{
    const size_t counts[] = {
        [SR1__COLUMN_ALL] = t->n_tokens,
        [SR1__COLUMN_GENERATED] = t->n_tokens - t->n_prompt,
        [SR1__COLUMN_POLICY] = t->n_policy,
    };

    return counts[c->length];
}

/* The pointers are of several types, so they are moved as bytes. */
void *sr1__column_get(const sr1_trajectory *t, const struct sr1__column *c)
{
    void *data;

    memcpy(&data, (const char *)t + c->offset, sizeof data);
    return data;
}

void sr1__column_set(sr1_trajectory *t, const struct sr1__column *c, void *data)
{
    memcpy((char *)t + c->offset, &data, sizeof data);
}

struct sr1__owned_bytes *sr1__text_at(const sr1_trajectory *t, size_t k)
{
    return (struct sr1__owned_bytes *)((char *)t + sr1__texts[k]);
}

sr1_status sr1__bytes_set(struct sr1__owned_bytes *b, const char *data, size_t len)
{
    char *copy = sr1__strndup(data, len);

    SR1__CHECK_ALLOC(copy, "trajectory text");
    sr1__free(b->data);
    b->data = copy;
    b->len = len;
    return SR1_OK;
}

void sr1__bytes_array_free(struct sr1__owned_bytes *a, size_t n)
{
    for (size_t i = 0; a && i < n; i++)
        sr1__free(a[i].data);
    sr1__free(a);
}

sr1_status sr1__bytes_array_new(struct sr1__owned_bytes **out, const char *const *data,
                                const size_t *lens, size_t n)
{
    struct sr1__owned_bytes *a = sr1__calloc(n, sizeof *a);
    sr1_status status = a ? SR1_OK : sr1__fail_nomem("trajectory texts");

    for (size_t i = 0; status == SR1_OK && i < n; i++)
        status = sr1__bytes_set(&a[i], data[i], lens ? lens[i] : strlen(data[i]));
    if (status != SR1_OK) {
        sr1__bytes_array_free(a, n);
        return status;
    }
    *out = a;
    return SR1_OK;
}

sr1_status sr1__trajectory_set_history(sr1_trajectory *t, const char *const *roles,
                                       const char *const *texts, const size_t *sizes,
                                       size_t n)
{
    struct sr1__owned_bytes *history;
    sr1_status status = SR1_OK;

    if (n > SR1_TRAJECTORY_MAX_HISTORY)
        return sr1__fail(SR1_E_LIMIT, "history: more than %d messages",
                         SR1_TRAJECTORY_MAX_HISTORY);
    SR1__CALLOC(history, 2 * n + 1, "history");
    for (size_t i = 0; status == SR1_OK && i < n; i++) {
        size_t size = sizes ? sizes[i] : strlen(texts[i]);

        status = sr1__bytes_set(&history[2 * i], roles[i], strlen(roles[i]));
        if (status == SR1_OK)
            status = sr1__bytes_set(&history[2 * i + 1], texts[i], size);
    }
    if (status != SR1_OK) {
        sr1__bytes_array_free(history, 2 * n);
        return status;
    }
    sr1__bytes_array_free(t->history, 2 * t->n_history);
    t->history = history;
    t->n_history = n;
    return SR1_OK;
}

/* ---- life ---- */

void sr1__action_record_free(struct sr1__action_record *s)
{
    for (int32_t k = 0; k < s->n_hit_ids; k++)
        sr1__free(s->hit_ids[k]);
    sr1__free(s->hit_ids);
    sr1__free(s->query.data);
}

sr1_trajectory *sr1_trajectory_retain(sr1_trajectory *t)
{
    if (t)
        atomic_fetch_add_explicit(&t->refs, 1, memory_order_relaxed);
    return t;
}

void sr1_trajectory_free(sr1_trajectory *t)
{
    if (!t || atomic_fetch_sub_explicit(&t->refs, 1, memory_order_acq_rel) > 1)
        return;
    for (size_t k = 0; k < SR1__N_COLUMNS; k++)
        sr1__free(sr1__column_get(t, &sr1__columns[k]));
    for (size_t k = 0; k < SR1__N_TEXTS; k++)
        sr1__free(sr1__text_at(t, k)->data);
    sr1__free(t->segments);
    for (size_t i = 0; i < t->n_searches; i++)
        sr1__action_record_free(&t->searches[i]);
    sr1__free(t->searches);
    sr1__bytes_array_free(t->ground_truths, t->n_ground_truths);
    sr1__bytes_array_free(t->history, 2 * t->n_history);
    sr1__row_text_free(t->row);
    sr1__free(t->versions);
    sr1__reward_components_free(t->parts, t->n_parts);
    for (size_t c = 0; c < SR1_COLUMN_COUNT; c++)
        sr1__free(t->credit[c]);
    sr1__free(t);
}

size_t sr1__trajectory_packed_length(const sr1_trajectory *t)
{
    return t->n_policy ? (size_t)t->policy_positions[t->n_policy - 1] : 0;
}

size_t sr1__trajectory_memory(const sr1_trajectory *t)
{
    size_t bytes = sizeof *t, row;

    (void)sr1__row_text_view(t->row, &row);
    bytes += row;

    for (size_t k = 0; k < SR1__N_COLUMNS; k++)
        bytes += sr1__columns[k].size * sr1__column_count(t, &sr1__columns[k]);
    for (size_t k = 0; k < SR1__N_TEXTS; k++)
        bytes += sr1__text_at(t, k)->len + 1;
    bytes += t->n_segments * sizeof *t->segments;
    bytes += t->n_versions * sizeof *t->versions;
    for (size_t i = 0; i < t->n_searches; i++) {
        bytes += sizeof *t->searches + t->searches[i].query.len + 1;
        for (int32_t k = 0; k < t->searches[i].n_hit_ids; k++)
            bytes += sizeof(char *) + strlen(t->searches[i].hit_ids[k]) + 1;
    }
    for (size_t i = 0; i < t->n_ground_truths; i++)
        bytes += sizeof *t->ground_truths + t->ground_truths[i].len + 1;
    for (size_t i = 0; i < 2 * t->n_history; i++)
        bytes += sizeof *t->history + t->history[i].len + 1;
    for (size_t i = 0; i < t->n_parts; i++)
        bytes += sizeof *t->parts + strlen(t->parts[i].name) + 1;
    for (size_t c = 0; c < SR1_COLUMN_COUNT; c++)
        bytes += t->credit[c] ? t->n_policy * sizeof(float) : 0;
    return bytes;
}

size_t sr1__trajectory_shared_memory(const sr1_trajectory *t, const sr1_trajectory *other)
{
    size_t row = 0;

    if (other && other->row == t->row)
        (void)sr1__row_text_view(t->row, &row);
    return row;
}

/* ---- getters ---- */

const char *sr1_stop_reason_name(int32_t stop_reason)
{
#define WORD(name, code, word) [code] = word,
    static const char *const words[] = {SR1_STOP_TABLE(WORD)};
#undef WORD

    if (stop_reason < 0 || (size_t)stop_reason >= sizeof words / sizeof *words)
        return "?";
    return words[stop_reason];
}

const sr1_trajectory *sr1__trajectory_or_empty(const sr1_trajectory *t)
{
    static const sr1_trajectory empty = {.stop_reason = SR1_STOP_ERROR};

    return t ? t : &empty;
}

static const char *view_bytes(const struct sr1__owned_bytes *b, size_t *len)
{
    if (len)
        *len = b->len;
    return b->data ? b->data : "";
}

const char *sr1_trajectory_query(const sr1_trajectory *t, size_t *len)
{
    return view_bytes(&sr1__trajectory_or_empty(t)->query, len);
}

const char *sr1_trajectory_query_id(const sr1_trajectory *t)
{
    return view_bytes(&sr1__trajectory_or_empty(t)->query_id, NULL);
}

int32_t sr1_trajectory_sample(const sr1_trajectory *t)
{
    return sr1__trajectory_or_empty(t)->sample;
}

int64_t sr1_trajectory_copy(const sr1_trajectory *t)
{
    return sr1__trajectory_or_empty(t)->copy;
}

int64_t sr1_trajectory_episode(const sr1_trajectory *t)
{
    return sr1__trajectory_or_empty(t)->episode;
}

void sr1__trajectory_set_episode(sr1_trajectory *t, int64_t episode)
{
    t->episode = episode;
}

uint64_t sr1_trajectory_group_key(const sr1_trajectory *t)
{
    return sr1__trajectory_or_empty(t)->group_key;
}

const char *sr1_trajectory_data_source(const sr1_trajectory *t)
{
    return view_bytes(&sr1__trajectory_or_empty(t)->data_source, NULL);
}

size_t sr1_trajectory_ground_truth_count(const sr1_trajectory *t)
{
    return sr1__trajectory_or_empty(t)->n_ground_truths;
}

const char *sr1_trajectory_ground_truth(const sr1_trajectory *t, size_t i, size_t *len)
{
    t = sr1__trajectory_or_empty(t);
    return i < t->n_ground_truths ? view_bytes(&t->ground_truths[i], len) : NULL;
}

size_t sr1_trajectory_history_count(const sr1_trajectory *t)
{
    return sr1__trajectory_or_empty(t)->n_history;
}

const char *sr1_trajectory_history(const sr1_trajectory *t, size_t i, const char **role,
                                   size_t *len)
{
    t = sr1__trajectory_or_empty(t);
    if (i >= t->n_history)
        return NULL;
    if (role)
        *role = t->history[2 * i].data;
    return view_bytes(&t->history[2 * i + 1], len);
}

const char *sr1_trajectory_row_json(const sr1_trajectory *t, size_t *len)
{
    return sr1__row_text_view(sr1__trajectory_or_empty(t)->row, len);
}

double sr1_trajectory_temperature(const sr1_trajectory *t)
{
    return sr1__trajectory_or_empty(t)->temperature;
}

double sr1_trajectory_top_p(const sr1_trajectory *t)
{
    return sr1__trajectory_or_empty(t)->top_p;
}

int32_t sr1_trajectory_top_k(const sr1_trajectory *t)
{
    return sr1__trajectory_or_empty(t)->top_k;
}

int64_t sr1_trajectory_weights_version(const sr1_trajectory *t)
{
    return sr1__trajectory_or_empty(t)->weights_version;
}

static sr1_status check_versions(const sr1_trajectory *t,
                                 const struct sr1__version_run *runs, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        int follows = i > 0 && runs[i].begin > runs[i - 1].begin &&
                      runs[i].version != runs[i - 1].version;

        if (runs[i].version < 0 || runs[i].begin >= t->n_policy ||
            (i ? !follows : runs[i].begin != 0))
            return sr1__fail(SR1_E_INVALID,
                             "weights versions: run %zu, of version %lld from token %zu "
                             "on, cannot be",
                             i, (long long)runs[i].version, runs[i].begin);
    }
    return SR1_OK;
}

sr1_status sr1__trajectory_set_versions(sr1_trajectory *t,
                                        const struct sr1__version_run *runs, size_t n)
{
    struct sr1__version_run *copy = NULL;

    SR1__TRY(check_versions(t, runs, n));
    if (n == 0)
        return SR1_OK;
    if (n > 1) {
        copy = sr1__calloc(n, sizeof *copy);
        SR1__CHECK_ALLOC(copy, "weights versions");
        memcpy(copy, runs, n * sizeof *copy);
    }
    sr1__free(t->versions);
    t->versions = copy;
    t->n_versions = copy ? n : 0;
    t->weights_version = runs[0].version;
    for (size_t i = 1; i < n; i++)
        if (runs[i].version < t->weights_version)
            t->weights_version = runs[i].version;
    return SR1_OK;
}

int64_t sr1_trajectory_token_weights_version(const sr1_trajectory *t, size_t i)
{
    const sr1_trajectory *of = sr1__trajectory_or_empty(t);
    int64_t version = of->weights_version;

    if (i >= of->n_policy)
        return -1;
    for (size_t k = 0; k < of->n_versions && of->versions[k].begin <= i; k++)
        version = of->versions[k].version;
    return version;
}

int32_t sr1_trajectory_begins_in_thought(const sr1_trajectory *t)
{
    return sr1__trajectory_or_empty(t)->begins_in_thought;
}

int32_t sr1_trajectory_stop_reason(const sr1_trajectory *t)
{
    return sr1__trajectory_or_empty(t)->stop_reason;
}

int32_t sr1__trajectory_excluded(const sr1_trajectory *t)
{
    return t->stop_reason == SR1_STOP_SEARCH_FAILED || t->stop_reason == SR1_STOP_ERROR ||
           t->stop_reason == SR1_STOP_UNSCORED;
}

size_t sr1__trajectory_trainable(const sr1_trajectory *t)
{
    return sr1__trajectory_excluded(t) ? 0 : sr1_trajectory_policy_count(t);
}

int32_t sr1__trajectory_has_zero_advantage(const sr1_trajectory *t)
{
    const float *by_token = sr1_trajectory_column(t, SR1_COLUMN_ADVANTAGE);
    size_t n = sr1_trajectory_policy_count(t), i = 0;

    if (!by_token)
        return sr1_trajectory_has_advantage(t) && sr1_trajectory_advantage(t) == 0.0;
    while (i < n && by_token[i] == 0.0f)
        i++;
    return i == n;
}

void sr1__trajectory_mark_unscored(sr1_trajectory *t)
{
    t->stop_reason = SR1_STOP_UNSCORED;
}

int32_t sr1__trajectory_succeeded(const sr1_trajectory *t)
{
    for (size_t i = 0; i < t->n_searches; i++)
        if (t->searches[i].success)
            return 1;
    return 0;
}

size_t sr1_trajectory_token_count(const sr1_trajectory *t)
{
    return sr1__trajectory_or_empty(t)->n_tokens;
}

size_t sr1_trajectory_prompt_count(const sr1_trajectory *t)
{
    return sr1__trajectory_or_empty(t)->n_prompt;
}

size_t sr1_trajectory_policy_count(const sr1_trajectory *t)
{
    return sr1__trajectory_or_empty(t)->n_policy;
}

size_t sr1_trajectory_environment_count(const sr1_trajectory *t)
{
    t = sr1__trajectory_or_empty(t);
    return t->n_tokens - t->n_prompt - t->n_policy;
}

int32_t sr1_trajectory_turn_count(const sr1_trajectory *t)
{
    t = sr1__trajectory_or_empty(t);
    return t->n_tokens > t->n_prompt ? t->turns[t->n_tokens - 1] + 1 : 0;
}

const int32_t *sr1_trajectory_ids(const sr1_trajectory *t)
{
    return sr1__trajectory_or_empty(t)->ids;
}

const uint8_t *sr1_trajectory_sources(const sr1_trajectory *t)
{
    return sr1__trajectory_or_empty(t)->sources;
}

const int32_t *sr1_trajectory_turns(const sr1_trajectory *t)
{
    return sr1__trajectory_or_empty(t)->turns;
}

const float *sr1_trajectory_log_probs(const sr1_trajectory *t)
{
    return sr1__trajectory_or_empty(t)->log_probs;
}

const uint8_t *sr1_trajectory_policy_mask(const sr1_trajectory *t)
{
    return sr1__trajectory_or_empty(t)->policy_mask;
}

const int32_t *sr1_trajectory_policy_positions(const sr1_trajectory *t)
{
    return sr1__trajectory_or_empty(t)->policy_positions;
}

const float *sr1_trajectory_policy_log_probs(const sr1_trajectory *t)
{
    return sr1__trajectory_or_empty(t)->policy_log_probs;
}

const char *sr1_trajectory_generated_text(const sr1_trajectory *t, size_t *len)
{
    return view_bytes(&sr1__trajectory_or_empty(t)->text, len);
}

const uint32_t *sr1_trajectory_text_ends(const sr1_trajectory *t)
{
    return sr1__trajectory_or_empty(t)->text_ends;
}

const char *sr1_trajectory_final_answer(const sr1_trajectory *t, size_t *len)
{
    return view_bytes(&sr1__trajectory_or_empty(t)->answer, len);
}

size_t sr1_trajectory_segment_count(const sr1_trajectory *t)
{
    return sr1__trajectory_or_empty(t)->n_segments;
}

size_t sr1_trajectory_search_count(const sr1_trajectory *t)
{
    return sr1__trajectory_or_empty(t)->n_searches;
}

static sr1_status check_item_index(const char *what, size_t i, size_t n)
{
    return i < n ? SR1_OK
                 : sr1__fail(SR1_E_INVALID, "%s %zu: out of range, there are %zu", what,
                             i, n);
}

sr1_status sr1_trajectory_token(const sr1_trajectory *t, size_t i, sr1_token_step *out)
{
    sr1_token_step step = {0};
    size_t g; /* used only after the prompt */
    uint32_t begin;

    SR1__REQUIRE(t, "trajectory");
    SR1__TRY(check_item_index("token", i, t->n_tokens));
    g = i - t->n_prompt;
    step.token_id = t->ids[i];
    step.position = (int32_t)i;
    step.turn = t->turns[i];
    step.source = t->sources[i];
    step.log_prob = t->log_probs[i];
    step.text = t->text.data;
    if (i >= t->n_prompt) {
        begin = g ? t->text_ends[g - 1] : 0;
        step.text = t->text.data + begin;
        step.text_len = t->text_ends[g] - begin;
    }
    return sr1__struct_give(out, &step, sizeof step, "token");
}

sr1_status sr1_trajectory_step(const sr1_trajectory *t, size_t i, sr1_token_step *out)
{
    SR1__REQUIRE(t, "trajectory");
    SR1__TRY(check_item_index("policy token", i, t->n_policy));
    return sr1_trajectory_token(t, (size_t)t->policy_positions[i], out);
}

sr1_status sr1_trajectory_segment(const sr1_trajectory *t, size_t i,
                                  sr1_text_segment *out)
{
    SR1__REQUIRE(t, "trajectory");
    SR1__TRY(check_item_index("segment", i, t->n_segments));
    return sr1__struct_give(out, &t->segments[i], sizeof t->segments[i], "segment");
}

sr1_status sr1_trajectory_search(const sr1_trajectory *t, size_t i, sr1_action_event *out)
{
    const struct sr1__action_record *s;
    sr1_action_event event = {0};

    SR1__REQUIRE(t, "trajectory");
    SR1__TRY(check_item_index("search", i, t->n_searches));
    s = &t->searches[i];
    event.turn = s->turn;
    event.status = s->status;
    event.n_hits = s->n_hits;
    event.n_hit_ids = s->n_hit_ids;
    event.query = s->query.data;
    event.query_len = s->query.len;
    event.hit_ids = (const char *const *)s->hit_ids;
    event.reward = s->reward;
    event.success = s->success;
    return sr1__struct_give(out, &event, sizeof event, "search");
}
