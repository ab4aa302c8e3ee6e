/* environment/world/programs.c - draw a tiny program, the arguments of its tests, and the
 * bugs that the tests find: of 24 calls those are kept, one after another, that find most
 * of the bugs not yet found. */
#include "environment/world/programs.h"

#include <string.h>

#define CALLS 24
#define VALUES 10 /* of a slot, at most */

static const struct sr1__programs_family *program_family(const struct sr1__program *p)
{
    return &sr1__programs_families[p->family];
}

static int8_t draw_below(struct sr1__rng *rng, int32_t n)
{
    return (int8_t)sr1__rng_below(rng, (uint64_t)n);
}

struct sr1__program sr1__programs_with(const struct sr1__program *p,
                                       struct sr1__programs_change c)
{
    struct sr1__program q = *p;

    q.value[c.slot] = c.value;
    return q;
}

uint64_t sr1__programs_hash(const struct sr1__program *p)
{
    return sr1__hash64(p->value, sizeof p->value, (uint64_t)p->family);
}

/* ---- drawing ---- */

/* Words there are of each role. */
static const int8_t role_counts[] = {
    [SR1__PROGRAMS_FIRST] = 2, [SR1__PROGRAMS_SECOND] = 2, [SR1__PROGRAMS_LISTED] = 1,
    [SR1__PROGRAMS_EACH] = 1,  [SR1__PROGRAMS_TOTAL] = 1,
};

void sr1__programs_redraw(struct sr1__program *p, struct sr1__rng *rng)
{
    for (int32_t i = 0; i < program_family(p)->n_slots; i++) {
        struct sr1__programs_slot s = program_family(p)->slots[i];

        p->value[i] = (int8_t)(s.least + draw_below(rng, s.most - s.least + 1));
    }
}

static void draw_program(struct sr1__program *p, struct sr1__rng *rng)
{
    memset(p, 0, sizeof *p);
    p->family = draw_below(rng, SR1__PROGRAMS_FAMILIES);
    sr1__programs_redraw(p, rng);
    for (int32_t i = 0; i < program_family(p)->n_names; i++)
        p->name[i] = draw_below(rng, role_counts[program_family(p)->roles[i]]);
}

static int64_t draw_between(struct sr1__rng *rng, int64_t least, int64_t most)
{
    return least + (int64_t)sr1__rng_below(rng, (uint64_t)(most - least + 1));
}

static void draw_arguments(struct sr1__programs_argument out[2],
                           const struct sr1__program *p, struct sr1__rng *rng)
{
    memset(out, 0, 2 * sizeof *out);
    for (int32_t i = 0; i < program_family(p)->n_arguments; i++) {
        int listed = program_family(p)->roles[i] == SR1__PROGRAMS_LISTED;
        int32_t n = listed ? (int32_t)draw_between(rng, 3, SR1__PROGRAMS_LIST) : 1;

        out[i].n = listed ? n : -1;
        for (int32_t k = 0; k < n; k++)
            out[i].v[k] = listed ? draw_between(rng, -9, 9) : draw_between(rng, 0, 9);
    }
}

/* ---- changes ---- */

/* Values that a kind's slots can have: 0 to one below this. */
static const int8_t value_counts[SR1__PROGRAMS_KINDS] = {
    [SR1__PROGRAMS_OPERATOR] = 3, [SR1__PROGRAMS_COMPARISON] = 4,
    [SR1__PROGRAMS_MOST] = 2,     [SR1__PROGRAMS_NUMBER] = 10,
    [SR1__PROGRAMS_START] = 5,    [SR1__PROGRAMS_BOUND] = 2,
    [SR1__PROGRAMS_VARIABLE] = 2,
};

/* A number goes wrong by one. */
static int is_near(int8_t kind, int8_t a, int8_t b)
{
    return (kind != SR1__PROGRAMS_NUMBER && kind != SR1__PROGRAMS_START) ||
           (a - b <= 1 && b - a <= 1);
}

/* List the changes whose place is unambiguous: with `back` those that lead from the
 * changed program back to p, else those of p itself. */
static int32_t list_changes(const struct sr1__program *p, int back,
                            struct sr1__programs_change out[SR1__PROGRAMS_BUGS])
{
    int32_t n = 0;

    for (int8_t i = 0; i < program_family(p)->n_slots; i++) {
        int8_t kind = program_family(p)->slots[i].kind;

        for (int8_t v = 0; v < value_counts[kind]; v++) {
            struct sr1__programs_change c = {i, v};
            struct sr1__program q = sr1__programs_with(p, c);

            if (v != p->value[i] && is_near(kind, v, p->value[i]) &&
                n < SR1__PROGRAMS_BUGS && sr1__programs_is_plain(back ? &q : p, i))
                out[n++] = c;
        }
    }
    return n;
}

struct sr1__programs_change sr1__programs_any_change(const struct sr1__program *p,
                                                     struct sr1__rng *rng)
{
    struct sr1__programs_change all[SR1__PROGRAMS_BUGS];
    int32_t n = list_changes(p, 0, all);

    return all[sr1__rng_below(rng, (uint64_t)n)];
}

/* ---- tests ---- */

struct trial {
    struct sr1__programs_test calls[CALLS];
    uint64_t finds[CALLS]; /* bit i: it tells bug i from the right program */
};

static void run_trial_calls(struct trial *t, const struct sr1__programs_problem *out,
                            struct sr1__rng *rng)
{
    for (int32_t i = 0; i < CALLS; i++) {
        struct sr1__programs_test *call = &t->calls[i];

        draw_arguments(call->arguments, &out->right, rng);
        call->expected = sr1__programs_run(&out->right, call->arguments);
        t->finds[i] = 0;
        for (int32_t b = 0; b < out->n_bugs; b++) {
            struct sr1__program q = sr1__programs_with(&out->right, out->bugs[b]);

            if (sr1__programs_run(&q, call->arguments) != call->expected)
                t->finds[i] |= (uint64_t)1 << b;
        }
    }
}

static int32_t count_bits(uint64_t x)
{
    int32_t n = 0;

    for (; x; x &= x - 1)
        n++;
    return n;
}

/* Keep calls; returns what they find together. */
static uint64_t keep_calls(struct sr1__programs_problem *out, const struct trial *t)
{
    uint64_t found = 0;

    for (int32_t k = 0; k < SR1__PROGRAMS_TESTS; k++) {
        int32_t best = k; /* where no call finds more: any */

        for (int32_t i = 0; i < CALLS; i++)
            if (count_bits(t->finds[i] & ~found) > count_bits(t->finds[best] & ~found))
                best = i;
        out->tests[k] = t->calls[best];
        found |= t->finds[best];
    }
    return found;
}

static int try_make_problem(struct sr1__programs_problem *out, struct sr1__rng *rng)
{
    struct trial t;
    uint64_t found;
    int32_t n = 0;

    memset(out, 0, sizeof *out);
    draw_program(&out->right, rng);
    out->n_bugs = list_changes(&out->right, 1, out->bugs);
    run_trial_calls(&t, out, rng);
    found = keep_calls(out, &t);
    for (int32_t b = 0; b < out->n_bugs; b++)
        if (found >> b & 1)
            out->bugs[n++] = out->bugs[b];
    out->n_bugs = n;
    return n > 0;
}

void sr1__programs_draw(struct sr1__programs_problem *out, struct sr1__rng *rng)
{
    while (!try_make_problem(out, rng))
        continue;
}
