/* environment/code/entry.c - the function that a problem's statements call.
 *
 * It is the last of those that the solution defines at the beginning of a line and whose
 * name stands in the first test. A row may hold millions of definitions and of words:
 * each word of the test is looked up among the names, which are sorted by their hash. */
#include "environment/code/problems.h"

#include "base/mem.h"
#include "base/rng.h"

#include <stdlib.h>
#include <string.h>

struct name {
    const char *s;
    size_t n;
    uint64_t hash;
};

static struct name name_at(const char *s)
{
    struct name name = {s, 0, 0};

    while (sr1__is_name(s[name.n]))
        name.n++;
    name.hash = sr1__hash64(s, name.n, 0);
    return name;
}

/* The name that a line defines; NULL: none. */
static const char *find_defined_name(const char *line)
{
    return strncmp(line, "def ", 4) == 0 && sr1__is_name(line[4]) ? line + 4 : NULL;
}

static const char *find_next_line(const char *line)
{
    const char *end = strchr(line, '\n');

    return end ? end + 1 : NULL;
}

static int compare_name_hashes(const void *a, const void *b)
{
    uint64_t x = ((const struct name *)a)->hash, y = ((const struct name *)b)->hash;

    return (x > y) - (x < y);
}

static int by_hash_and_place(const void *a, const void *b)
{
    const char *x = ((const struct name *)a)->s, *y = ((const struct name *)b)->s;

    return compare_name_hashes(a, b) != 0 ? compare_name_hashes(a, b) : (x > y) - (x < y);
}

/* Sorted, each name once, where it is defined last. *names is NULL where there is none.
 */
static sr1_status collect_definitions(const char *code, struct name **names, size_t *n)
{
    size_t all = 0, kept = 0;
    struct name *a;

    for (const char *line = code; line != NULL; line = find_next_line(line))
        all += find_defined_name(line) != NULL;
    *names = NULL;
    *n = 0;
    if (all == 0)
        return SR1_OK;
    SR1__CALLOC(a, all, "code problem");
    all = 0;
    for (const char *line = code; line != NULL; line = find_next_line(line))
        if (find_defined_name(line) != NULL)
            a[all++] = name_at(find_defined_name(line));
    qsort(a, all, sizeof(*a), by_hash_and_place);
    for (size_t i = 0; i < all; i++) {
        kept += kept == 0 || a[kept - 1].hash != a[i].hash;
        a[kept - 1] = a[i];
    }
    *names = a;
    *n = kept;
    return SR1_OK;
}

sr1_status sr1__find_entry(struct sr1_problem *p, const char *code)
{
    const struct name *found = NULL;
    struct name *names;
    size_t n;
    sr1_status status = SR1_OK;

    if (p->n_tests == 0)
        return SR1_OK;
    SR1__TRY(collect_definitions(code, &names, &n));
    for (const char *at = p->tests[0].input; n > 0 && *at != '\0';) {
        struct name word = name_at(at);
        const struct name *hit =
            word.n > 0 ? bsearch(&word, names, n, sizeof(*names), compare_name_hashes)
                       : NULL;

        if (hit != NULL && hit->n == word.n && memcmp(hit->s, at, word.n) == 0 &&
            (found == NULL || hit->s > found->s))
            found = hit;
        at += word.n > 0 ? word.n : 1;
    }
    if (found != NULL)
        status = sr1__copy_text(&p->entry, found->s, found->n);
    sr1__free(names);
    return status;
}
