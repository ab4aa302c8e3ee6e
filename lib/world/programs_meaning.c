/* world/programs_meaning.c - what each family of tiny programs computes: its lines of
 * programs_text.c, line by line, in C. tests/unit/world/test_programs.c has Python say
 * the same. */
#include "world/programs.h"

struct call {
    const int8_t *value; /* of the program's slots */
    const struct sr1__programs_argument *arguments;
};

static int64_t operate(int8_t operator, int64_t a, int64_t b)
{
    return operator== 0 ? a + b : operator== 1 ? a - b : a * b;
}

static int compare(int8_t comparison, int64_t a, int64_t b)
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

static int64_t number(const struct call *c, int32_t argument)
{
    return c->arguments[argument].v[0];
}

static int64_t choice(const struct call *c)
{
    if (compare(c->value[2], number(c, 0), number(c, 1)))
        return operate(c->value[0], number(c, 0), c->value[1]);
    return number(c, c->value[3]);
}

static int64_t sum(const struct call *c)
{
    int64_t total = c->value[3], end = number(c, 0) + (c->value[2] == 0);

    for (int64_t i = c->value[4]; i < end; i++)
        total += operate(c->value[0], c->value[5] == 0 ? number(c, 0) : i, c->value[1]);
    return total;
}

static int64_t count(const struct call *c)
{
    const struct sr1__programs_argument *list = &c->arguments[0];
    int64_t total = c->value[3];

    for (int32_t i = 0; i < list->n; i++)
        total += compare(c->value[2], operate(c->value[0], list->v[i], c->value[1]),
                         number(c, 1));
    return total;
}

static int64_t most(const struct call *c)
{
    const struct sr1__programs_argument *list = &c->arguments[0];
    int64_t found = list->v[0];

    for (int32_t i = 0; i < list->n; i++)
        if (c->value[0] == 0 ? list->v[i] > found : list->v[i] < found)
            found = list->v[i];
    return operate(c->value[1], found, c->value[2]);
}

static int64_t repeat(const struct call *c)
{
    int64_t x = number(c, 0);

    for (int64_t i = c->value[2]; i < number(c, 1); i++)
        x = operate(c->value[0], x, c->value[1]);
    return x;
}

/* In the order of sr1__programs_families. */
static int64_t (*const meanings[SR1__PROGRAMS_FAMILIES])(const struct call *) = {
    choice, sum, count, most, repeat};

int64_t sr1__programs_run(const struct sr1__program *p,
                          const struct sr1__programs_argument *arguments)
{
    struct call c = {p->value, arguments};

    return meanings[p->family](&c);
}
