/* text/jinja/jinja_loop.c - for loops, and what their bodies ask of `loop`. Items that a
 * loop's condition leaves out are looked at one by one, as late as possible: the
 * condition may depend on what the body did. */
#include "text/jinja/jinja_tree.h"

#include <string.h>

/* Does the loop's condition take this item? */
static sr1_status test_item(struct sr1__jrun *r, const struct sr1__jloop *l,
                            struct sr1__jvalue item, int *takes)
{
    struct sr1__jscope *around = r->scope;
    struct sr1__jvalue v;
    sr1_status status;

    *takes = 1;
    if (!l->node->c)
        return SR1_OK;
    r->scope = sr1__jscope_new(r, l->scope);
    status = r->scope ? sr1__jinja_assign(r, l->node->a, item) : sr1__jrun_nomem(r);
    if (status == SR1_OK)
        status = sr1__jinja_eval(r, l->node->c, &v);
    if (status == SR1_OK)
        *takes = sr1__jvalue_true(&v);
    r->scope = around;
    return status;
}

/* The next item into *out; *there 0: there is none. */
static sr1_status next_item(struct sr1__jrun *r, struct sr1__jloop *l,
                            struct sr1__jvalue *out, int *there)
{
    *there = 0;
    while (l->at < l->list->n && !*there) {
        *out = l->list->v[l->at++];
        SR1__TRY(test_item(r, l, *out, there));
    }
    return SR1_OK;
}

static sr1_status peek_item(struct sr1__jrun *r, struct sr1__jloop *l)
{
    return l->has_after ? SR1_OK : next_item(r, l, &l->after, &l->has_after);
}

static sr1_status advance_loop(struct sr1__jrun *r, struct sr1__jloop *l, int *there)
{
    struct sr1__jvalue item = l->after;

    *there = l->has_after;
    if (!*there)
        SR1__TRY(next_item(r, l, &item, there));
    l->has_after = 0;
    if (!*there)
        return SR1_OK;
    l->index0++;
    l->has_before = l->index0 > 0;
    l->before = l->now;
    l->now = item;
    return SR1_OK;
}

/* All items: those that the condition takes are put into a list of their own. */
static sr1_status count_items(struct sr1__jrun *r, struct sr1__jloop *l, int64_t *n)
{
    struct sr1__jvalue rest, item;
    int there;

    SR1__TRY(sr1__jlist_new(r, SR1__J_IS_LIST, &rest));
    for (;;) {
        SR1__TRY(next_item(r, l, &item, &there));
        if (!there)
            break;
        SR1__TRY(sr1__jlist_add(r, rest.list, item));
    }
    *n = l->index0 + 1 + l->has_after + (int64_t)rest.list->n;
    l->list = rest.list;
    l->at = 0;
    if (l->node->c) {
        struct sr1__jnode *plain;

        SR1__J_TAKE(r, plain, 1);
        *plain = *l->node;
        plain->c = NULL;
        l->node = plain;
    }
    return SR1_OK;
}

/* ---- loop.NAME ---- */

static struct sr1__jvalue count_turns(const struct sr1__jloop *l, int64_t n, int from_end)
{
    return sr1__jvalue_int(from_end ? n - l->index0 : l->index0 + n);
}

static sr1_status first_of_loop(struct sr1__jloop *l, struct sr1__jvalue *out)
{
    *out = sr1__jvalue_bool(l->index0 == 0);
    return SR1_OK;
}

static sr1_status length_member(struct sr1__jrun *r, struct sr1__jloop *l,
                                const char *name, struct sr1__jvalue *out)
{
    int64_t n = 0;

    SR1__TRY(count_items(r, l, &n));
    *out = strcmp(name, "length") == 0     ? sr1__jvalue_int(n)
           : strcmp(name, "revindex") == 0 ? count_turns(l, n, 1)
                                           : count_turns(l, n - 1, 1);
    return SR1_OK;
}

static sr1_status next_member(struct sr1__jrun *r, struct sr1__jloop *l, const char *name,
                              struct sr1__jvalue *out)
{
    SR1__TRY(peek_item(r, l));
    if (strcmp(name, "last") == 0)
        *out = sr1__jvalue_bool(!l->has_after);
    else
        *out = l->has_after ? l->after : sr1__jvalue_undefined("loop.nextitem");
    return SR1_OK;
}

/* loop.cycle(a, b): one after another. */
static sr1_status cycle_of_loop(struct sr1__jrun *r, struct sr1__jcall *c,
                                struct sr1__jvalue *out)
{
    if (c->n == 0)
        return sr1__jrun_fail(r, "loop.cycle needs values");
    *out = c->v[(size_t)c->self.loop->index0 % c->n];
    return SR1_OK;
}

/* loop.changed(...): is it other than in the last call? */
static sr1_status changed_of_loop(struct sr1__jrun *r, struct sr1__jcall *c,
                                  struct sr1__jvalue *out)
{
    struct sr1__jvalue list;
    int equal = 0;

    SR1__TRY(sr1__jlist_new(r, SR1__J_IS_TUPLE, &list));
    for (size_t i = 0; i < c->n; i++)
        SR1__TRY(sr1__jlist_add(r, list.list, c->v[i]));
    if (c->self.loop->changed.kind != SR1__J_ABSENT)
        SR1__TRY(sr1__jvalue_equal(r, &c->self.loop->changed, &list, &equal));
    c->self.loop->changed = list;
    *out = sr1__jvalue_bool(!equal);
    return SR1_OK;
}

static const struct sr1__jfunction loop_methods[] = {
    {"cycle", cycle_of_loop, NULL, 0},
    {"changed", changed_of_loop, NULL, 0},
    {NULL, NULL, NULL, 0},
};

sr1_status sr1__jloop_attribute(struct sr1__jrun *r, struct sr1__jloop *l,
                                const char *name, struct sr1__jvalue *out, int *known)
{
    const struct sr1__jfunction *f = sr1__jfunction_find(loop_methods, name);
    const struct sr1__jvalue self = {.kind = SR1__J_LOOP, .loop = l};

    *known = 1;
    if (f)
        return sr1__jvalue_function(r, f, self, out);
    if (strcmp(name, "first") == 0)
        return first_of_loop(l, out);
    if (strcmp(name, "last") == 0 || strcmp(name, "nextitem") == 0)
        return next_member(r, l, name, out);
    if (strcmp(name, "length") == 0 || strcmp(name, "revindex") == 0 ||
        strcmp(name, "revindex0") == 0)
        return length_member(r, l, name, out);
    if (strcmp(name, "index") == 0)
        *out = count_turns(l, 1, 0);
    else if (strcmp(name, "index0") == 0)
        *out = count_turns(l, 0, 0);
    else if (strcmp(name, "previtem") == 0)
        *out = l->has_before ? l->before : sr1__jvalue_undefined("loop.previtem");
    else if (strcmp(name, "depth") == 0 || strcmp(name, "depth0") == 0)
        *out = sr1__jvalue_int(name[5] == '\0');
    else
        *known = 0;
    return SR1_OK;
}

/* ---- the loop ---- */

/* One item's turn, in a scope of its own. */
static sr1_status run_turn(struct sr1__jrun *r, struct sr1__jloop *l)
{
    const char *name = sr1__jinja_known_name(r->t, "loop");
    const struct sr1__jvalue self = {.kind = SR1__J_LOOP, .loop = l};

    r->scope = sr1__jscope_new(r, l->scope);
    if (!r->scope)
        return sr1__jrun_nomem(r);
    if (name)
        SR1__TRY(sr1__jinja_set(r, r->scope, name, self));
    SR1__TRY(sr1__jinja_assign(r, l->node->a, l->now));
    return sr1__jinja_run_body(r, l->node->body);
}

static sr1_status run_turns(struct sr1__jrun *r, struct sr1__jloop *l)
{
    int there = 1;

    for (;;) {
        SR1__TRY(advance_loop(r, l, &there));
        if (!there)
            return SR1_OK;
        SR1__TRY(run_turn(r, l));
        there = r->leaves != SR1__N_BREAK;
        r->leaves = 0;
        if (!there)
            return SR1_OK;
    }
}

sr1_status sr1__jloop_run(struct sr1__jrun *r, const struct sr1__jnode *n)
{
    struct sr1__jscope *around = r->scope;
    struct sr1__jvalue over;
    struct sr1__jlist *list;
    struct sr1__jloop *l;
    sr1_status status;

    SR1__TRY(sr1__jinja_eval(r, n->b, &over));
    SR1__TRY(sr1__jvalue_iterate(r, &over, &list));
    SR1__J_TAKE(r, l, 1);
    l->list = list;
    l->index0 = -1;
    l->node = n;
    l->scope = around;
    status = run_turns(r, l);
    if (status == SR1_OK && l->index0 < 0 && n->other) {
        r->scope = sr1__jscope_new(r, around);
        status = r->scope ? sr1__jinja_run_body(r, n->other) : sr1__jrun_nomem(r);
    }
    r->scope = around;
    return status;
}
