/* tensor/weights/rope_config.c - reading and writing rope_parameters and rope_scaling.
 * Names, defaults and what is needed are those of transformers' modeling_rope_utils. */
#include "tensor/weights/rope_config.h"

#include "base/log.h"
#include "tensor/weights/hf_keys.h"

#include <stdio.h>
#include <string.h>

static const char *const rope_types[SR1__ROPE_TYPES] = {"default", "linear", "llama3",
                                                        "yarn"};

#define OF(type) (1u << SR1__ROPE_##type)
#define SCALED (OF(LINEAR) | OF(LLAMA3) | OF(YARN))

/* A number of a scaling. */
static const struct rope_member {
    const char *key;
    size_t offset;
    unsigned of;     /* types that have it */
    unsigned needed; /* types that cannot do without */
    double def;      /* 0: none */
    double min, max;
} rope_members[] = {
#define MEMBER(key, member, of, needed, def, min, max)                                   \
    {                                                                                    \
        key, offsetof(struct sr1__rope_config, member), of, needed, def, min, max        \
    }
    MEMBER("factor", factor, SCALED, SCALED, 0, 1, 1e6),
    MEMBER("original_max_position_embeddings", original_max_positions,
           OF(LLAMA3) | OF(YARN), 0, 0, 1, 1 << 30),
    MEMBER("low_freq_factor", low_freq_factor, OF(LLAMA3), OF(LLAMA3), 0, 1e-6, 1e6),
    MEMBER("high_freq_factor", high_freq_factor, OF(LLAMA3), OF(LLAMA3), 0, 1e-6, 1e6),
    MEMBER("beta_fast", beta_fast, OF(YARN), 0, 32, 1e-6, 1e6),
    MEMBER("beta_slow", beta_slow, OF(YARN), 0, 1, 1e-6, 1e6),
    MEMBER("attention_factor", attention_factor, OF(YARN), 0, 0, 1e-6, 1e6),
    MEMBER("mscale", mscale, OF(YARN), 0, 0, 1e-6, 1e6),
    MEMBER("mscale_all_dim", mscale_all_dim, OF(YARN), 0, 0, 1e-6, 1e6),
#undef MEMBER
};
#define N_MEMBERS (sizeof rope_members / sizeof *rope_members)

static double *member_at(struct sr1__rope_config *c, const struct rope_member *row)
{
    return (double *)(void *)((char *)c + row->offset);
}

static double member_value(const struct sr1__rope_config *c,
                           const struct rope_member *row)
{
    return *member_at((struct sr1__rope_config *)(uintptr_t)c, row);
}

static int type_has(const struct sr1__rope_config *c, const struct rope_member *row)
{
    return (row->of >> c->type & 1) != 0;
}

/* ---- reading ---- */

static sr1_status read_rope_type(struct sr1__rope_config *c, const json_t *o,
                                 const char *key, const char *remedy, const char *name)
{
    const json_t *type = sr1__json_given(o, "rope_type");
    const char *text;

    c->type = SR1__ROPE_DEFAULT;
    if (!type)
        type = sr1__json_given(o, "type");
    if (!type && sr1__json_given(o, "factor"))
        return sr1__fail(SR1_E_PARSE, "%s: '%s' has a factor and no rope_type", name,
                         key);
    text = type ? json_string_value(type) : rope_types[SR1__ROPE_DEFAULT];
    for (int32_t i = 0; text && i < SR1__ROPE_TYPES; i++) {
        if (strcmp(text, rope_types[i]) == 0) {
            c->type = i;
            return SR1_OK;
        }
    }
    return sr1__fail(SR1_E_UNSUPPORTED,
                     "%s: '%s': rope of type '%.64s' is not supported, default, linear, "
                     "llama3 and yarn are; %s",
                     name, key, text ? text : "(no text)", remedy);
}

/* Members that this type does not have are ignored with a warning, as in transformers; an
 * object as member means parameters of each layer type. */
static sr1_status check_rope_names(const struct sr1__rope_config *c, const json_t *o,
                                   const char *key, const char *remedy, const char *name)
{
    static const char always[] = " rope_type type rope_theta partial_rotary_factor ";
    const char *member;
    json_t *value;
    char word[64];

    json_object_foreach((json_t *)(uintptr_t)o, member, value)
    {
        int known;

        if (json_is_object(value))
            return sr1__fail(SR1_E_UNSUPPORTED,
                             "%s: '%s' has parameters by layer type ('%.64s'), which are "
                             "not supported; %s",
                             name, key, member, remedy);
        snprintf(word, sizeof word, " %.60s ", member);
        known = json_is_null(value) || strstr(always, word) ||
                (c->type == SR1__ROPE_YARN && strcmp(member, "truncate") == 0);
        for (size_t i = 0; i < N_MEMBERS && !known; i++)
            known =
                type_has(c, &rope_members[i]) && strcmp(rope_members[i].key, member) == 0;
        if (!known)
            sr1__log(SR1_LOG_WARN, "%s: '%s' member '%.64s' is not known and not used",
                     name, key, member);
    }
    return SR1_OK;
}

static sr1_status read_rope_members(struct sr1__rope_config *c, const json_t *o,
                                    double max_positions, const char *key,
                                    const char *name)
{
    for (size_t i = 0; i < N_MEMBERS; i++) {
        const struct rope_member *row = &rope_members[i];
        double *value = member_at(c, row);

        *value = 0;
        if (!type_has(c, row))
            continue;
        if (!sr1__json_given(o, row->key) && (row->needed >> c->type & 1))
            return sr1__fail(SR1_E_PARSE, "%s: '%s' of type %s needs '%s'", name, key,
                             rope_types[c->type], row->key);
        *value = row->def;
        SR1__TRY(sr1__hf_real(o, row->key, name, value));
    }
    if (c->original_max_positions == 0 && c->type >= SR1__ROPE_LLAMA3)
        c->original_max_positions = max_positions;
    c->whole_dims = c->type == SR1__ROPE_YARN;
    return c->whole_dims ? sr1__hf_flag(o, "truncate", name, &c->whole_dims) : SR1_OK;
}

sr1_status sr1__rope_config_read_object(struct sr1__rope_config *c, const json_t *root,
                                        double max_positions, const char *key,
                                        const char *remedy, const char *name)
{
    const json_t *o = sr1__json_given(root, key);
    double partial = 1.0;

    if (!o)
        return SR1_OK;
    if (!json_is_object(o))
        return sr1__fail(SR1_E_PARSE, "%s: '%s' is not an object", name, key);
    SR1__TRY(sr1__hf_real(o, "partial_rotary_factor", name, &partial));
    if (partial != 1.0)
        return sr1__hf_refuse(name, "partial_rotary_factor", "partial rope", remedy);
    SR1__TRY(read_rope_type(c, o, key, remedy, name));
    SR1__TRY(check_rope_names(c, o, key, remedy, name));
    SR1__TRY(read_rope_members(c, o, max_positions, key, name));
    return sr1__hf_real(o, "rope_theta", name, &c->theta);
}

sr1_status sr1__rope_config_read(struct sr1__rope_config *out, const json_t *root,
                                 double max_positions, const char *remedy,
                                 const char *name)
{
    struct sr1__rope_config c = {.theta = out->theta};

    SR1__TRY(sr1__hf_real(root, "rope_theta", name, &c.theta));
    SR1__TRY(sr1__rope_config_read_object(&c, root, max_positions, "rope_parameters",
                                          remedy, name));
    SR1__TRY(sr1__rope_config_read_object(&c, root, max_positions, "rope_scaling", remedy,
                                          name));
    *out = c;
    return SR1_OK;
}

sr1_status sr1__rope_config_check(const struct sr1__rope_config *c, const char *name)
{
    if (c->type < 0 || c->type >= SR1__ROPE_TYPES)
        return sr1__fail(SR1_E_INVALID, "%s: no type of rope", name);
    SR1__TRY(sr1__hf_real_check(c->theta, 1e12, "rope_theta", name));
    for (size_t i = 0; i < N_MEMBERS; i++) {
        const struct rope_member *row = &rope_members[i];
        double v = member_value(c, row);
        int may_miss = !type_has(c, row) || (row->def == 0 && !row->needed);

        if (!(v >= row->min && v <= row->max) && !(v == 0 && may_miss))
            return sr1__fail(SR1_E_INVALID, "%s: '%s' must be from %g to %g, not %g",
                             name, row->key, row->min, row->max, v);
    }
    if (c->type == SR1__ROPE_LLAMA3 && c->high_freq_factor <= c->low_freq_factor)
        return sr1__fail(SR1_E_INVALID,
                         "%s: 'high_freq_factor' must be above 'low_freq_factor'", name);
    if (c->type == SR1__ROPE_YARN && (c->beta_fast < c->beta_slow || c->theta <= 1))
        return sr1__fail(SR1_E_INVALID,
                         "%s: yarn needs 'beta_fast' of at least 'beta_slow', and "
                         "'rope_theta' above 1",
                         name);
    return SR1_OK;
}

/* ---- writing ---- */

static json_t *member_json(double v, const char *key)
{
    int whole = strcmp(key, "original_max_position_embeddings") == 0;

    return whole ? json_integer((json_int_t)v) : json_real(v);
}

json_t *sr1__rope_config_json(const struct sr1__rope_config *c)
{
    json_t *o =
        json_pack("{s:s, s:f}", "rope_type", rope_types[c->type], "rope_theta", c->theta);
    int bad = !o;

    for (size_t i = 0; i < N_MEMBERS && !bad; i++) {
        const struct rope_member *row = &rope_members[i];
        double v = member_value(c, row);

        if (type_has(c, row) && v != row->def) /* a default of 0: there is none */
            bad = json_object_set_new(o, row->key, member_json(v, row->key));
    }
    if (!bad && c->type == SR1__ROPE_YARN && !c->whole_dims)
        bad = json_object_set_new(o, "truncate", json_false());
    if (!bad)
        return o;
    json_decref(o);
    return NULL;
}
