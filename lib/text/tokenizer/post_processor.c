/* text/tokenizer/post_processor.c - the kinds of post-processors, rows of the table at
 * the end: each becomes a template for one text and one for two. */
#include "text/tokenizer/post_processor.h"

#include "text/tokenizer/vocab.h"

#include <string.h>

static sr1_status add_template_item(struct sr1__post_processor_template *t, json_int_t id,
                                    json_int_t type, const char *name)
{
    if (t->n == SR1__POST_PROCESSOR_MAX)
        return sr1__fail(SR1_E_LIMIT, "%s: post_processor: more than %d tokens", name,
                         SR1__POST_PROCESSOR_MAX);
    if (id > (json_int_t)SR1__TOKEN_ID_MAX || type < 0 || type > INT32_MAX)
        return sr1__fail(SR1_E_PARSE, "%s: post_processor: bad id or type_id", name);
    t->items[t->n].id = (int32_t)id;
    t->items[t->n++].type = (int32_t)type;
    return SR1_OK;
}

static sr1_status load_none(struct sr1__post_processor *to, const json_t *o,
                            const char *name)
{
    (void)o;
    to->single.n = to->pair.n = 0;
    SR1__TRY(add_template_item(&to->single, SR1__POST_PROCESSOR_TEXT, 0, name));
    SR1__TRY(add_template_item(&to->pair, SR1__POST_PROCESSOR_TEXT, 0, name));
    return add_template_item(&to->pair, SR1__POST_PROCESSOR_PAIR, 1, name);
}

/* "sep" and "cls" are pairs of a token and its id. */
static sr1_status named_id(const json_t *o, const char *key, const char *name,
                           json_int_t *id)
{
    const json_t *value = json_array_get(json_object_get(o, key), 1);

    *id = json_integer_value(value);
    return json_is_integer(value) && *id >= 0
               ? SR1_OK
               : sr1__fail(SR1_E_PARSE,
                           "%s: post_processor: '%s' needs a token and its id", name,
                           key);
}

/* cls A sep, then (sep of RoBERTa) B sep, of the second type. */
static sr1_status load_cls_sep(struct sr1__post_processor *to, const json_t *o,
                               const char *name, int two_seps, int type)
{
    struct sr1__post_processor_template *both[2] = {&to->single, &to->pair};
    json_int_t sep, cls;

    SR1__TRY(named_id(o, "sep", name, &sep));
    SR1__TRY(named_id(o, "cls", name, &cls));
    to->single.n = to->pair.n = 0;
    for (int i = 0; i < 2; i++) {
        SR1__TRY(add_template_item(both[i], cls, 0, name));
        SR1__TRY(add_template_item(both[i], SR1__POST_PROCESSOR_TEXT, 0, name));
        SR1__TRY(add_template_item(both[i], sep, 0, name));
    }
    if (two_seps)
        SR1__TRY(add_template_item(&to->pair, sep, 0, name));
    SR1__TRY(add_template_item(&to->pair, SR1__POST_PROCESSOR_PAIR, type, name));
    return add_template_item(&to->pair, sep, type, name);
}

static sr1_status load_bert_processing(struct sr1__post_processor *to, const json_t *o,
                                       const char *name)
{
    return load_cls_sep(to, o, name, 0, 1);
}

static sr1_status load_roberta(struct sr1__post_processor *to, const json_t *o,
                               const char *name)
{
    return load_cls_sep(to, o, name, 1, 0);
}

/* {"SpecialToken": {"id", "type_id"}}: one or more ids, by the list of the file. */
static sr1_status add_special(struct sr1__post_processor_template *t, const json_t *piece,
                              const json_t *special, const char *name)
{
    const char *token = json_string_value(json_object_get(piece, "id"));
    const json_t *ids =
        json_object_get(token ? json_object_get(special, token) : NULL, "ids");
    const json_t *id;
    size_t i;

    if (!json_is_array(ids))
        return sr1__fail(SR1_E_PARSE,
                         "%s: post_processor: '%s' is not in its special_tokens", name,
                         token ? token : "");
    json_array_foreach(ids, i, id)
    {
        if (!json_is_integer(id) || json_integer_value(id) < 0)
            return sr1__fail(SR1_E_PARSE, "%s: post_processor: bad id of '%s'", name,
                             token);
        SR1__TRY(add_template_item(t, json_integer_value(id),
                                   json_integer_value(json_object_get(piece, "type_id")),
                                   name));
    }
    return SR1_OK;
}

static sr1_status add_sequence_item(struct sr1__post_processor_template *t,
                                    const json_t *piece, int pairs, const char *name)
{
    const char *which = json_string_value(json_object_get(piece, "id"));
    int second = which && strcmp(which, "B") == 0;

    if (!second && (!which || strcmp(which, "A") != 0))
        return sr1__fail(SR1_E_PARSE, "%s: post_processor: a Sequence is A or B", name);
    if (second && !pairs)
        return sr1__fail(SR1_E_PARSE, "%s: post_processor: 'single' names a second text",
                         name);
    return add_template_item(t,
                             second ? SR1__POST_PROCESSOR_PAIR : SR1__POST_PROCESSOR_TEXT,
                             json_integer_value(json_object_get(piece, "type_id")), name);
}

/* Each text once: how far texts are cut is counted by that. */
static sr1_status check_texts(const struct sr1__post_processor_template *t, int pairs,
                              const char *name)
{
    int texts = 0, seconds = 0;

    for (size_t i = 0; i < t->n; i++) {
        texts += t->items[i].id == SR1__POST_PROCESSOR_TEXT;
        seconds += t->items[i].id == SR1__POST_PROCESSOR_PAIR;
    }
    return texts == 1 && seconds == pairs
               ? SR1_OK
               : sr1__fail(SR1_E_UNSUPPORTED,
                           "%s: the post-processor TemplateProcessing with a text left "
                           "out or given twice is not supported",
                           name);
}

static sr1_status load_side(struct sr1__post_processor_template *t, const json_t *list,
                            const json_t *special, int pairs, const char *name)
{
    const json_t *item;
    size_t i;

    t->n = 0;
    json_array_foreach(list, i, item)
    {
        const json_t *sequence = json_object_get(item, "Sequence");

        SR1__TRY(sequence ? add_sequence_item(t, sequence, pairs, name)
                          : add_special(t, json_object_get(item, "SpecialToken"), special,
                                        name));
    }
    return check_texts(t, pairs, name);
}

static sr1_status load_template(struct sr1__post_processor *to, const json_t *o,
                                const char *name)
{
    const json_t *special = json_object_get(o, "special_tokens");

    SR1__TRY(load_side(&to->single, json_object_get(o, "single"), special, 0, name));
    return load_side(&to->pair, json_object_get(o, "pair"), special, 1, name);
}

/* ByteLevel only changes offsets, which are not kept here, so it has no effect. */
static sr1_status load_byte_level_processing(struct sr1__post_processor *to,
                                             const json_t *o, const char *name)
{
    (void)to;
    (void)o;
    (void)name;
    return SR1_OK;
}

static const struct {
    const char *type;
    sr1_status (*load)(struct sr1__post_processor *to, const json_t *o, const char *name);
    int adds; /* whether it puts tokens around the texts */
} kinds[] = {
    {"ByteLevel", load_byte_level_processing, 0},
    {"TemplateProcessing", load_template, 1},
    {"BertProcessing", load_bert_processing, 1},
    {"RobertaProcessing", load_roberta, 1},
};

static sr1_status load_kind(struct sr1__post_processor *to, const json_t *o,
                            const char *name, int *adds)
{
    const char *type = json_string_value(json_object_get(o, "type"));

    for (size_t i = 0; type && i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(kinds[i].type, type) != 0)
            continue;
        if (kinds[i].adds && *adds)
            return sr1__fail(SR1_E_UNSUPPORTED,
                             "%s: the post-processor Sequence with two that add tokens "
                             "is not supported",
                             name);
        *adds |= kinds[i].adds;
        return kinds[i].load(to, o, name);
    }
    return sr1__fail(SR1_E_UNSUPPORTED, "%s: the post-processor '%s' is not supported",
                     name, type ? type : "");
}

sr1_status sr1__post_processor_load(struct sr1__post_processor *to, const json_t *o,
                                    const char *name)
{
    const char *type = json_string_value(json_object_get(o, "type"));
    const json_t *item;
    size_t i;
    int adds = 0;

    SR1__TRY(load_none(to, o, name));
    if (json_is_null(o))
        return SR1_OK;
    if (!type || strcmp(type, "Sequence") != 0)
        return load_kind(to, o, name, &adds);
    json_array_foreach(json_object_get(o, "processors"), i, item)
        SR1__TRY(load_kind(to, item, name, &adds));
    return SR1_OK;
}
