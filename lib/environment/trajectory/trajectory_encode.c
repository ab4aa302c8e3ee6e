/* environment/trajectory/trajectory_encode.c - write the binary form that codec.h
 * describes. */
#include "environment/trajectory/codec.h"

#include "base/buf.h"
#include "base/rng.h"
#include "environment/trajectory/trajectory_layout.h"

#include <string.h>

static void encode_bytes(struct sr1__buf *b, const struct sr1__owned_bytes *s)
{
    sr1__buf_u32(b, (uint32_t)s->len); /* longer than u32 is beyond the buffer's limit */
    sr1__buf_add(b, s->data, s->len);
}

static void encode_name(struct sr1__buf *b, const char *s)
{
    size_t n = strlen(s) + 1;

    sr1__buf_u32(b, (uint32_t)n);
    sr1__buf_add(b, s, n);
}

static void encode_ids(struct sr1__buf *b, const int32_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++)
        sr1__buf_u32(b, (uint32_t)ids[i]);
}

static void encode_context(struct sr1__buf *b, const sr1_trajectory *t)
{
    sr1__buf_f64(b, t->temperature);
    sr1__buf_f64(b, t->top_p);
    sr1__buf_u32(b, (uint32_t)t->top_k);
    sr1__buf_u64(b, (uint64_t)t->weights_version);
    encode_name(b, t->data_source.data);
    sr1__buf_u32(b, (uint32_t)t->n_ground_truths);
    for (size_t i = 0; i < t->n_ground_truths; i++)
        encode_bytes(b, &t->ground_truths[i]);
}

static void encode_policy_tokens(struct sr1__buf *b, const sr1_trajectory *t,
                                 const sr1_text_segment *s)
{
    for (size_t i = s->token_begin; i < s->token_begin + s->token_count; i++) {
        size_t g = i - t->n_prompt;

        sr1__buf_u32(b, (uint32_t)t->ids[i]);
        sr1__buf_f32(b, t->log_probs[i]);
        sr1__buf_u32(b, t->text_ends[g] - (g ? t->text_ends[g - 1] : 0));
    }
}

static void encode_segment(struct sr1__buf *b, const sr1_trajectory *t,
                           const sr1_text_segment *s)
{
    sr1__buf_u8(b, (uint8_t)s->source);
    sr1__buf_u32(b, (uint32_t)s->turn);
    sr1__buf_u32(b, (uint32_t)s->token_count);
    if (s->source == SR1_SOURCE_POLICY) {
        encode_policy_tokens(b, t, s);
        return;
    }
    sr1__buf_u32(b, (uint32_t)s->text_len);
    sr1__buf_u32(b, (uint32_t)(s->body_begin - s->text_begin));
    sr1__buf_u32(b, (uint32_t)s->body_len);
    encode_ids(b, t->ids + s->token_begin, s->token_count);
}

static void encode_action(struct sr1__buf *b, const struct sr1__action_record *s)
{
    sr1__buf_u32(b, (uint32_t)s->turn);
    sr1__buf_u32(b, (uint32_t)s->status);
    sr1__buf_u32(b, (uint32_t)s->n_hits);
    encode_bytes(b, &s->query);
    sr1__buf_u32(b, (uint32_t)s->n_hit_ids);
    for (int32_t k = 0; k < s->n_hit_ids; k++)
        encode_name(b, s->hit_ids[k]);
    sr1__buf_f64(b, s->reward);
    sr1__buf_u8(b, (uint8_t)s->success);
}

static void encode_credit(struct sr1__buf *b, const sr1_trajectory *t)
{
    uint32_t columns = 0;

    for (int32_t c = 0; c < SR1_COLUMN_COUNT; c++)
        columns |= t->credit[c] ? 1u << c : 0;
    sr1__buf_u8(b, (uint8_t)((t->has_reward ? SR1__CODEC_REWARD : 0) |
                             (t->has_advantage ? SR1__CODEC_ADVANTAGE : 0) |
                             (t->begins_in_thought ? SR1__CODEC_IN_THOUGHT : 0)));
    sr1__buf_f64(b, t->reward);
    sr1__buf_f64(b, t->advantage);
    sr1__buf_u32(b, (uint32_t)t->n_parts);
    for (size_t i = 0; i < t->n_parts; i++) {
        encode_name(b, t->parts[i].name);
        sr1__buf_f64(b, t->parts[i].value);
        sr1__buf_f64(b, t->parts[i].weight);
    }
    sr1__buf_u32(b, columns);
    for (int32_t c = 0; c < SR1_COLUMN_COUNT; c++)
        for (size_t i = 0; t->credit[c] && i < t->n_policy; i++)
            sr1__buf_f32(b, t->credit[c][i]);
}

static void encode_history(struct sr1__buf *b, const sr1_trajectory *t)
{
    sr1__buf_u32(b, (uint32_t)t->n_history);
    for (size_t i = 0; i < t->n_history; i++) {
        encode_name(b, t->history[2 * i].data);
        encode_bytes(b, &t->history[2 * i + 1]);
    }
}

static void encode_row(struct sr1__buf *b, const sr1_trajectory *t)
{
    size_t len;
    const char *row = sr1_trajectory_row_json(t, &len);

    sr1__buf_u32(b, (uint32_t)len);
    sr1__buf_add(b, row, len);
}

static void encode_versions(struct sr1__buf *b, const sr1_trajectory *t)
{
    sr1__buf_u32(b, (uint32_t)t->n_versions);
    for (size_t i = 0; i < t->n_versions; i++) {
        sr1__buf_u32(b, (uint32_t)t->versions[i].begin);
        sr1__buf_u64(b, (uint64_t)t->versions[i].version);
    }
}

static void encode_payload(struct sr1__buf *b, const sr1_trajectory *t)
{
    sr1__buf_u32(b, (uint32_t)t->sample);
    encode_bytes(b, &t->query);
    encode_name(b, t->query_id.data);
    encode_context(b, t);
    encode_bytes(b, &t->text);
    sr1__buf_u32(b, (uint32_t)t->n_prompt);
    encode_ids(b, t->ids, t->n_prompt);
    sr1__buf_u32(b, (uint32_t)t->n_segments);
    for (size_t i = 0; i < t->n_segments; i++)
        encode_segment(b, t, &t->segments[i]);
    sr1__buf_u32(b, (uint32_t)t->n_searches);
    for (size_t i = 0; i < t->n_searches; i++)
        encode_action(b, &t->searches[i]);
    sr1__buf_u32(b, (uint32_t)t->stop_reason);
    encode_bytes(b, &t->answer);
    encode_credit(b, t);
    encode_history(b, t);
    encode_row(b, t);
    encode_versions(b, t);
    sr1__buf_u64(b, (uint64_t)t->copy);
}

static void encode_header(struct sr1__buf *b, const char *payload, size_t n)
{
    sr1__buf_add(b, SR1__CODEC_MAGIC, 4);
    sr1__buf_u32(b, SR1__CODEC_VERSION);
    sr1__buf_u64(b, n);
    sr1__buf_u64(b, sr1__hash64(payload, n, SR1__CODEC_VERSION));
}

/* The header comes first but is known last: its room is kept, then filled. */
static sr1_status encode_record(struct sr1__buf *b, const sr1_trajectory *t)
{
    struct sr1__buf header;
    sr1_status status;

    encode_header(b, "", 0);
    encode_payload(b, t);
    SR1__TRY(sr1__buf_status(b, "trajectory record"));
    sr1__buf_init(&header, 0);
    encode_header(&header, b->data + SR1__CODEC_HEADER, b->len - SR1__CODEC_HEADER);
    status = sr1__buf_status(&header, "trajectory record");
    if (status == SR1_OK)
        memcpy(b->data, header.data, SR1__CODEC_HEADER);
    sr1__buf_free(&header);
    return status;
}

sr1_status sr1_trajectory_encode(const sr1_trajectory *t, void **bytes, size_t *n)
{
    struct sr1__buf b;
    sr1_status status;

    SR1__REQUIRE(t && bytes && n, "trajectory record: trajectory, bytes and n");
    sr1__buf_init(&b, 0);
    status = encode_record(&b, t);
    if (status != SR1_OK) {
        sr1__buf_free(&b);
        return status;
    }
    *n = b.len;
    *bytes = b.data;
    return SR1_OK;
}
