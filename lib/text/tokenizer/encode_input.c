/* text/tokenizer/encode_input.c - the input of an encoder: one text or two with the
 * special tokens of the file's post-processor (post_processor.h), truncated to a number
 * of tokens.
 *
 * Two texts are truncated as the reference's "longest_first" does: the longer one to the
 * room that the shorter one leaves, and both, as evenly as possible, if that is not
 * enough. */
#include "text/tokenizer/tokenizer_internal.h"

#include "base/mem.h"

#include <string.h>

/* The ids of one text, of which [from, from + keep) stay. */
struct input_part {
    struct sr1__ids ids;
    size_t from;
    size_t keep;
};

static void truncate_part(struct input_part *p, size_t keep, int left)
{
    p->keep = keep < p->ids.n ? keep : p->ids.n;
    p->from = left ? p->ids.n - p->keep : 0;
}

static void truncate_both_parts(struct input_part *a, struct input_part *b, size_t room,
                                int left)
{
    struct input_part *small = a->ids.n > b->ids.n ? b : a, *large = small == a ? b : a;
    size_t few = small->ids.n, many = large->ids.n;

    if (few + many > room) {
        many = few > room || room - few < few ? few : room - few;
        if (few + many > room) {
            few = room / 2;
            many = few + room % 2;
        }
    }
    truncate_part(small, few, left);
    truncate_part(large, many, left);
}

static size_t count_specials(const struct sr1__post_processor_template *t)
{
    size_t n = 0;

    for (size_t i = 0; i < t->n; i++)
        n += t->items[i].id >= 0;
    return n;
}

/* Write a text or a token of the template; returns how many ids it was. */
static size_t write_input_part(const struct input_part *parts, int32_t id, int32_t type,
                               int32_t *ids, int32_t *types)
{
    const struct input_part *p = id < 0 ? &parts[id == SR1__POST_PROCESSOR_PAIR] : NULL;
    size_t n = p ? p->keep : 1;

    if (!p)
        ids[0] = id;
    else if (n)
        memcpy(ids, p->ids.v + p->from, n * sizeof *ids);
    for (size_t i = 0; i < n; i++)
        types[i] = type;
    return n;
}

static sr1_status join_input_parts(const struct sr1__post_processor_template *t,
                                   const struct input_part *parts, int32_t **ids,
                                   int32_t **type_ids, size_t *n_ids)
{
    size_t n = count_specials(t) + parts[0].keep + parts[1].keep, at = 0;
    int32_t *v = sr1__calloc(n + 1, sizeof *v); /* never NULL, even for no ids */
    int32_t *types = sr1__calloc(n + 1, sizeof *types);

    if (!v || !types) {
        sr1__free(v);
        sr1__free(types);
        return sr1__fail_nomem("token ids");
    }
    for (size_t i = 0; i < t->n; i++)
        at +=
            write_input_part(parts, t->items[i].id, t->items[i].type, v + at, types + at);
    if (type_ids)
        *type_ids = types;
    else
        sr1__free(types);
    *ids = v;
    *n_ids = at;
    return SR1_OK;
}

sr1_status sr1_tokenizer_encode_input(const sr1_tokenizer *t, const char *text,
                                      const char *pair, size_t max_tokens, int32_t **ids,
                                      int32_t **type_ids, size_t *n_ids)
{
    struct input_part parts[2] = {0};
    const struct sr1__post_processor_template *around;
    size_t specials;
    sr1_status status;

    if (!t || !text || !ids || !n_ids)
        return sr1__fail(SR1_E_INVALID,
                         "encode input: tokenizer, text, ids and n_ids are needed");
    around = pair ? &t->templates.pair : &t->templates.single;
    specials = count_specials(around);
    if (max_tokens < specials)
        return sr1__fail(SR1_E_INVALID,
                         "encode input: at most %zu tokens, but %zu are special tokens",
                         max_tokens, specials);
    status =
        sr1__tokenizer_encode(t, text, strlen(text), SR1_ENCODE_ALL_ADDED, &parts[0].ids);
    if (status == SR1_OK && pair)
        status = sr1__tokenizer_encode(t, pair, strlen(pair), SR1_ENCODE_ALL_ADDED,
                                       &parts[1].ids);
    if (status == SR1_OK) {
        truncate_both_parts(&parts[0], &parts[1], max_tokens - specials, t->cut_left);
        status = join_input_parts(around, parts, ids, type_ids, n_ids);
    }
    sr1__ids_free(&parts[0].ids);
    sr1__ids_free(&parts[1].ids);
    return status;
}
