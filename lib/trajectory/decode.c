/* trajectory/decode.c - read the binary form that codec.h describes.
 *
 * The builder makes the trajectory, so a record that was made up cannot give one that the
 * builder would refuse. */
#include "trajectory/codec.h"

#include "base/buf.h"
#include "base/mem.h"
#include "base/rng.h"
#include "trajectory/builder.h"
#include "trajectory/layout.h"

#include <string.h>

struct decoder {
    struct sr1__reader r;
    uint32_t version;
    struct sr1__trajectory_builder *b;
    const char *text; /* of the whole; handed out piece by piece */
    size_t text_left;
};

static sr1_status broken(const char *what)
{
    return sr1__fail(SR1_E_CORRUPT, "trajectory record: its %s cannot be read", what);
}

static const char *get_bytes(struct sr1__reader *r, size_t *len)
{
    *len = sr1__read_u32(r);
    return sr1__read_bytes(r, *len);
}

/* NULL (and the reader failed) unless the text ends with its only NUL. */
static const char *get_name(struct sr1__reader *r)
{
    size_t len;
    const char *s = get_bytes(r, &len);

    if (s && len > 0 && memchr(s, '\0', len) == s + len - 1)
        return s;
    r->failed = 1;
    return NULL;
}

/* A count of items that take at least min_size bytes each. */
static size_t get_count(struct sr1__reader *r, size_t min_size)
{
    size_t n = sr1__read_u32(r);

    if (n > r->left / min_size)
        r->failed = 1;
    return r->failed ? 0 : n;
}

static sr1_status get_ids(struct sr1__reader *r, size_t n, int32_t **out)
{
    struct sr1__reader ids;
    int32_t *v;

    if (n > r->left / 4)
        return broken("token ids");
    sr1__reader_init(&ids, sr1__read_bytes(r, 4 * n), 4 * n);
    v = sr1__malloc(n * sizeof *v);
    if (!v)
        return sr1__fail_nomem("token ids");
    for (size_t i = 0; i < n; i++)
        v[i] = (int32_t)sr1__read_u32(&ids);
    *out = v;
    return SR1_OK;
}

/* The next n bytes of the generated text, or NULL. */
static const char *take_text(struct decoder *d, size_t n)
{
    const char *piece = d->text;

    if (d->r.failed || n > d->text_left)
        return NULL;
    d->text += n;
    d->text_left -= n;
    return piece;
}

static sr1_status get_truths(struct sr1__reader *r, const char **texts, size_t *lens,
                             size_t n)
{
    for (size_t i = 0; i < n; i++)
        texts[i] = get_bytes(r, &lens[i]);
    return r->failed ? broken("gold answers") : SR1_OK;
}

static sr1_status get_context(struct decoder *d)
{
    struct sr1__trajectory_context c = {0};
    const char **texts;
    size_t *lens;
    sr1_status status;

    c.temperature = sr1__read_f64(&d->r);
    c.top_p = sr1__read_f64(&d->r);
    c.top_k = (int32_t)sr1__read_u32(&d->r);
    c.weights_version = (int64_t)sr1__read_u64(&d->r);
    c.data_source = get_name(&d->r);
    c.n_ground_truths = get_count(&d->r, 4);
    if (d->r.failed)
        return broken("sampling parameters");
    texts = sr1__calloc(c.n_ground_truths, sizeof *texts);
    lens = sr1__calloc(c.n_ground_truths, sizeof *lens);
    status = texts && lens ? SR1_OK : sr1__fail_nomem("gold answers");
    if (status == SR1_OK)
        status = get_truths(&d->r, texts, lens, c.n_ground_truths);
    if (status == SR1_OK) {
        c.ground_truths = texts;
        c.ground_truth_lens = lens;
        status = sr1__trajectory_builder_context(d->b, &c);
    }
    sr1__free(texts);
    sr1__free(lens);
    return status;
}

static sr1_status get_policy_tokens(struct decoder *d, int32_t turn, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        int32_t id = (int32_t)sr1__read_u32(&d->r);
        float log_prob = sr1__read_f32(&d->r);
        size_t len = sr1__read_u32(&d->r);
        const char *text = take_text(d, len);

        if (!text)
            return broken("policy tokens");
        SR1__TRY(sr1__trajectory_builder_policy(d->b, id, log_prob, turn, text, len));
    }
    return SR1_OK;
}

static sr1_status get_block(struct decoder *d, int32_t turn, size_t n)
{
    size_t len = sr1__read_u32(&d->r);
    size_t body_begin = sr1__read_u32(&d->r);
    size_t body_len = sr1__read_u32(&d->r);
    const char *text = take_text(d, len);
    int32_t *ids = NULL;
    sr1_status status;

    if (!text)
        return broken("inserted block");
    SR1__TRY(get_ids(&d->r, n, &ids));
    status = sr1__trajectory_builder_environment(d->b, ids, n, turn, text, len,
                                                 body_begin, body_len);
    sr1__free(ids);
    return status;
}

static sr1_status get_segments(struct decoder *d)
{
    size_t n = get_count(&d->r, 9);

    for (size_t i = 0; i < n; i++) {
        int32_t source = sr1__read_u8(&d->r);
        int32_t turn = (int32_t)sr1__read_u32(&d->r);
        size_t count = sr1__read_u32(&d->r);

        if (source == SR1_SOURCE_POLICY)
            SR1__TRY(get_policy_tokens(d, turn, count));
        else if (source == SR1_SOURCE_ENVIRONMENT)
            SR1__TRY(get_block(d, turn, count));
        else
            return broken("segments");
    }
    return d->r.failed || d->text_left ? broken("segments") : SR1_OK;
}

static sr1_status get_search(struct decoder *d)
{
    const char *hit_ids[SR1_TRAJECTORY_MAX_HIT_IDS];
    int32_t turn = (int32_t)sr1__read_u32(&d->r);
    int32_t status = (int32_t)sr1__read_u32(&d->r);
    int32_t n_hits = (int32_t)sr1__read_u32(&d->r);
    size_t len;
    const char *query = get_bytes(&d->r, &len);
    int64_t n = (int64_t)get_count(&d->r, 5);
    int64_t most =
        n_hits < SR1_TRAJECTORY_MAX_HIT_IDS ? n_hits : SR1_TRAJECTORY_MAX_HIT_IDS;
    double reward;
    int32_t success;

    if (n != 0 && n != most)
        return broken("searches");
    for (int64_t k = 0; k < n; k++)
        hit_ids[k] = get_name(&d->r);
    reward = sr1__read_f64(&d->r);
    success = sr1__read_u8(&d->r);
    if (d->r.failed)
        return broken("searches");
    SR1__TRY(sr1__trajectory_builder_search(d->b, turn, query, len, status, n_hits,
                                            n ? hit_ids : NULL));
    return sr1__trajectory_builder_earned(d->b, reward, success);
}

/* The builder: everything before the stop reason. */
static sr1_status get_tokens(struct decoder *d)
{
    size_t n;
    int32_t *ids = NULL;
    sr1_status status;

    SR1__TRY(get_context(d));
    d->text = get_bytes(&d->r, &d->text_left);
    n = sr1__read_u32(&d->r);
    if (d->r.failed)
        return broken("text");
    SR1__TRY(get_ids(&d->r, n, &ids));
    status = sr1__trajectory_builder_prompt(d->b, ids, n);
    sr1__free(ids);
    SR1__TRY(status);
    SR1__TRY(get_segments(d));
    n = get_count(&d->r, 29);
    for (size_t i = 0; i < n; i++)
        SR1__TRY(get_search(d));
    return SR1_OK;
}

static sr1_status get_reward(struct sr1__reader *r, sr1_trajectory *t, double total)
{
    size_t n = get_count(r, 21);
    struct sr1__reward_value *parts = sr1__calloc(n, sizeof *parts);
    sr1_status status;

    if (!parts)
        return sr1__fail_nomem("reward parts");
    for (size_t i = 0; i < n; i++) {
        parts[i].name = get_name(r);
        parts[i].value = sr1__read_f64(r);
        parts[i].weight = sr1__read_f64(r);
    }
    status = r->failed ? broken("reward parts")
                       : sr1__trajectory_set_reward(t, parts, n, total);
    sr1__free(parts);
    return status;
}

static sr1_status get_column(struct sr1__reader *r, sr1_trajectory *t, int32_t column)
{
    float *v;
    sr1_status status;

    if (t->n_policy == 0 || t->n_policy > r->left / 4)
        return broken(sr1_column_name(column));
    v = sr1__malloc(t->n_policy * sizeof *v);
    if (!v)
        return sr1__fail_nomem(sr1_column_name(column));
    for (size_t i = 0; i < t->n_policy; i++)
        v[i] = sr1__read_f32(r);
    status = sr1_trajectory_set_column(t, column, v, t->n_policy);
    sr1__free(v);
    return status;
}

static sr1_status get_columns(struct sr1__reader *r, sr1_trajectory *t)
{
    uint32_t columns = sr1__read_u32(r);

    if (columns >> SR1_COLUMN_COUNT)
        return broken("columns");
    for (int32_t c = 0; c < SR1_COLUMN_COUNT; c++)
        if (columns >> c & 1)
            SR1__TRY(get_column(r, t, c));
    return SR1_OK;
}

static sr1_status get_credit(struct sr1__reader *r, sr1_trajectory *t)
{
    uint8_t flags = sr1__read_u8(r);
    double reward = sr1__read_f64(r);
    double advantage = sr1__read_f64(r);

    if (r->failed || flags > (SR1__CODEC_REWARD | SR1__CODEC_ADVANTAGE))
        return broken("reward");
    if (flags & SR1__CODEC_REWARD)
        SR1__TRY(get_reward(r, t, reward));
    else if (get_count(r, 21) != 0)
        return broken("reward");
    if (flags & SR1__CODEC_ADVANTAGE)
        SR1__TRY(sr1_trajectory_set_advantage(t, advantage));
    return get_columns(r, t);
}

static sr1_status fill_history(struct sr1__reader *r, sr1_trajectory *t,
                               const char **roles, const char **texts, size_t *sizes,
                               size_t n)
{
    for (size_t i = 0; i < n; i++) {
        roles[i] = get_name(r);
        texts[i] = get_bytes(r, &sizes[i]);
    }
    return r->failed ? broken("history")
                     : sr1__trajectory_set_history(t, roles, texts, sizes, n);
}

static sr1_status get_history(struct sr1__reader *r, sr1_trajectory *t)
{
    size_t n = get_count(r, 9);
    const char **roles = sr1__calloc(n + 1, sizeof *roles);
    const char **texts = sr1__calloc(n + 1, sizeof *texts);
    size_t *sizes = sr1__calloc(n + 1, sizeof *sizes);
    sr1_status status = roles && texts && sizes ? SR1_OK : sr1__fail_nomem("history");

    if (status == SR1_OK)
        status = fill_history(r, t, roles, texts, sizes, n);
    sr1__free(roles);
    sr1__free(texts);
    sr1__free(sizes);
    return status;
}

static sr1_status decode(struct decoder *d, sr1_trajectory **out)
{
    sr1_trajectory *t = NULL;
    int32_t stop_reason;
    const char *answer;
    size_t len;
    sr1_status status;

    SR1__TRY(get_tokens(d));
    stop_reason = (int32_t)sr1__read_u32(&d->r);
    answer = get_bytes(&d->r, &len);
    if (!answer)
        return broken("answer");
    status = sr1__trajectory_builder_finish(d->b, stop_reason, answer, len, &t);
    d->b = NULL;
    SR1__TRY(status);
    status = get_credit(&d->r, t);
    if (status == SR1_OK && d->version > SR1__CODEC_OLDEST)
        status = get_history(&d->r, t);
    if (status == SR1_OK && (d->r.failed || d->r.left))
        status = broken("end");
    if (status == SR1_OK)
        *out = t;
    else
        sr1_trajectory_free(t);
    return status;
}

/* The builder's complaints about what a record holds are complaints about the record. */
static sr1_status blame_record(sr1_status status)
{
    if (status == SR1_OK || status == SR1_E_NOMEM || status == SR1_E_CORRUPT)
        return status;
    return sr1__fail(SR1_E_CORRUPT, "trajectory record: %s", sr1_last_error());
}

sr1_status sr1__trajectory_decode_payload(sr1_trajectory **out, const void *bytes,
                                          size_t n, uint32_t version)
{
    struct decoder d = {.version = version};
    int32_t sample;
    const char *query, *query_id;
    size_t query_len;
    sr1_status status;

    sr1__reader_init(&d.r, bytes, n);
    sample = (int32_t)sr1__read_u32(&d.r);
    query = get_bytes(&d.r, &query_len);
    query_id = get_name(&d.r);
    if (d.r.failed)
        return broken("query");
    status = sr1__trajectory_builder_new(&d.b, query, query_len, query_id, sample);
    if (status == SR1_OK)
        status = decode(&d, out);
    sr1__trajectory_builder_free(d.b);
    return blame_record(status);
}

sr1_status sr1_trajectory_decode(sr1_trajectory **out, const void *bytes, size_t n)
{
    struct sr1__reader r;
    const char *magic;
    uint32_t version;
    uint64_t size, check;

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
