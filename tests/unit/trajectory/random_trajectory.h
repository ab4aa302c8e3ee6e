/* random_trajectory.h - trajectories of any shape for property tests: any finite bit
 * pattern as a number, any bytes as text, empty parts as often as full ones. */
#ifndef RANDOM_TRAJECTORY_H
#define RANDOM_TRAJECTORY_H

#include <searchr1/ext/trajectory_details.h>

#include "base/mem.h"
#include "base/rng.h"
#include "environment/trajectory/builder.h"
#include "environment/trajectory/row_text.h"
#include "environment/trajectory/trajectory.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define RANDOM_TEXT_MAX 24

static size_t below(struct sr1__rng *r, size_t n)
{
    return (size_t)sr1__rng_below(r, n);
}

static double any_double(struct sr1__rng *r)
{
    uint64_t bits;
    double v;

    do {
        bits = sr1__rng_u64(r);
        memcpy(&v, &bits, sizeof v);
    } while (!isfinite(v));
    return below(r, 8) ? v : -0.0;
}

static float any_float(struct sr1__rng *r)
{
    uint32_t bits;
    float v;

    do {
        bits = (uint32_t)sr1__rng_u64(r);
        memcpy(&v, &bits, sizeof v);
    } while (!isfinite(v));
    return below(r, 8) ? v : -0.0f;
}

/* Words, NUL, two-, three- and four-byte characters, and bytes that are no UTF-8. */
static size_t any_text(struct sr1__rng *r, char *out)
{
    static const struct {
        const char *data;
        size_t len;
    } pieces[] = {
        {"the answer", 10},      {"</search>", 9},  {"\0", 1},   {"\xc3\xa9", 2},
        {"\xe6\x9c\xaa", 3},     {"\n\"\\\x7f", 4}, {"\xff", 1}, {"\xed\xa0\x80", 3},
        {"\xf0\x9f\x99\x82", 4}, {"\xf0\x9f", 2},   {" ", 1},    {"\x01", 1}};
    size_t n = below(r, 3), len = 0;
    int clean = below(r, 2) == 0; /* whole texts without bad bytes must occur */

    for (size_t i = 0; i < n; i++) {
        size_t k = below(r, sizeof pieces / sizeof *pieces);

        if (clean && (pieces[k].data[0] == '\xff' || pieces[k].data[0] == '\xed' ||
                      pieces[k].len == 2))
            continue;
        memcpy(out + len, pieces[k].data, pieces[k].len);
        len += pieces[k].len;
    }
    out[len] = '\0';
    return len;
}

/* Without NUL. */
static const char *any_name(struct sr1__rng *r, char *out)
{
    size_t n = any_text(r, out);

    for (size_t i = 0; i < n; i++)
        if (out[i] == '\0')
            out[i] = '.';
    return out;
}

static void any_ids(struct sr1__rng *r, int32_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++)
        ids[i] = (int32_t)below(r, below(r, 2) ? 151936 : (size_t)INT32_MAX + 1);
}

static sr1_status add_context(struct sr1__rng *r, struct sr1__trajectory_builder *b)
{
    char texts[3][RANDOM_TEXT_MAX], source[RANDOM_TEXT_MAX];
    const char *truths[3] = {texts[0], texts[1], texts[2]};
    size_t lens[3];
    struct sr1__trajectory_context c = {.temperature = fabs(any_double(r)),
                                        .top_p = 1.0 - sr1__rng_uniform(r),
                                        .top_k = (int32_t)below(r, 100),
                                        .weights_version = (int64_t)below(r, 1000) - 1,
                                        .begins_in_thought = (int32_t)below(r, 2),
                                        .data_source = any_name(r, source),
                                        .ground_truths = truths,
                                        .ground_truth_lens = lens,
                                        .n_ground_truths = below(r, 4)};

    for (size_t i = 0; i < 3; i++)
        lens[i] = any_text(r, texts[i]);
    return sr1__trajectory_builder_context(b, &c);
}

static sr1_status add_history(struct sr1__rng *r, struct sr1__trajectory_builder *b)
{
    char roles[3][RANDOM_TEXT_MAX], texts[3][RANDOM_TEXT_MAX];
    const char *role[3], *text[3] = {texts[0], texts[1], texts[2]};
    size_t sizes[3];

    for (size_t i = 0; i < 3; i++) {
        role[i] = any_name(r, roles[i]);
        sizes[i] = any_text(r, texts[i]);
    }
    return sr1__trajectory_builder_history(b, role, text, sizes, below(r, 4));
}

static sr1_status add_row(struct sr1__rng *r, struct sr1__trajectory_builder *b)
{
    static const char *const rows[] = {"{}", "{\"hex\": \"c0af\"}",
                                       "{\"a\":[1,2.50,null], \"\u00e9\": {}}"};
    struct sr1__row_text *row;
    const char *text = rows[below(r, 3)];

    SR1__TRY(sr1__row_text_new(&row, text, strlen(text)));
    sr1__trajectory_builder_row(b, row);
    sr1__row_text_free(row);
    return SR1_OK;
}

static sr1_status add_search(struct sr1__rng *r, struct sr1__trajectory_builder *b,
                             int32_t turn)
{
    char query[RANDOM_TEXT_MAX], names[20][RANDOM_TEXT_MAX];
    const char *ids[20];
    size_t len = any_text(r, query);
    int32_t hits = (int32_t)below(r, 21);

    for (size_t i = 0; i < 20; i++)
        ids[i] = any_name(r, names[i]);
    return sr1__trajectory_builder_action(b, turn, query, len, (int32_t)below(r, 4), hits,
                                          below(r, 4) ? ids : NULL);
}

static sr1_status add_block(struct sr1__rng *r, struct sr1__trajectory_builder *b,
                            int32_t turn)
{
    char text[RANDOM_TEXT_MAX];
    int32_t ids[12];
    size_t len = any_text(r, text), n = 1 + below(r, 12), begin = below(r, len + 1);

    any_ids(r, ids, n);
    return sr1__trajectory_builder_environment(b, ids, n, turn, text, len, begin,
                                               below(r, len - begin + 1));
}

static sr1_status add_turn(struct sr1__rng *r, struct sr1__trajectory_builder *b,
                           int32_t turn, size_t most)
{
    char text[RANDOM_TEXT_MAX];
    size_t n = below(r, most + 1);

    for (size_t i = 0; i < n; i++) {
        int32_t id;
        size_t len = any_text(r, text);

        any_ids(r, &id, 1);
        SR1__TRY(sr1__trajectory_builder_policy(b, id, any_float(r), turn, text, len));
    }
    if (n && below(r, 2))
        SR1__TRY(sr1__trajectory_flush_text(b, "\xef\xbf\xbd", 3));
    if (below(r, 2))
        SR1__TRY(add_search(r, b, turn));
    return below(r, 2) ? add_block(r, b, turn) : SR1_OK;
}

static sr1_status add_tokens(struct sr1__rng *r, struct sr1__trajectory_builder *b,
                             size_t most)
{
    int32_t prompt[40];
    size_t n_prompt = below(r, 41);

    if (below(r, 4))
        SR1__TRY(add_context(r, b));
    if (below(r, 2))
        SR1__TRY(add_history(r, b));
    if (below(r, 2))
        SR1__TRY(add_row(r, b));
    if (n_prompt == 0)
        return SR1_OK; /* an empty trajectory */
    any_ids(r, prompt, n_prompt);
    SR1__TRY(sr1__trajectory_builder_prompt(b, prompt, n_prompt));
    for (int32_t turn = 0, n = (int32_t)below(r, 5); turn < n; turn++)
        SR1__TRY(add_turn(r, b, turn, most));
    return SR1_OK;
}

static sr1_status add_credit(struct sr1__rng *r, sr1_trajectory *t)
{
    char names[2][RANDOM_TEXT_MAX];
    struct sr1__reward_value parts[2];
    float numbers[512];
    size_t n = sr1_trajectory_policy_count(t);

    for (size_t i = 0; i < 2; i++)
        parts[i] = (struct sr1__reward_value){any_name(r, names[i]), any_double(r),
                                              any_double(r)};
    if (below(r, 2))
        SR1__TRY(sr1__trajectory_set_reward(t, parts, below(r, 3), any_double(r)));
    if (below(r, 2))
        SR1__TRY(sr1_trajectory_set_advantage(t, any_double(r)));
    for (int32_t c = 0; c < SR1_COLUMN_COUNT; c++) {
        if (n > sizeof numbers / sizeof *numbers || below(r, 2))
            continue;
        for (size_t i = 0; i < n; i++)
            numbers[i] = any_float(r);
        SR1__TRY(sr1_trajectory_set_column(t, c, numbers, n));
    }
    return SR1_OK;
}

/* At most `most` policy tokens a turn. The whole is a function of *r; *out is touched
 * only on success. */
static sr1_status random_trajectory(struct sr1__rng *r, size_t most, sr1_trajectory **out)
{
    char query[RANDOM_TEXT_MAX], id[RANDOM_TEXT_MAX], answer[RANDOM_TEXT_MAX];
    size_t query_len = any_text(r, query), answer_len = any_text(r, answer);
    struct sr1__trajectory_builder *b = NULL;
    sr1_trajectory *t = NULL;
    sr1_status status;

    SR1__TRY(sr1__trajectory_builder_new(&b, query, query_len, any_name(r, id),
                                         (int32_t)below(r, 8)));
    status = add_tokens(r, b, most);
    if (status != SR1_OK) {
        sr1__trajectory_builder_free(b);
        return status;
    }
    SR1__TRY(
        sr1__trajectory_builder_finish(b, (int32_t)below(r, 10), answer, answer_len, &t));
    status = add_credit(r, t);
    if (status == SR1_OK)
        *out = t;
    else
        sr1_trajectory_free(t);
    return status;
}

#endif
