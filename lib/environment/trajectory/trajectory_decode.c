/* environment/trajectory/trajectory_decode.c - read the binary form that codec.h
 * describes.
 *
 * The builder builds the trajectory, so a forged record cannot give a trajectory that the
 * builder would refuse. */
#include "environment/trajectory/codec.h"

#include "base/buf.h"
#include "base/mem.h"
#include "base/messages.h"
#include "base/rng.h"
#include "environment/trajectory/builder.h"
#include "environment/trajectory/trajectory_layout.h"

#include <string.h>

struct record_decoder {
    struct sr1__reader r;
    uint32_t version;
    struct sr1__trajectory_builder *b;
    const char *text; /* of the whole; handed out piece by piece */
    size_t text_left;
};

static sr1_status fail_corrupt_record(const char *what)
{
    return sr1__fail(SR1_E_CORRUPT, "trajectory record: its %s cannot be read", what);
}

static const char *decode_bytes(struct sr1__reader *r, size_t *len)
{
    *len = sr1__read_u32(r);
    return sr1__read_bytes(r, *len);
}

/* NULL (and the reader failed) unless the text ends with its only NUL. */
static const char *decode_name(struct sr1__reader *r)
{
    size_t len;
    const char *s = decode_bytes(r, &len);

    if (s && len > 0 && memchr(s, '\0', len) == s + len - 1)
        return s;
    r->failed = 1;
    return NULL;
}

/* A count of items that take at least min_size bytes each. */
static size_t decode_count(struct sr1__reader *r, size_t min_size)
{
    size_t n = sr1__read_u32(r);

    if (n > r->left / min_size)
        r->failed = 1;
    return r->failed ? 0 : n;
}

static sr1_status decode_ids(struct sr1__reader *r, size_t n, int32_t **out)
{
    struct sr1__reader ids;
    int32_t *v;

    if (n > r->left / 4)
        return fail_corrupt_record("token ids");
    sr1__reader_init(&ids, sr1__read_bytes(r, 4 * n), 4 * n);
    v = sr1__malloc(n * sizeof *v);
    SR1__CHECK_ALLOC(v, "token ids");
    for (size_t i = 0; i < n; i++)
        v[i] = (int32_t)sr1__read_u32(&ids);
    *out = v;
    return SR1_OK;
}

/* The next n bytes of the generated text, or NULL. */
static const char *next_text_piece(struct record_decoder *d, size_t n)
{
    const char *piece = d->text;

    if (d->r.failed || n > d->text_left)
        return NULL;
    d->text += n;
    d->text_left -= n;
    return piece;
}

static sr1_status decode_ground_truths(struct sr1__reader *r, const char **texts,
                                       size_t *lens, size_t n)
{
    for (size_t i = 0; i < n; i++)
        texts[i] = decode_bytes(r, &lens[i]);
    return r->failed ? fail_corrupt_record("gold answers") : SR1_OK;
}

static sr1_status decode_context(struct record_decoder *d)
{
    struct sr1__trajectory_context c = {0};
    const char **texts;
    size_t *lens;
    sr1_status status;

    c.temperature = sr1__read_f64(&d->r);
    c.top_p = sr1__read_f64(&d->r);
    c.top_k = (int32_t)sr1__read_u32(&d->r);
    c.weights_version = (int64_t)sr1__read_u64(&d->r);
    c.data_source = decode_name(&d->r);
    c.n_ground_truths = decode_count(&d->r, 4);
    if (d->r.failed)
        return fail_corrupt_record("sampling parameters");
    texts = sr1__calloc(c.n_ground_truths, sizeof *texts);
    lens = sr1__calloc(c.n_ground_truths, sizeof *lens);
    status = texts && lens ? SR1_OK : sr1__fail_nomem("gold answers");
    if (status == SR1_OK)
        status = decode_ground_truths(&d->r, texts, lens, c.n_ground_truths);
    if (status == SR1_OK) {
        c.ground_truths = texts;
        c.ground_truth_lens = lens;
        status = sr1__trajectory_builder_context(d->b, &c);
    }
    sr1__free(texts);
    sr1__free(lens);
    return status;
}

static sr1_status decode_policy_tokens(struct record_decoder *d, int32_t turn, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        int32_t id = (int32_t)sr1__read_u32(&d->r);
        float log_prob = sr1__read_f32(&d->r);
        size_t len = sr1__read_u32(&d->r);
        const char *text = next_text_piece(d, len);

        if (!text)
            return fail_corrupt_record("policy tokens");
        SR1__TRY(sr1__trajectory_builder_policy(d->b, id, log_prob, turn, text, len));
    }
    return SR1_OK;
}

static sr1_status decode_block(struct record_decoder *d, int32_t turn, size_t n)
{
    size_t len = sr1__read_u32(&d->r);
    size_t body_begin = sr1__read_u32(&d->r);
    size_t body_len = sr1__read_u32(&d->r);
    const char *text = next_text_piece(d, len);
    int32_t *ids = NULL;
    sr1_status status;

    if (!text)
        return fail_corrupt_record("inserted block");
    SR1__TRY(decode_ids(&d->r, n, &ids));
    status = sr1__trajectory_builder_environment(d->b, ids, n, turn, text, len,
                                                 body_begin, body_len);
    sr1__free(ids);
    return status;
}

static sr1_status decode_segments(struct record_decoder *d)
{
    size_t n = decode_count(&d->r, 9);

    for (size_t i = 0; i < n; i++) {
        int32_t source = sr1__read_u8(&d->r);
        int32_t turn = (int32_t)sr1__read_u32(&d->r);
        size_t count = sr1__read_u32(&d->r);

        if (source == SR1_SOURCE_POLICY)
            SR1__TRY(decode_policy_tokens(d, turn, count));
        else if (source == SR1_SOURCE_ENVIRONMENT)
            SR1__TRY(decode_block(d, turn, count));
        else
            return fail_corrupt_record("segments");
    }
    return d->r.failed || d->text_left ? fail_corrupt_record("segments") : SR1_OK;
}

static sr1_status decode_action(struct record_decoder *d)
{
    const char *hit_ids[SR1_TRAJECTORY_MAX_HIT_IDS];
    int32_t turn = (int32_t)sr1__read_u32(&d->r);
    int32_t status = (int32_t)sr1__read_u32(&d->r);
    int32_t n_hits = (int32_t)sr1__read_u32(&d->r);
    size_t len;
    const char *query = decode_bytes(&d->r, &len);
    int64_t n = (int64_t)decode_count(&d->r, 5);
    int64_t most =
        n_hits < SR1_TRAJECTORY_MAX_HIT_IDS ? n_hits : SR1_TRAJECTORY_MAX_HIT_IDS;
    double reward;
    int32_t success;

    if (n != 0 && n != most)
        return fail_corrupt_record("searches");
    for (int64_t k = 0; k < n; k++)
        hit_ids[k] = decode_name(&d->r);
    reward = sr1__read_f64(&d->r);
    success = sr1__read_u8(&d->r);
    if (d->r.failed)
        return fail_corrupt_record("searches");
    SR1__TRY(sr1__trajectory_builder_action(d->b, turn, query, len, status, n_hits,
                                            n ? hit_ids : NULL));
    return sr1__trajectory_builder_action_reward(d->b, reward, success);
}

/* The builder: everything before the stop reason. */
static sr1_status decode_tokens(struct record_decoder *d)
{
    size_t n;
    int32_t *ids = NULL;
    sr1_status status;

    SR1__TRY(decode_context(d));
    d->text = decode_bytes(&d->r, &d->text_left);
    n = sr1__read_u32(&d->r);
    if (d->r.failed)
        return fail_corrupt_record("text");
    SR1__TRY(decode_ids(&d->r, n, &ids));
    status = sr1__trajectory_builder_prompt(d->b, ids, n);
    sr1__free(ids);
    SR1__TRY(status);
    SR1__TRY(decode_segments(d));
    n = decode_count(&d->r, 29);
    for (size_t i = 0; i < n; i++)
        SR1__TRY(decode_action(d));
    return SR1_OK;
}

static sr1_status decode_reward(struct sr1__reader *r, sr1_trajectory *t, double total)
{
    size_t n = decode_count(r, 21);
    struct sr1__reward_value *parts = sr1__calloc(n, sizeof *parts);
    sr1_status status;

    SR1__CHECK_ALLOC(parts, "reward parts");
    for (size_t i = 0; i < n; i++) {
        parts[i].name = decode_name(r);
        parts[i].value = sr1__read_f64(r);
        parts[i].weight = sr1__read_f64(r);
    }
    status = r->failed ? fail_corrupt_record("reward parts")
                       : sr1__trajectory_set_reward(t, parts, n, total);
    sr1__free(parts);
    return status;
}

static sr1_status decode_column(struct sr1__reader *r, sr1_trajectory *t, int32_t column)
{
    float *v;
    sr1_status status;

    if (t->n_policy == 0 || t->n_policy > r->left / 4)
        return fail_corrupt_record(sr1_column_name(column));
    v = sr1__malloc(t->n_policy * sizeof *v);
    SR1__CHECK_ALLOC(v, sr1_column_name(column));
    for (size_t i = 0; i < t->n_policy; i++)
        v[i] = sr1__read_f32(r);
    status = sr1_trajectory_set_column(t, column, v, t->n_policy);
    sr1__free(v);
    return status;
}

static sr1_status decode_columns(struct sr1__reader *r, sr1_trajectory *t)
{
    uint32_t columns = sr1__read_u32(r);

    if (columns >> SR1_COLUMN_COUNT)
        return fail_corrupt_record("columns");
    for (int32_t c = 0; c < SR1_COLUMN_COUNT; c++)
        if (columns >> c & 1)
            SR1__TRY(decode_column(r, t, c));
    return SR1_OK;
}

static sr1_status decode_credit(struct sr1__reader *r, sr1_trajectory *t)
{
    uint8_t flags = sr1__read_u8(r);
    double reward = sr1__read_f64(r);
    double advantage = sr1__read_f64(r);

    if (r->failed || flags > SR1__CODEC_FLAGS)
        return fail_corrupt_record("reward");
    if (flags & SR1__CODEC_REWARD)
        SR1__TRY(decode_reward(r, t, reward));
    else if (decode_count(r, 21) != 0)
        return fail_corrupt_record("reward");
    if (flags & SR1__CODEC_ADVANTAGE)
        SR1__TRY(sr1_trajectory_set_advantage(t, advantage));
    t->begins_in_thought = (flags & SR1__CODEC_IN_THOUGHT) != 0;
    return decode_columns(r, t);
}

static sr1_status decode_history(struct sr1__reader *r, sr1_trajectory *t)
{
    struct sr1__messages m = {0};
    sr1_status status = SR1_OK;
    size_t n = decode_count(r, 9), size;

    while (!r->failed && status == SR1_OK && n-- > 0) {
        const char *role = decode_name(r), *text = decode_bytes(r, &size);

        if (!r->failed)
            status = sr1__messages_add(&m, role, text, size);
    }
    if (status == SR1_OK)
        status = r->failed
                     ? fail_corrupt_record("history")
                     : sr1__trajectory_set_history(t, m.roles, m.texts, m.sizes, m.n);
    sr1__messages_free(&m);
    return status;
}

static sr1_status decode_row(struct sr1__reader *r, sr1_trajectory *t)
{
    size_t len;
    const char *row = decode_bytes(r, &len);

    return row ? sr1__row_text_new(&t->row, row, len) : fail_corrupt_record("row");
}

static sr1_status decode_versions(struct sr1__reader *r, sr1_trajectory *t)
{
    size_t n = decode_count(r, 12);
    struct sr1__version_run *runs = sr1__calloc(n + 1, sizeof *runs);
    sr1_status status;

    SR1__CHECK_ALLOC(runs, "weights versions");
    for (size_t i = 0; i < n; i++) {
        runs[i].begin = sr1__read_u32(r);
        runs[i].version = (int64_t)sr1__read_u64(r);
    }
    status = r->failed || n == 1 ? fail_corrupt_record("weights versions")
                                 : sr1__trajectory_set_versions(t, runs, n);
    sr1__free(runs);
    return status;
}

static sr1_status decode_trajectory(struct record_decoder *d, sr1_trajectory **out)
{
    sr1_trajectory *t = NULL;
    int32_t stop_reason;
    const char *answer;
    size_t len;
    sr1_status status;

    SR1__TRY(decode_tokens(d));
    stop_reason = (int32_t)sr1__read_u32(&d->r);
    answer = decode_bytes(&d->r, &len);
    if (!answer)
        return fail_corrupt_record("answer");
    status = sr1__trajectory_builder_finish(d->b, stop_reason, answer, len, &t);
    d->b = NULL;
    SR1__TRY(status);
    status = decode_credit(&d->r, t);
    if (status == SR1_OK && d->version >= SR1__CODEC_WITH_HISTORY)
        status = decode_history(&d->r, t);
    if (status == SR1_OK && d->version >= SR1__CODEC_WITH_ROW)
        status = decode_row(&d->r, t);
    if (status == SR1_OK && d->version >= SR1__CODEC_WITH_VERSIONS)
        status = decode_versions(&d->r, t);
    if (status == SR1_OK && d->version >= SR1__CODEC_WITH_COPY)
        status = sr1__trajectory_set_copy(t, (int64_t)sr1__read_u64(&d->r));
    if (status == SR1_OK && (d->r.failed || d->r.left))
        status = fail_corrupt_record("end");
    if (status == SR1_OK)
        *out = t;
    else
        sr1_trajectory_free(t);
    return status;
}

/* The builder's complaints about what a record holds are complaints about the record. */
static sr1_status to_corrupt_record(sr1_status status)
{
    if (status == SR1_OK || status == SR1_E_NOMEM || status == SR1_E_CORRUPT)
        return status;
    return sr1__fail(SR1_E_CORRUPT, "trajectory record: %s", sr1_last_error());
}

sr1_status sr1__trajectory_decode_payload(sr1_trajectory **out, const void *bytes,
                                          size_t n, uint32_t version)
{
    struct record_decoder d = {.version = version};
    int32_t sample;
    const char *query, *query_id;
    size_t query_len;
    sr1_status status;

    sr1__reader_init(&d.r, bytes, n);
    sample = (int32_t)sr1__read_u32(&d.r);
    query = decode_bytes(&d.r, &query_len);
    query_id = decode_name(&d.r);
    if (d.r.failed)
        return fail_corrupt_record("query");
    status = sr1__trajectory_builder_new(&d.b, query, query_len, query_id, sample);
    if (status == SR1_OK)
        status = decode_trajectory(&d, out);
    sr1__trajectory_builder_free(d.b);
    return to_corrupt_record(status);
}

sr1_status sr1_trajectory_decode(sr1_trajectory **out, const void *bytes, size_t n)
{
    struct sr1__reader r;
    const char *magic;
    uint32_t version;
    uint64_t size, check;

    SR1__REQUIRE(out && (bytes || !n), "trajectory record: out and bytes");
    sr1__reader_init(&r, bytes, n);
    magic = sr1__read_bytes(&r, 4);
    version = sr1__read_u32(&r);
    size = sr1__read_u64(&r);
    check = sr1__read_u64(&r);
    if (r.failed || memcmp(magic, SR1__CODEC_MAGIC, 4) != 0)
        return sr1__fail(SR1_E_CORRUPT, "trajectory record: does not begin as one");
    if (version < SR1__CODEC_OLDEST || version > SR1__CODEC_VERSION)
        return sr1__fail(SR1_E_UNSUPPORTED,
                         "trajectory record: version %u, this library reads %u to %u",
                         version, SR1__CODEC_OLDEST, SR1__CODEC_VERSION);
    if (size != r.left)
        return sr1__fail(SR1_E_CORRUPT, "trajectory record: %zu bytes where %llu belong",
                         r.left, (unsigned long long)size);
    if (check != sr1__hash64(r.p, r.left, version))
        return sr1__fail(SR1_E_CORRUPT, "trajectory record: its checksum does not match");
    return sr1__trajectory_decode_payload(out, r.p, r.left, version);
}
