/* signal/reward/source_rewards.c - rewards by the data source of a row, as verl's
 * default_compute_score chooses a scorer. */
#include "signal/reward/source_rewards.h"

#include "base/mem.h"
#include "base/text.h"

/* What text begins with up to a mark, stripped, and taken off with the mark. */
static struct sr1__str cut_item(struct sr1__str *text, char mark)
{
    const char *end = memchr(text->s, mark, text->n);
    struct sr1__str item = {text->s, end ? (size_t)(end - text->s) : text->n};
    size_t begin = 0, taken = item.n + (end != NULL);

    text->s += taken;
    text->n -= taken;
    sr1__strip(item.s, &begin, &item.n);
    item.s += begin;
    return item;
}

static int is_of_same_source(const struct sr1__source_reward *a,
                             const struct sr1__source_reward *b)
{
    return a->begins == b->begins && sr1__str_equal(a->source, b->source);
}

static sr1_status add_source_reward(struct sr1__source_rewards *s,
                                    const struct sr1__source_reward *row)
{
    for (size_t i = 0; i < s->n; i++)
        if (is_of_same_source(&s->rows[i], row) &&
            sr1__str_equal(s->rows[i].reward, row->reward))
            return sr1__fail(SR1_E_CONFIG,
                             "data_source_rewards: '%.*s%s' has the reward '%.*s' twice",
                             (int)row->source.n, row->source.s, row->begins ? "*" : "",
                             (int)row->reward.n, row->reward.s);
    SR1__RESERVE(s->rows, s->cap, s->n + 1, "rewards of data sources");
    s->rows[s->n++] = *row;
    return SR1_OK;
}

/* SOURCE=REWARD+REWARD; a source may have a = in it. */
static sr1_status add_source_item(struct sr1__source_rewards *s, struct sr1__str item)
{
    const char *sign = memrchr(item.s, '=', item.n);
    struct sr1__str left = {item.s, sign ? (size_t)(sign - item.s) : 0}, rest = item;
    struct sr1__source_reward row = {.source = cut_item(&left, '\0')};
    int named = row.source.n > 0 && !sr1__str_ends_with(item, "+");

    row.begins = named && sr1__str_ends_with(row.source, "*");
    row.source.n -= (size_t)row.begins;
    rest.s += sign ? sign + 1 - item.s : 0;
    rest.n -= (size_t)(rest.s - item.s);
    do {
        row.reward = cut_item(&rest, '+');
        if (!named || row.reward.n == 0)
            return sr1__fail(SR1_E_CONFIG,
                             "data_source_rewards: '%.*s' is not SOURCE=REWARD or "
                             "SOURCE=REWARD+REWARD, as in openai/gsm8k=gsm8k",
                             item.n < 100 ? (int)item.n : 100, item.s);
        SR1__TRY(add_source_reward(s, &row));
    } while (rest.n > 0);
    return SR1_OK;
}

sr1_status sr1__source_rewards_read(struct sr1__source_rewards *out, const char *text)
{
    struct sr1__str rest;

    *out = (struct sr1__source_rewards){0};
    if (text == NULL || *text == '\0')
        return SR1_OK;
    out->text = sr1__strdup(text);
    SR1__CHECK_ALLOC(out->text, "rewards of data sources");
    rest = sr1__str_of(out->text);
    while (rest.n > 0)
        SR1__TRY(add_source_item(out, cut_item(&rest, ',')));
    return SR1_OK;
}

void sr1__source_rewards_free(struct sr1__source_rewards *s)
{
    sr1__free(s->rows);
    sr1__free(s->text);
    *s = (struct sr1__source_rewards){0};
}

/* How well a row's source fits: 0 not at all, most where it is the source itself. */
static size_t measure_fit(const struct sr1__source_reward *row, struct sr1__str source)
{
    if (!row->begins)
        return sr1__str_equal(row->source, source) ? SIZE_MAX : 0;
    return row->source.n <= source.n &&
                   sr1__str_equal(row->source, (struct sr1__str){source.s, row->source.n})
               ? row->source.n + 1
               : 0;
}

/* NULL: there is none. */
static const struct sr1__source_reward *
find_reward_of_source(const struct sr1__source_rewards *s, struct sr1__str source)
{
    const struct sr1__source_reward *found = NULL;
    size_t best = 0;

    for (size_t i = 0; i < s->n; i++) {
        size_t fit = measure_fit(&s->rows[i], source);

        if (fit > best) {
            best = fit;
            found = &s->rows[i];
        }
    }
    return found;
}

sr1_status sr1__source_rewards_apply(const struct sr1__source_rewards *s,
                                     const char *source, const char *reward, int *applies)
{
    const struct sr1__source_reward *found =
        find_reward_of_source(s, sr1__str_of(source));
    int is_named = 0, is_its = 0;

    if (s->n > 0 && found == NULL)
        return sr1__fail(SR1_E_CONFIG,
                         "data_source_rewards has no entry for the data source '%.100s'; "
                         "add '%.100s=REWARD', or '*=REWARD' for all that have none",
                         source, source);
    for (size_t i = 0; i < s->n; i++) {
        int is_it = sr1__str_is(s->rows[i].reward, reward);

        is_named |= is_it;
        is_its |= is_it && is_of_same_source(&s->rows[i], found);
    }
    *applies = is_its || !is_named;
    return SR1_OK;
}
