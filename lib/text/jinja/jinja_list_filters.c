/* text/jinja/jinja_list_filters.c - filters of lists: parts of them, mapping, selecting,
 * sorting. Those that Python makes a generator of can be gone through once. */
#include "text/jinja/jinja_list_filters.h"

#include <string.h>

static sr1_status filter_join(struct sr1__jrun *r, struct sr1__jcall *c,
                              struct sr1__jvalue *out);

/* ---- the value that a filter looks at ---- */

/* item.a.b of "a.b"; an item that is a number counts from 0. */
static sr1_status follow_path(struct sr1__jrun *r, struct sr1__jtext path,
                              const struct sr1__jvalue *none, struct sr1__jvalue *v)
{
    const struct sr1__jtext dot = {".", 1, NULL};
    size_t from = 0, at;

    SR1__TRY(sr1__jrun_spend(r, 1 + path.n / 64));
    do {
        struct sr1__jvalue key, item;
        int digits;

        at = sr1__jtext_find(path, dot, from);
        key = sr1__jvalue_text(
            sr1__jtext_slice(path, from, at == SR1__J_NOWHERE ? path.n : at));
        digits = key.text.n > 0 && key.text.n < 10;
        for (size_t i = 0; i < key.text.n && digits; i++)
            digits = key.text.s[i] >= '0' && key.text.s[i] <= '9';
        if (digits) {
            int64_t n = 0;

            for (size_t i = 0; i < key.text.n; i++)
                n = n * 10 + (key.text.s[i] - '0');
            key = sr1__jvalue_int(n);
        }
        SR1__TRY(sr1__jvalue_item(r, v, &key, &item));
        *v = item.kind == SR1__J_UNDEFINED && none ? *none : item;
        from = at + 1;
    } while (at != SR1__J_NOWHERE);
    return SR1_OK;
}

/* The attribute of an item; ABSENT or None: the item itself. */
static sr1_status get_attribute(struct sr1__jrun *r, const struct sr1__jvalue *attribute,
                                const struct sr1__jvalue *none,
                                const struct sr1__jvalue *item, struct sr1__jvalue *out)
{
    struct sr1__jvalue v = *item;

    if (attribute->kind == SR1__J_TEXT)
        SR1__TRY(follow_path(r, attribute->text, none, &v));
    else if (attribute->kind == SR1__J_INT)
        SR1__TRY(sr1__jvalue_item(r, item, attribute, &v));
    else if (sr1__jarg_given(attribute))
        return sr1__jrun_fail(r, "an attribute is a %s", sr1__jvalue_type(attribute));
    if (v.kind == SR1__J_UNDEFINED && none)
        v = *none;
    *out = v;
    return SR1_OK;
}

static sr1_status lower_text(struct sr1__jrun *r, struct sr1__jvalue *v)
{
    return v->kind == SR1__J_TEXT ? sr1__jtext_case(r, v->text, SR1__J_LOWER, v) : SR1_OK;
}

/* What items are compared by. */
static sr1_status make_key(struct sr1__jrun *r, const struct sr1__jvalue *attribute,
                           int sensitive, const struct sr1__jvalue *item,
                           struct sr1__jvalue *out)
{
    SR1__TRY(get_attribute(r, attribute, NULL, item, out));
    return sensitive ? SR1_OK : lower_text(r, out);
}

/* ---- parts ---- */

static sr1_status filter_first(struct sr1__jrun *r, struct sr1__jcall *c,
                               struct sr1__jvalue *out)
{
    struct sr1__jlist *l;

    SR1__TRY(sr1__jvalue_iterate(r, &c->self, &l));
    *out = l->n ? l->v[0] : sr1__jvalue_undefined("the first item of nothing");
    return SR1_OK;
}

static sr1_status filter_last(struct sr1__jrun *r, struct sr1__jcall *c,
                              struct sr1__jvalue *out)
{
    struct sr1__jlist *l;

    if (c->self.kind == SR1__J_LIST && c->self.form == SR1__J_IS_GENERATOR)
        return sr1__jrun_fail(r, "a generator has no last item; put |list before |last");
    SR1__TRY(sr1__jvalue_iterate(r, &c->self, &l));
    *out = l->n ? l->v[l->n - 1] : sr1__jvalue_undefined("the last item of nothing");
    return SR1_OK;
}

static sr1_status copy_items(struct sr1__jrun *r, const struct sr1__jvalue *from,
                             int form, struct sr1__jvalue *out)
{
    struct sr1__jlist *l;

    SR1__TRY(sr1__jvalue_iterate(r, from, &l));
    SR1__TRY(sr1__jlist_new(r, form, out));
    return sr1__jlist_extend(r, out->list, l);
}

static sr1_status filter_list(struct sr1__jrun *r, struct sr1__jcall *c,
                              struct sr1__jvalue *out)
{
    return copy_items(r, &c->self, SR1__J_IS_LIST, out);
}

static sr1_status filter_reverse(struct sr1__jrun *r, struct sr1__jcall *c,
                                 struct sr1__jvalue *out)
{
    const struct sr1__jvalue nothing = sr1__jvalue_own("");
    struct sr1__jvalue v;
    struct sr1__jcall join = {.arg = {{.kind = SR1__J_ABSENT}}};

    SR1__TRY(copy_items(r, &c->self, SR1__J_IS_GENERATOR, &v));
    sr1__jlist_reverse(v.list);
    *out = v;
    if (c->self.kind != SR1__J_TEXT)
        return SR1_OK;
    join.self = v;
    join.arg[0] = nothing;
    return filter_join(r, &join, out);
}

static sr1_status filter_items(struct sr1__jrun *r, struct sr1__jcall *c,
                               struct sr1__jvalue *out)
{
    struct sr1__jvalue pair;

    SR1__TRY(sr1__jlist_new(r, SR1__J_IS_GENERATOR, out));
    if (c->self.kind == SR1__J_UNDEFINED)
        return SR1_OK;
    if (c->self.kind != SR1__J_DICT)
        return sr1__jrun_fail(r, "items of a %s; a dict has them",
                              sr1__jvalue_type(&c->self));
    for (size_t i = 0; i < c->self.dict->n; i++) {
        SR1__TRY(
            sr1__jvalue_pair(r, c->self.dict->v[i].key, c->self.dict->v[i].value, &pair));
        SR1__TRY(sr1__jlist_add(r, out->list, pair));
    }
    return SR1_OK;
}

static sr1_status filter_join(struct sr1__jrun *r, struct sr1__jcall *c,
                              struct sr1__jvalue *out)
{
    struct sr1__jtext by = {"", 0, NULL};
    struct sr1__jlist *l;
    struct sr1__jvalue parts, v;

    if (c->arg[0].kind != SR1__J_ABSENT)
        SR1__TRY(sr1__jvalue_str(r, &c->arg[0], &by));
    SR1__TRY(sr1__jvalue_iterate(r, &c->self, &l));
    SR1__TRY(sr1__jlist_new(r, SR1__J_IS_LIST, &parts));
    for (size_t i = 0; i < l->n; i++) {
        SR1__TRY(get_attribute(r, &c->arg[1], NULL, &l->v[i], &v));
        SR1__TRY(sr1__jlist_add(r, parts.list, v));
    }
    return sr1__jtext_join(r, by, parts.list, 0, out);
}

/* ---- mapping and selecting ---- */

/* The row that a call's argument `at` names, and the rest of its arguments. */
static sr1_status find_named_row(struct sr1__jrun *r, const struct sr1__jcall *c,
                                 size_t at, int test, const struct sr1__jfunction **out,
                                 struct sr1__jcall *rest)
{
    const char *what = test ? "test" : "filter";
    struct sr1__jtext name;
    char text[40];

    SR1__TRY(sr1__jarg_text(r, &c->v[at], what, &name));
    text[0] = '\0';
    if (name.n < sizeof text) {
        memcpy(text, name.s, name.n);
        text[name.n] = '\0';
    }
    *out = test ? sr1__jinja_test(text) : sr1__jinja_filter(text);
    if (!*out)
        return sr1__jrun_fail(r, "there is no %s '%.*s'", what,
                              name.n > 40 ? 40 : (int)name.n, name.s);
    memset(rest, 0, sizeof *rest);
    rest->v = c->v + at + 1;
    rest->n = c->n - at - 1;
    rest->named = c->named;
    rest->n_named = c->n_named;
    return SR1_OK;
}

static sr1_status map_attribute(struct sr1__jrun *r, const struct sr1__jcall *c,
                                const struct sr1__jlist *l, struct sr1__jlist *out)
{
    const struct sr1__jvalue *attribute = NULL, *none = NULL;
    struct sr1__jvalue v;

    for (size_t i = 0; i < c->n_named; i++) {
        struct sr1__jtext key = c->named[i].key.text;

        if (sr1__jtext_is(key, "attribute"))
            attribute = &c->named[i].value;
        else if (sr1__jtext_is(key, "default"))
            none = &c->named[i].value;
        else
            return sr1__jrun_fail(r, "map has no argument '%.*s'",
                                  key.n > 40 ? 40 : (int)key.n, key.s);
    }
    if (!attribute)
        return sr1__jrun_fail(r, "map needs a filter or an attribute");
    none = none && none->kind != SR1__J_NONE ? none : NULL;
    for (size_t i = 0; i < l->n; i++) {
        SR1__TRY(get_attribute(r, attribute, none, &l->v[i], &v));
        SR1__TRY(sr1__jlist_add(r, out, v));
    }
    return SR1_OK;
}

static sr1_status filter_map(struct sr1__jrun *r, struct sr1__jcall *c,
                             struct sr1__jvalue *out)
{
    const struct sr1__jfunction *f;
    struct sr1__jlist *l;
    struct sr1__jcall call;
    struct sr1__jvalue v;

    SR1__TRY(sr1__jlist_new(r, SR1__J_IS_GENERATOR, out));
    SR1__TRY(sr1__jvalue_iterate(r, &c->self, &l));
    if (c->n == 0)
        return map_attribute(r, c, l, out->list);
    SR1__TRY(find_named_row(r, c, 0, 0, &f, &call));
    for (size_t i = 0; i < l->n; i++) {
        call.self = l->v[i];
        SR1__TRY(sr1__jfunction_call(r, f, "filter", &call, &v));
        SR1__TRY(sr1__jlist_add(r, out->list, v));
    }
    return SR1_OK;
}

enum { TAKES = 1, BY_ATTRIBUTE = 2 };

/* Items of which the test says yes (how: TAKES) or no; BY_ATTRIBUTE: c->v[0] names what
 * is tested. */
static sr1_status select_items(struct sr1__jrun *r, struct sr1__jcall *c,
                               struct sr1__jvalue *out)
{
    int wanted = (c->how & TAKES) != 0, attribute = (c->how & BY_ATTRIBUTE) != 0;
    const struct sr1__jfunction *f = NULL;
    size_t at = attribute ? 1 : 0;
    struct sr1__jlist *l;
    struct sr1__jcall call;
    struct sr1__jvalue v;

    if (attribute && c->n == 0)
        return sr1__jrun_fail(r, "selectattr and rejectattr need an attribute");
    if (c->n > at)
        SR1__TRY(find_named_row(r, c, at, 1, &f, &call));
    SR1__TRY(sr1__jlist_new(r, SR1__J_IS_GENERATOR, out));
    SR1__TRY(sr1__jvalue_iterate(r, &c->self, &l));
    SR1__TRY(sr1__jrun_spend(r, l->n));
    for (size_t i = 0; i < l->n; i++) {
        v = l->v[i];
        if (attribute)
            SR1__TRY(get_attribute(r, &c->v[0], NULL, &l->v[i], &v));
        call.self = v;
        if (f)
            SR1__TRY(sr1__jfunction_call(r, f, "test", &call, &v));
        if (sr1__jvalue_true(&v) == wanted)
            SR1__TRY(sr1__jlist_add(r, out->list, l->v[i]));
    }
    return SR1_OK;
}

/* ---- order ---- */

struct keyed {
    struct sr1__jvalue key, item;
};

/* Sort v[0..n) with room for as many; equal keys keep their order. */
static sr1_status merge_sort(struct sr1__jrun *r, struct keyed *v, struct keyed *room,
                             size_t n, int reverse)
{
    size_t half = n / 2, a = 0, b = half, to = 0;
    int order;

    if (n < 2)
        return SR1_OK;
    SR1__TRY(merge_sort(r, v, room, half, reverse));
    SR1__TRY(merge_sort(r, v + half, room, n - half, reverse));
    while (a < half && b < n) {
        SR1__TRY(sr1__jrun_spend(r, 1));
        SR1__TRY(sr1__jvalue_compare(r, &v[b].key, &v[a].key, &order));
        order = order == 2 ? 0 : reverse ? -order : order;
        room[to++] = order < 0 ? v[b++] : v[a++];
    }
    while (a < half)
        room[to++] = v[a++];
    memcpy(v, room, to * sizeof *v);
    return SR1_OK;
}

static sr1_status sort_keyed(struct sr1__jrun *r, struct keyed *v, size_t n, int reverse,
                             struct sr1__jvalue *out)
{
    struct keyed *room;

    SR1__J_TAKE(r, room, n + 1);
    SR1__TRY(merge_sort(r, v, room, n, reverse));
    SR1__TRY(sr1__jlist_new(r, SR1__J_IS_LIST, out));
    for (size_t i = 0; i < n; i++)
        SR1__TRY(sr1__jlist_add(r, out->list, v[i].item));
    return SR1_OK;
}

static sr1_status filter_sort(struct sr1__jrun *r, struct sr1__jcall *c,
                              struct sr1__jvalue *out)
{
    const struct sr1__jtext comma = {",", 1, NULL};
    int sensitive = sr1__jarg_true(&c->arg[1], 0);
    struct sr1__jvalue key;
    struct sr1__jlist *l;
    struct keyed *v;

    if (c->arg[2].kind == SR1__J_TEXT &&
        sr1__jtext_find(c->arg[2].text, comma, 0) != SR1__J_NOWHERE)
        return sr1__jrun_fail(r, "sort: one attribute at most; sort twice");
    SR1__TRY(sr1__jvalue_iterate(r, &c->self, &l));
    SR1__J_TAKE(r, v, l->n + 1);
    for (size_t i = 0; i < l->n; i++) {
        v[i].item = l->v[i];
        SR1__TRY(make_key(r, &c->arg[2], sensitive, &l->v[i], &key));
        SR1__TRY(sr1__jlist_new(r, SR1__J_IS_LIST, &v[i].key));
        SR1__TRY(sr1__jlist_add(r, v[i].key.list, key));
    }
    return sort_keyed(r, v, l->n, sr1__jarg_true(&c->arg[0], 0), out);
}

static sr1_status filter_dictsort(struct sr1__jrun *r, struct sr1__jcall *c,
                                  struct sr1__jvalue *out)
{
    struct sr1__jtext by = {"key", 3, NULL};
    struct sr1__jdict *d = c->self.dict;
    struct keyed *v;
    int by_value;

    if (c->self.kind != SR1__J_DICT)
        return sr1__jrun_fail(r, "dictsort of a %s", sr1__jvalue_type(&c->self));
    if (c->arg[1].kind != SR1__J_ABSENT)
        SR1__TRY(sr1__jarg_text(r, &c->arg[1], "dictsort", &by));
    by_value = sr1__jtext_is(by, "value");
    if (!by_value && !sr1__jtext_is(by, "key"))
        return sr1__jrun_fail(r, "dictsort: by must be key or value");
    SR1__J_TAKE(r, v, d->n + 1);
    for (size_t i = 0; i < d->n; i++) {
        v[i].key = by_value ? d->v[i].value : d->v[i].key;
        if (!sr1__jarg_true(&c->arg[0], 0))
            SR1__TRY(lower_text(r, &v[i].key));
        SR1__TRY(sr1__jvalue_pair(r, d->v[i].key, d->v[i].value, &v[i].item));
    }
    return sort_keyed(r, v, d->n, sr1__jarg_true(&c->arg[2], 0), out);
}

/* (key, items) of neighbours with one key, once they are sorted by it. */
static sr1_status add_group(struct sr1__jrun *r, const struct sr1__jvalue *key,
                            const struct keyed *v, size_t n, struct sr1__jlist *out)
{
    struct sr1__jvalue items, group;

    SR1__TRY(sr1__jlist_new(r, SR1__J_IS_LIST, &items));
    for (size_t i = 0; i < n; i++)
        SR1__TRY(sr1__jlist_add(r, items.list, v[i].item));
    SR1__TRY(sr1__jvalue_pair(r, *key, items, &group));
    group.list->members = SR1__J_GROUP;
    return sr1__jlist_add(r, out, group);
}

/* groupby(attribute, default, case_sensitive): the key of a group is that of its first
 * item. */
static sr1_status filter_groupby(struct sr1__jrun *r, struct sr1__jcall *c,
                                 struct sr1__jvalue *out)
{
    const struct sr1__jvalue *none = sr1__jarg_given(&c->arg[1]) ? &c->arg[1] : NULL;
    int sensitive = sr1__jarg_true(&c->arg[2], 0), equal;
    struct sr1__jvalue key;
    struct sr1__jlist *l;
    struct keyed *v, *room;

    SR1__TRY(sr1__jvalue_iterate(r, &c->self, &l));
    SR1__J_TAKE(r, v, l->n + 1);
    SR1__J_TAKE(r, room, l->n + 1);
    for (size_t i = 0; i < l->n; i++) {
        v[i].item = l->v[i];
        SR1__TRY(get_attribute(r, &c->arg[0], none, &l->v[i], &v[i].key));
        if (!sensitive)
            SR1__TRY(lower_text(r, &v[i].key));
    }
    SR1__TRY(merge_sort(r, v, room, l->n, 0));
    SR1__TRY(sr1__jlist_new(r, SR1__J_IS_LIST, out));
    for (size_t i = 0, from = 0; i < l->n; i++) {
        if (i + 1 < l->n) {
            SR1__TRY(sr1__jvalue_equal(r, &v[i].key, &v[i + 1].key, &equal));
            if (equal)
                continue;
        }
        SR1__TRY(get_attribute(r, &c->arg[0], none, &v[from].item, &key));
        SR1__TRY(add_group(r, &key, v + from, i + 1 - from, out->list));
        from = i + 1;
    }
    return SR1_OK;
}

/* A list of l[from, to), and `fill` so often. */
static sr1_status add_list_part(struct sr1__jrun *r, const struct sr1__jlist *l,
                                size_t from, size_t to, const struct sr1__jvalue *fill,
                                size_t n_fill, struct sr1__jlist *out)
{
    struct sr1__jvalue part;

    SR1__TRY(sr1__jlist_new(r, SR1__J_IS_LIST, &part));
    for (size_t i = from; i < to; i++)
        SR1__TRY(sr1__jlist_add(r, part.list, l->v[i]));
    for (size_t i = 0; i < n_fill; i++)
        SR1__TRY(sr1__jlist_add(r, part.list, *fill));
    return sr1__jlist_add(r, out, part);
}

#define PART_MAX 100000

static sr1_status read_part_size(struct sr1__jrun *r, const struct sr1__jvalue *v,
                                 const char *what, size_t *out)
{
    int64_t n;

    SR1__TRY(sr1__jarg_int(r, v, 0, &n));
    if (n < 1 || n > PART_MAX)
        return sr1__jrun_fail(r, "%s: a number from 1 to %d is due", what, PART_MAX);
    *out = (size_t)n;
    return SR1_OK;
}

/* Lists of so many items each; fill_with makes the last one as long. */
static sr1_status filter_batch(struct sr1__jrun *r, struct sr1__jcall *c,
                               struct sr1__jvalue *out)
{
    struct sr1__jlist *l;
    size_t each = 1;

    SR1__TRY(read_part_size(r, &c->arg[0], "batch", &each));
    SR1__TRY(sr1__jvalue_iterate(r, &c->self, &l));
    SR1__TRY(sr1__jlist_new(r, SR1__J_IS_GENERATOR, out));
    for (size_t i = 0; i < l->n; i += each) {
        size_t n = l->n - i < each ? l->n - i : each;

        SR1__TRY(add_list_part(r, l, i, i + n, &c->arg[1],
                               sr1__jarg_given(&c->arg[1]) ? each - n : 0, out->list));
    }
    return SR1_OK;
}

/* So many lists, the first ones longer by one where it does not divide; fill_with is
 * added to the others. */
static sr1_status filter_slice(struct sr1__jrun *r, struct sr1__jcall *c,
                               struct sr1__jvalue *out)
{
    struct sr1__jlist *l;
    size_t slices = 1, from = 0;

    SR1__TRY(read_part_size(r, &c->arg[0], "slice", &slices));
    SR1__TRY(sr1__jvalue_iterate(r, &c->self, &l));
    SR1__TRY(sr1__jlist_new(r, SR1__J_IS_GENERATOR, out));
    for (size_t i = 0; i < slices; i++) {
        int longer = i < l->n % slices;
        size_t to = from + l->n / slices + (size_t)longer;

        SR1__TRY(add_list_part(r, l, from, to, &c->arg[1],
                               sr1__jarg_given(&c->arg[1]) && !longer ? 1 : 0,
                               out->list));
        from = to;
    }
    return SR1_OK;
}

static sr1_status filter_unique(struct sr1__jrun *r, struct sr1__jcall *c,
                                struct sr1__jvalue *out)
{
    struct sr1__jvalue seen, key, *there;
    struct sr1__jlist *l;

    SR1__TRY(sr1__jdict_new(r, SR1__J_DICT, &seen));
    SR1__TRY(sr1__jlist_new(r, SR1__J_IS_GENERATOR, out));
    SR1__TRY(sr1__jvalue_iterate(r, &c->self, &l));
    for (size_t i = 0; i < l->n; i++) {
        SR1__TRY(make_key(r, &c->arg[1], sr1__jarg_true(&c->arg[0], 0), &l->v[i], &key));
        SR1__TRY(sr1__jdict_find(r, seen.dict, &key, &there));
        if (there)
            continue;
        SR1__TRY(sr1__jdict_set(r, seen.dict, key, key));
        SR1__TRY(sr1__jlist_add(r, out->list, l->v[i]));
    }
    return SR1_OK;
}

/* how 1: the largest item, -1: the smallest; of equal ones the first. */
static sr1_status find_extreme(struct sr1__jrun *r, struct sr1__jcall *c,
                               struct sr1__jvalue *out)
{
    struct sr1__jvalue key, best;
    struct sr1__jlist *l;
    int order;

    SR1__TRY(sr1__jvalue_iterate(r, &c->self, &l));
    SR1__TRY(sr1__jrun_spend(r, l->n));
    *out = sr1__jvalue_undefined("the extreme of nothing");
    for (size_t i = 0; i < l->n; i++) {
        SR1__TRY(make_key(r, &c->arg[1], sr1__jarg_true(&c->arg[0], 0), &l->v[i], &key));
        if (i) {
            SR1__TRY(sr1__jvalue_compare(r, &key, &best, &order));
            if (order == 2 || order * c->how <= 0)
                continue;
        }
        best = key;
        *out = l->v[i];
    }
    return SR1_OK;
}

static sr1_status filter_sum(struct sr1__jrun *r, struct sr1__jcall *c,
                             struct sr1__jvalue *out)
{
    struct sr1__jvalue sum = sr1__jvalue_int(0), v;
    struct sr1__jlist *l;

    if (c->arg[1].kind != SR1__J_ABSENT)
        sum = c->arg[1];
    SR1__TRY(sr1__jvalue_iterate(r, &c->self, &l));
    SR1__TRY(sr1__jrun_spend(r, l->n));
    for (size_t i = 0; i < l->n; i++) {
        SR1__TRY(get_attribute(r, &c->arg[0], NULL, &l->v[i], &v));
        if (!sr1__jvalue_is_number(&v) || !sr1__jvalue_is_number(&sum))
            return sr1__jrun_fail(r, "sum of a %s", sr1__jvalue_type(&v));
        if (v.kind == SR1__J_REAL || sum.kind == SR1__J_REAL)
            sum = sr1__jvalue_real(sr1__jvalue_as_real(&sum) + sr1__jvalue_as_real(&v));
        else if (__builtin_add_overflow(sum.i, v.i, &sum.i))
            return sr1__jrun_fail(r, "sum does not fit in 64 bits");
        else
            sum.kind = SR1__J_INT;
    }
    *out = sum;
    return SR1_OK;
}

const struct sr1__jfunction sr1__jinja_list_filters[] = {
    {"first", filter_first, "", 0},
    {"last", filter_last, "", 0},
    {"list", filter_list, "", 0},
    {"reverse", filter_reverse, "", 0},
    {"items", filter_items, "", 0},
    {"join", filter_join, "d attribute", 0},
    {"map", filter_map, NULL, 0},
    {"select", select_items, NULL, 0, TAKES},
    {"reject", select_items, NULL, 0, 0},
    {"selectattr", select_items, NULL, 0, TAKES | BY_ATTRIBUTE},
    {"rejectattr", select_items, NULL, 0, BY_ATTRIBUTE},
    {"sort", filter_sort, "reverse case_sensitive attribute", 0},
    {"dictsort", filter_dictsort, "case_sensitive by reverse", 0},
    {"unique", filter_unique, "case_sensitive attribute", 0},
    {"groupby", filter_groupby, "attribute default case_sensitive", 1},
    {"batch", filter_batch, "linecount fill_with", 1},
    {"slice", filter_slice, "slices fill_with", 1},
    {"max", find_extreme, "case_sensitive attribute", 0, 1},
    {"min", find_extreme, "case_sensitive attribute", 0, -1},
    {"sum", filter_sum, "attribute start", 0},
    {NULL, NULL, NULL, 0},
};
