/* environment/world/programs_meaning.c - what each family of tiny programs computes: its
 * lines of programs_text.c, line by line, in C. tests/unit/world/test_programs.c has
 * Python say the same. */
#include "environment/world/programs.h"

struct program_call {
    const int8_t *value; /* of the program's slots */
    const struct sr1__programs_argument *arguments;
};

static int64_t apply_operator(int8_t operator, int64_t a, int64_t b)
{
    return operator== 0 ? a + b : operator== 1 ? a - b : a * b;
}

static int apply_comparison(int8_t comparison, int64_t a, int64_t b)
{
    switch (comparison) {
    case 0:
        return a < b;
    case 1:
        return a > b;
    case 2:
        return a <= b;
    default:
        return a >= b;
    }
}

static int64_t argument_number(const struct program_call *c, int32_t argument)
{
    return c->arguments[argument].v[0];
}

static int64_t compute_choice(const struct program_call *c)
{
    if (apply_comparison(c->value[2], argument_number(c, 0), argument_number(c, 1)))
        return apply_operator(c->value[0], argument_number(c, 0), c->value[1]);
    return argument_number(c, c->value[3]);
}

static int64_t compute_sum(const struct program_call *c)
{
    int64_t total = c->value[3], end = argument_number(c, 0) + (c->value[2] == 0);

    for (int64_t i = c->value[4]; i < end; i++)
        total += apply_operator(c->value[0], c->value[5] == 0 ? argument_number(c, 0) : i,
                                c->value[1]);
    return total;
}

static int64_t compute_count(const struct program_call *c)
{
    const struct sr1__programs_argument *list = &c->arguments[0];
    int64_t total = c->value[3];

    for (int32_t i = 0; i < list->n; i++)
        total += apply_comparison(c->value[2],
                                  apply_operator(c->value[0], list->v[i], c->value[1]),
                                  argument_number(c, 1));
    return total;
}

static int64_t compute_extreme(const struct program_call *c)
{
    const struct sr1__programs_argument *list = &c->arguments[0];
    int64_t found = list->v[0];

    for (int32_t i = 0; i < list->n; i++)
        if (c->value[0] == 0 ? list->v[i] > found : list->v[i] < found)
            found = list->v[i];
    return apply_operator(c->value[1], found, c->value[2]);
}

static int64_t compute_repeat(const struct program_call *c)
{
    int64_t x = argument_number(c, 0);

    for (int64_t i = c->value[2]; i < argument_number(c, 1); i++)
        x = apply_operator(c->value[0], x, c->value[1]);
    return x;
}

/* In the order of sr1__programs_families. */
static int64_t (*const meanings[SR1__PROGRAMS_FAMILIES])(const struct program_call *) = {
    compute_choice, compute_sum, compute_count, compute_extreme, compute_repeat};

int64_t sr1__programs_run(const struct sr1__program *p,
                          const struct sr1__programs_argument *arguments)
{
    struct program_call c = {p->value, arguments};

    return meanings[p->family](&c);
}
