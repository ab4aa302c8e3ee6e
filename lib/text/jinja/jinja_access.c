/* text/jinja/jinja_access.c - members, items and slices of values, and the methods of
 * dicts and lists. value.name looks for a method first, value['name'] for an item. */
#include "text/jinja/jinja_tree.h"

#include <string.h>

/* ---- methods of dicts and lists ---- */

static sr1_status dict_parts(struct sr1__jrun *r, struct sr1__jcall *c,
                             struct sr1__jvalue *out)
{
    const struct sr1__jdict *d = c->self.dict;
    struct sr1__jvalue item;

    SR1__TRY(sr1__jlist_new(r, c->how, out));
    for (size_t i = 0; i < d->n; i++) {
        item = c->how == SR1__J_IS_KEYS ? d->v[i].key : d->v[i].value;
        if (c->how == SR1__J_IS_ITEMS)
            SR1__TRY(sr1__jvalue_pair(r, d->v[i].key, d->v[i].value, &item));
        SR1__TRY(sr1__jlist_add(r, out->list, item));
    }
    return SR1_OK;
}

static sr1_status dict_get(struct sr1__jrun *r, struct sr1__jcall *c,
                           struct sr1__jvalue *out)
{
    struct sr1__jvalue *there;

    SR1__TRY(sr1__jdict_find(r, c->self.dict, &c->arg[0], &there));
    *out = there                             ? *there
           : c->arg[1].kind == SR1__J_ABSENT ? sr1__jvalue_none()
                                             : c->arg[1];
    return SR1_OK;
}

static sr1_status dict_copy(struct sr1__jrun *r, struct sr1__jcall *c,
                            struct sr1__jvalue *out)
{
    SR1__TRY(sr1__jdict_new(r, SR1__J_DICT, out));
    for (size_t i = 0; i < c->self.dict->n; i++)
        SR1__TRY(sr1__jdict_set(r, out->dict, c->self.dict->v[i].key,
                                c->self.dict->v[i].value));
    return SR1_OK;
}

sr1_status sr1__jinja_refuse_change(struct sr1__jrun *r, struct sr1__jcall *c,
                                    struct sr1__jvalue *out)
{
    (void)out;
    return sr1__jrun_fail(r,
                          "templates must not change a %s; build another value, or use a "
                          "namespace",
                          sr1__jvalue_type(&c->self));
}

static const struct sr1__jfunction dict_methods[] = {
    {"items", dict_parts, "", 0, SR1__J_IS_ITEMS},
    {"keys", dict_parts, "", 0, SR1__J_IS_KEYS},
    {"values", dict_parts, "", 0, SR1__J_IS_VALUES},
    {"get", dict_get, "key default", 1},
    {"copy", dict_copy, "", 0},
    {"clear", sr1__jinja_refuse_change, NULL, 0},
    {"pop", sr1__jinja_refuse_change, NULL, 0},
    {"popitem", sr1__jinja_refuse_change, NULL, 0},
    {"setdefault", sr1__jinja_refuse_change, NULL, 0},
    {"update", sr1__jinja_refuse_change, NULL, 0},
    {"fromkeys", NULL, NULL, 0},
    {NULL, NULL, NULL, 0},
};

static sr1_status find_in_list(struct sr1__jrun *r, struct sr1__jcall *c, size_t *count,
                               size_t *first)
{
    int equal;

    *count = 0;
    SR1__TRY(sr1__jrun_spend(r, c->self.list->n));
    for (size_t i = 0; i < c->self.list->n; i++) {
        SR1__TRY(sr1__jvalue_equal(r, &c->self.list->v[i], &c->arg[0], &equal));
        if (equal && (*count)++ == 0)
            *first = i;
    }
    return SR1_OK;
}

static sr1_status list_count(struct sr1__jrun *r, struct sr1__jcall *c,
                             struct sr1__jvalue *out)
{
    size_t n, first;

    SR1__TRY(find_in_list(r, c, &n, &first));
    *out = sr1__jvalue_int((int64_t)n);
    return SR1_OK;
}

static sr1_status list_index(struct sr1__jrun *r, struct sr1__jcall *c,
                             struct sr1__jvalue *out)
{
    size_t n, first = 0;

    SR1__TRY(find_in_list(r, c, &n, &first));
    if (!n)
        return sr1__jrun_fail(r, "index: the value is not in the list");
    *out = sr1__jvalue_int((int64_t)first);
    return SR1_OK;
}

static sr1_status list_copy(struct sr1__jrun *r, struct sr1__jcall *c,
                            struct sr1__jvalue *out)
{
    SR1__TRY(sr1__jlist_new(r, SR1__J_IS_LIST, out));
    return sr1__jlist_extend(r, out->list, c->self.list);
}

static const struct sr1__jfunction list_methods[] = {
    {"count", list_count, "value", 1},
    {"index", list_index, "value", 1},
    {"copy", list_copy, "", 0},
    {"append", sr1__jinja_refuse_change, NULL, 0},
    {"clear", sr1__jinja_refuse_change, NULL, 0},
    {"extend", sr1__jinja_refuse_change, NULL, 0},
    {"insert", sr1__jinja_refuse_change, NULL, 0},
    {"pop", sr1__jinja_refuse_change, NULL, 0},
    {"remove", sr1__jinja_refuse_change, NULL, 0},
    {"reverse", sr1__jinja_refuse_change, NULL, 0},
    {"sort", sr1__jinja_refuse_change, NULL, 0},
    {NULL, NULL, NULL, 0},
};

static const struct sr1__jfunction tuple_methods[] = {
    {"count", list_count, "value", 1},
    {"index", list_index, "value", 1},
    {NULL, NULL, NULL, 0},
};

/* ---- tuples with members ---- */

static sr1_status cycler_next(struct sr1__jrun *r, struct sr1__jcall *c,
                              struct sr1__jvalue *out)
{
    struct sr1__jlist *l = c->self.list;

    (void)r;
    *out = l->v[l->start];
    l->start = (l->start + 1) % (int64_t)l->n;
    return SR1_OK;
}

static sr1_status cycler_reset(struct sr1__jrun *r, struct sr1__jcall *c,
                               struct sr1__jvalue *out)
{
    (void)r;
    c->self.list->start = 0;
    *out = sr1__jvalue_none();
    return SR1_OK;
}

static const struct sr1__jfunction cycler_methods[] = {
    {"next", cycler_next, "", 0},
    {"reset", cycler_reset, "", 0},
    {NULL, NULL, NULL, 0},
};

/* grouper and list of a group, current of a cycler. */
static int find_member(const struct sr1__jvalue *v, const char *name,
                       struct sr1__jvalue *out)
{
    const struct sr1__jlist *l = v->kind == SR1__J_LIST ? v->list : NULL;
    int64_t at = -1;

    if (l && l->members == SR1__J_GROUP)
        at = strcmp(name, "grouper") == 0 ? 0 : strcmp(name, "list") == 0 ? 1 : -1;
    if (l && l->members == SR1__J_CYCLER && strcmp(name, "current") == 0)
        at = l->start;
    if (at >= 0)
        *out = l->v[at];
    return at >= 0;
}

const struct sr1__jfunction *sr1__jfunction_find(const struct sr1__jfunction *rows,
                                                 const char *name)
{
    for (; rows && rows->name; rows++)
        if (strcmp(rows->name, name) == 0)
            return rows;
    return NULL;
}

const struct sr1__jfunction *sr1__jinja_method(const struct sr1__jvalue *v,
                                               const char *name)
{
    if (v->kind == SR1__J_TEXT)
        return sr1__jfunction_find(sr1__jinja_text_methods, name);
    if (v->kind == SR1__J_DICT)
        return sr1__jfunction_find(dict_methods, name);
    if (v->kind != SR1__J_LIST)
        return NULL;
    if (v->list->members == SR1__J_CYCLER)
        return sr1__jfunction_find(cycler_methods, name);
    if (v->form == SR1__J_IS_LIST)
        return sr1__jfunction_find(list_methods, name);
    return v->form <= SR1__J_IS_RANGE ? sr1__jfunction_find(tuple_methods, name) : NULL;
}

/* ---- members and items ---- */

static sr1_status fail_undefined(const struct sr1__jrun *r, const struct sr1__jvalue *v,
                                 const char *name)
{
    return sr1__jrun_fail(r, "%s%s%s is undefined and has no '%s'", v->hint ? "'" : "",
                          v->hint ? v->hint : "a value", v->hint ? "'" : "", name);
}

/* A name that a copy of keeps in the run's memory. */
static sr1_status keep_hint(struct sr1__jrun *r, struct sr1__jtext t, const char **out)
{
    char *copy;
    size_t n = t.n > 80 ? 0 : t.n;

    SR1__J_TAKE(r, copy, n + 1);
    if (n)
        memcpy(copy, t.s, n);
    *out = n ? copy : NULL;
    return SR1_OK;
}

static int find_method(struct sr1__jrun *r, const struct sr1__jvalue *v, const char *name,
                       struct sr1__jvalue *out, sr1_status *status)
{
    const struct sr1__jfunction *f = sr1__jinja_method(v, name);

    *status = f ? sr1__jvalue_function(r, f, *v, out) : SR1_OK;
    return f != NULL;
}

static int find_in_namespace(const struct sr1__jvalue *v, const char *name,
                             struct sr1__jvalue *out)
{
    struct sr1__jvalue *there =
        v->kind == SR1__J_NAMESPACE ? sr1__jdict_named(v->dict, name) : NULL;

    if (there)
        *out = *there;
    return there != NULL;
}

sr1_status sr1__jvalue_attribute(struct sr1__jrun *r, const struct sr1__jvalue *v,
                                 const char *name, struct sr1__jvalue *out)
{
    struct sr1__jvalue *there;
    sr1_status status;
    int known = 0;

    if (v->kind == SR1__J_UNDEFINED)
        return fail_undefined(r, v, name);
    if (v->kind == SR1__J_DICT || v->kind == SR1__J_NAMESPACE)
        SR1__TRY(sr1__jrun_spend(r, v->dict->n / 8));
    if (v->kind == SR1__J_LOOP)
        SR1__TRY(sr1__jloop_attribute(r, v->loop, name, out, &known));
    if (known || find_in_namespace(v, name, out) || find_member(v, name, out))
        return SR1_OK;
    if (find_method(r, v, name, out, &status))
        return status;
    there = v->kind == SR1__J_DICT ? sr1__jdict_named(v->dict, name) : NULL;
    *out = there ? *there : sr1__jvalue_undefined(name);
    return SR1_OK;
}

/* Position in a list of n by a number that may count from the end; 0: there is none. */
static int find_position(int64_t i, size_t n, size_t *at)
{
    i += i < 0 ? (int64_t)n : 0;
    *at = (size_t)i;
    return i >= 0 && *at < n;
}

/* The bytes where the characters from..to of a text are; its end when it has fewer. */
static size_t skip_chars(struct sr1__jtext t, size_t at, size_t chars)
{
    uint32_t cp;

    while (chars-- && at < t.n)
        at += sr1__jinja_char(t.s + at, t.n - at, &cp);
    return at;
}

static sr1_status text_item(struct sr1__jrun *r, const struct sr1__jvalue *v, int64_t i,
                            struct sr1__jvalue *out)
{
    size_t n, at, from;

    SR1__TRY(sr1__jvalue_length(r, v, &n));
    *out = sr1__jvalue_undefined(NULL);
    if (!find_position(i, n, &at))
        return SR1_OK;
    from = skip_chars(v->text, 0, at);
    *out =
        sr1__jvalue_text(sr1__jtext_slice(v->text, from, skip_chars(v->text, from, 1)));
    out->form = v->form;
    return SR1_OK;
}

/* value['name'] where no item has the name: its member. */
static sr1_status named_item(struct sr1__jrun *r, const struct sr1__jvalue *v,
                             struct sr1__jtext key, struct sr1__jvalue *out)
{
    const char *name = NULL;
    sr1_status status;
    int known = 0;

    if (v->kind == SR1__J_NAMESPACE)
        SR1__TRY(sr1__jrun_spend(r, v->dict->n / 8));
    SR1__TRY(keep_hint(r, key, &name));
    *out = sr1__jvalue_undefined(name);
    if (!name)
        return SR1_OK;
    if (v->kind == SR1__J_LOOP)
        SR1__TRY(sr1__jloop_attribute(r, v->loop, name, out, &known));
    if (!known && !find_in_namespace(v, name, out) && !find_member(v, name, out) &&
        find_method(r, v, name, out, &status))
        return status;
    return SR1_OK;
}

sr1_status sr1__jvalue_item(struct sr1__jrun *r, const struct sr1__jvalue *v,
                            const struct sr1__jvalue *key, struct sr1__jvalue *out)
{
    struct sr1__jvalue *there = NULL;
    size_t at;

    if (v->kind == SR1__J_UNDEFINED)
        return fail_undefined(r, v, "[...]");
    *out = sr1__jvalue_undefined(NULL);
    if (v->kind == SR1__J_DICT) {
        if (key->kind == SR1__J_LIST || key->kind == SR1__J_DICT)
            return SR1_OK;
        SR1__TRY(sr1__jdict_find(r, v->dict, key, &there));
        if (there) {
            *out = *there;
            return SR1_OK;
        }
    }
    if (key->kind == SR1__J_TEXT)
        return named_item(r, v, key->text, out);
    if (!sr1__jvalue_is_integer(key))
        return SR1_OK;
    if (v->kind == SR1__J_TEXT)
        return text_item(r, v, key->i, out);
    if (v->kind == SR1__J_LIST && v->form <= SR1__J_IS_RANGE &&
        find_position(key->i, v->list->n, &at))
        *out = v->list->v[at];
    return SR1_OK;
}

/* ---- slices ---- */

struct slice_range {
    int64_t start, stop, step;
};

static int64_t clamp_bound(int64_t i, int64_t n, int64_t low, int64_t high)
{
    i += i < 0 ? n : 0;
    return i < low ? low : i > high ? high : i;
}

/* Python's rules for start, stop and step over n items. */
static sr1_status read_range(struct sr1__jrun *r, const struct sr1__jvalue bound[3],
                             int64_t n, struct slice_range *s)
{
    int64_t low, high;

    for (int i = 0; i < 3; i++)
        if (sr1__jarg_given(&bound[i]) && !sr1__jvalue_is_integer(&bound[i]))
            return sr1__jrun_fail(r, "a slice needs whole numbers, not a %s",
                                  sr1__jvalue_type(&bound[i]));
    SR1__TRY(sr1__jarg_int(r, &bound[2], 1, &s->step));
    if (s->step == 0)
        return sr1__jrun_fail(r, "a slice needs a step other than 0");
    s->step = s->step > n + 1 ? n + 1 : s->step < -n - 1 ? -n - 1 : s->step;
    low = s->step > 0 ? 0 : -1;
    high = s->step > 0 ? n : n - 1;
    SR1__TRY(sr1__jarg_int(r, &bound[0], 0, &s->start));
    SR1__TRY(sr1__jarg_int(r, &bound[1], 0, &s->stop));
    s->start = bound[0].kind <= SR1__J_NONE ? (s->step > 0 ? low : high)
                                            : clamp_bound(s->start, n, low, high);
    s->stop = bound[1].kind <= SR1__J_NONE ? (s->step > 0 ? high : low)
                                           : clamp_bound(s->stop, n, low, high);
    return SR1_OK;
}

static sr1_status slice_text(struct sr1__jrun *r, struct sr1__jtext t,
                             struct slice_range s, struct sr1__jvalue *out)
{
    struct sr1__jvalue whole = sr1__jvalue_text(t);
    struct sr1__jlist *chars;
    struct sr1__jout o;
    size_t from;

    if (s.step == 1) {
        from = skip_chars(t, 0, (size_t)s.start);
        SR1__TRY(sr1__jrun_spend(r, t.n / 64));
        *out = sr1__jvalue_text(sr1__jtext_slice(
            t, from,
            s.stop > s.start ? skip_chars(t, from, (size_t)(s.stop - s.start)) : from));
        return SR1_OK;
    }
    SR1__TRY(sr1__jvalue_iterate(r, &whole, &chars));
    sr1__jout_init(&o, r);
    for (int64_t i = s.start; s.step > 0 ? i < s.stop : i > s.stop; i += s.step)
        sr1__jout_text(&o, chars->v[i].text);
    return sr1__jout_value(&o, out);
}

/* Start, stop and step of a part of a range. */
static sr1_status slice_range_bounds(struct sr1__jrun *r, const struct sr1__jlist *whole,
                                     const struct slice_range *s, struct sr1__jlist *out)
{
    int64_t start, stop;

    if (__builtin_mul_overflow(s->start, whole->step, &start) ||
        __builtin_add_overflow(whole->start, start, &out->start) ||
        __builtin_mul_overflow(s->stop, whole->step, &stop) ||
        __builtin_add_overflow(whole->start, stop, &out->stop) ||
        __builtin_mul_overflow(s->step, whole->step, &out->step))
        return sr1__jrun_fail(r, "a slice of a range does not fit in 64 bits");
    return SR1_OK;
}

sr1_status sr1__jvalue_slice(struct sr1__jrun *r, const struct sr1__jvalue *v,
                             const struct sr1__jvalue bound[3], struct sr1__jvalue *out)
{
    struct slice_range s;
    size_t n;

    if (v->kind == SR1__J_UNDEFINED)
        return fail_undefined(r, v, "[:]");
    if (v->kind != SR1__J_TEXT && (v->kind != SR1__J_LIST || v->form > SR1__J_IS_RANGE))
        return sr1__jrun_fail(r, "a %s has no slices", sr1__jvalue_type(v));
    SR1__TRY(sr1__jvalue_length(r, v, &n));
    SR1__TRY(read_range(r, bound, (int64_t)n, &s));
    if (v->kind == SR1__J_TEXT) {
        SR1__TRY(slice_text(r, v->text, s, out));
        out->form = v->form;
        return SR1_OK;
    }
    SR1__TRY(sr1__jlist_new(r, v->form, out));
    for (int64_t i = s.start; s.step > 0 ? i < s.stop : i > s.stop; i += s.step)
        SR1__TRY(sr1__jlist_add(r, out->list, v->list->v[i]));
    return v->form == SR1__J_IS_RANGE ? slice_range_bounds(r, v->list, &s, out->list)
                                      : SR1_OK;
}
