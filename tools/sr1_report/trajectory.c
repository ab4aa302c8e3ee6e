/* trajectory.c - a line of trajectories.jsonl (docs/formats.md) in the page's form.
 *
 * The page needs less than the line holds: token ids of the prompt only in part, numbers
 * with four digits, text of inserted blocks but not of the policy's (its tokens have
 * theirs). Every member may be missing or of a wrong type; the page shows the valid ones.
 */
#include "sr1_report/report.h"

#include <stdlib.h>
#include <string.h>

#define PROMPT_IDS 512

/* A text member: a string, or {"hex": "..."} where bytes were not UTF-8. */
struct bytes {
    const char *data;
    size_t len;
    char *own; /* what to free */
};

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static struct bytes read_text_member(const json_t *v)
{
    const json_t *hex = json_object_get(v, "hex");
    struct bytes b = {json_string_value(v), json_string_length(v), NULL};
    const char *digits = json_string_value(hex);

    if (b.data == NULL && digits != NULL) {
        b.len = json_string_length(hex) / 2;
        b.data = b.own = malloc(b.len + 1);
        for (size_t i = 0; b.own != NULL && i < b.len; i++) {
            int high = hex_digit(digits[2 * i]), low = hex_digit(digits[2 * i + 1]);

            b.own[i] = (char)(high < 0 || low < 0 ? '?' : high * 16 + low);
        }
    }
    if (b.data == NULL)
        b = (struct bytes){"", 0, NULL};
    return b;
}

static void put_json_text(struct text *out, const json_t *v)
{
    struct bytes b = read_text_member(v);

    text_json_bytes(out, b.data, b.len);
    free(b.own);
}

static void put_json_number(struct text *out, const json_t *v, int digits)
{
    if (json_is_integer(v))
        text_fmt(out, "%lld", (long long)json_integer_value(v));
    else if (json_is_real(v))
        text_number(out, json_real_value(v), digits);
    else
        text_str(out, "null");
}

/* [a.member, b.member, ...] of the objects in list; member NULL: of the values. */
static void put_json_list(struct text *out, const json_t *list, const char *member,
                          size_t max, void (*put)(struct text *out, const json_t *v))
{
    size_t n = json_array_size(list);

    text_str(out, "[");
    for (size_t i = 0; i < n && i < max; i++) {
        const json_t *v = json_array_get(list, i);

        text_str(out, i ? "," : "");
        put(out, member != NULL ? json_object_get(v, member) : v);
    }
    text_str(out, "]");
}

static void put_short_number(struct text *out, const json_t *v)
{
    put_json_number(out, v, 4);
}

static void put_reward_part(struct text *out, const json_t *v)
{
    text_str(out, "[");
    put_json_text(out, json_object_get(v, "name"));
    text_str(out, ",");
    put_json_number(out, json_object_get(v, "value"), 6);
    text_str(out, ",");
    put_json_number(out, json_object_get(v, "weight"), 6);
    text_str(out, "]");
}

static void put_search_event(struct text *out, const json_t *v)
{
    text_str(out, "{\"turn\":");
    put_json_number(out, json_object_get(v, "turn"), 6);
    text_str(out, ",\"query\":");
    put_json_text(out, json_object_get(v, "query"));
    text_str(out, ",\"status\":");
    put_json_number(out, json_object_get(v, "status"), 6);
    text_str(out, ",\"hits\":");
    put_json_number(out, json_object_get(v, "hits"), 6);
    text_str(out, ",\"ids\":");
    put_json_list(out, json_object_get(v, "hit_ids"), NULL, 64, put_json_text);
    text_str(out, "}");
}

static size_t read_size_member(const json_t *o, const char *key)
{
    json_int_t v = json_integer_value(json_object_get(o, key));

    return v > 0 ? (size_t)v : 0;
}

/* One segment; its text where tokens do not carry it, cut to what there is. */
static void put_segment_json(struct text *out, const json_t *s, const struct bytes *all,
                             int with_policy_text)
{
    const char *source = json_string_value(json_object_get(s, "source"));
    int policy = source != NULL && strcmp(source, "policy") == 0;
    size_t begin = read_size_member(s, "text_begin"),
           len = read_size_member(s, "text_len");

    begin = begin < all->len ? begin : all->len;
    len = len < all->len - begin ? len : all->len - begin;
    text_fmt(out, "{\"policy\":%d,\"turn\":%zu,\"at\":%zu,\"n\":%zu", policy,
             read_size_member(s, "turn"), read_size_member(s, "token_begin"),
             read_size_member(s, "token_count"));
    if (!policy || with_policy_text) {
        text_str(out, ",\"text\":");
        text_json_bytes(out, all->data + begin, len);
    }
    text_str(out, "}");
}

static void put_segments(struct text *out, const json_t *t, int with_policy_text)
{
    const json_t *list = json_object_get(t, "segments");
    struct bytes all = read_text_member(json_object_get(t, "generated_text"));
    size_t n = json_array_size(list);

    text_str(out, ",\"segments\":[");
    for (size_t i = 0; i < n; i++) {
        text_str(out, i ? "," : "");
        put_segment_json(out, json_array_get(list, i), &all, with_policy_text);
    }
    if (n == 0 && all.len > 0) {
        text_str(out, "{\"policy\":1,\"turn\":0,\"at\":0,\"n\":0,\"text\":");
        text_json_bytes(out, all.data, all.len);
        text_str(out, "}");
    }
    text_str(out, "]");
    free(all.own);
}

/* Whether a member is a column: as many numbers as the policy has tokens. */
static int is_column(const char *name, const json_t *v, size_t n)
{
    return n > 0 && json_array_size(v) == n && json_is_number(json_array_get(v, 0)) &&
           strcmp(name, "generated_positions") != 0 &&
           strcmp(name, "full_input_ids") != 0;
}

static void put_columns(struct text *out, const json_t *t, size_t n)
{
    const char *name, *comma = "";
    json_t *v;

    text_str(out, ",\"columns\":{");
    json_object_foreach((json_t *)t, name, v)
    {
        if (!is_column(name, v, n))
            continue;
        text_str(out, comma);
        text_json_str(out, name);
        text_str(out, ":");
        put_json_list(out, v, NULL, n, put_short_number);
        comma = ",";
    }
    text_str(out, "}");
}

/* Items of ids at the policy's positions. */
static void put_policy_ids(struct text *out, const json_t *t, size_t n)
{
    const json_t *ids = json_object_get(t, "full_input_ids");
    const json_t *at = json_object_get(t, "generated_positions");

    text_str(out, ",\"ids\":[");
    for (size_t i = 0; i < n; i++) {
        json_int_t k = json_integer_value(json_array_get(at, i));

        text_str(out, i ? "," : "");
        put_short_number(out, k >= 0 ? json_array_get(ids, (size_t)k) : NULL);
    }
    text_str(out, "]");
}

/* The turn of the segment that holds each position. */
static void put_turns(struct text *out, const json_t *t, size_t n)
{
    const json_t *at = json_object_get(t, "generated_positions");
    const json_t *segments = json_object_get(t, "segments");
    size_t s = 0;

    text_str(out, ",\"turns\":[");
    for (size_t i = 0; i < n; i++) {
        size_t k = (size_t)json_integer_value(json_array_get(at, i));
        const json_t *segment = json_array_get(segments, s);

        while (segment != NULL && k >= read_size_member(segment, "token_begin") +
                                           read_size_member(segment, "token_count"))
            segment = json_array_get(segments, ++s);
        text_str(out, i ? "," : "");
        put_short_number(out, json_object_get(segment, "turn"));
    }
    text_str(out, "]");
}

/* Lists instead of one object a token: ids and turns are other members of the line. */
static void put_short_tokens(struct text *out, const json_t *t, const json_t *steps)
{
    const json_t *texts = json_object_get(steps, "token_text");
    size_t n = json_array_size(texts);

    put_policy_ids(out, t, n);
    text_str(out, ",\"texts\":");
    put_json_list(out, texts, NULL, n, put_json_text);
    text_str(out, ",\"logProbs\":");
    put_json_list(out, json_object_get(steps, "log_prob"), NULL, n, put_short_number);
    text_str(out, ",\"at\":");
    put_json_list(out, json_object_get(t, "generated_positions"), NULL, n,
                  put_short_number);
    put_turns(out, t, n);
    put_columns(out, t, n);
}

static size_t count_steps(const json_t *t)
{
    const json_t *steps = json_object_get(t, "token_steps");

    return json_is_object(steps) ? json_array_size(json_object_get(steps, "token_text"))
                                 : json_array_size(steps);
}

static void put_tokens(struct text *out, const json_t *t)
{
    static const struct {
        const char *name, *member;
        void (*put)(struct text *out, const json_t *v);
    } rows[] = {
        {"ids", "token_id", put_short_number},
        {"texts", "token_text", put_json_text},
        {"logProbs", "log_prob", put_short_number},
        {"at", "position", put_short_number},
        {"turns", "turn", put_short_number},
    };
    const json_t *steps = json_object_get(t, "token_steps");
    size_t n = json_array_size(steps);

    if (json_is_object(steps)) {
        put_short_tokens(out, t, steps);
        return;
    }
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        text_fmt(out, ",\"%s\":", rows[i].name);
        put_json_list(out, steps, rows[i].member, n, rows[i].put);
    }
    put_columns(out, t, n);
}

static void put_prompt(struct text *out, const json_t *t)
{
    size_t n = read_size_member(t, "prompt_tokens");

    text_fmt(out, ",\"promptTokens\":%zu,\"promptIds\":", n);
    put_json_list(out, json_object_get(t, "full_input_ids"), NULL,
                  n < PROMPT_IDS ? n : PROMPT_IDS, put_short_number);
}

int trajectory_write(struct text *out, const json_t *t, size_t run)
{
    static const struct {
        const char *name, *member;
        void (*put)(struct text *out, const json_t *v);
    } rows[] = {
        {"step", "step", put_short_number},
        {"id", "query_id", put_json_text},
        {"sample", "sample", put_short_number},
        {"group", "group_key", put_json_text},
        {"source", "data_source", put_json_text},
        {"query", "query", put_json_text},
        {"answer", "final_answer", put_json_text},
        {"stop", "stop_reason", put_json_text},
        {"reward", "reward", put_short_number},
        {"advantage", "advantage", put_short_number},
        {"weights", "weights_version", put_short_number},
        {"temperature", "temperature", put_short_number},
    };

    if (!json_is_object(t))
        return -1;
    text_fmt(out, "{\"run\":%zu", run);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        text_fmt(out, ",\"%s\":", rows[i].name);
        rows[i].put(out, json_object_get(t, rows[i].member));
    }
    text_str(out, ",\"gold\":");
    put_json_list(out, json_object_get(t, "ground_truths"), NULL, 64, put_json_text);
    text_str(out, ",\"parts\":");
    put_json_list(out, json_object_get(t, "reward_parts"), NULL, 64, put_reward_part);
    text_str(out, ",\"searches\":");
    put_json_list(out, json_object_get(t, "searches"), NULL, 256, put_search_event);
    put_prompt(out, t);
    put_segments(out, t, count_steps(t) == 0);
    put_tokens(out, t);
    text_str(out, "}");
    return out->failed ? -1 : 0;
}
