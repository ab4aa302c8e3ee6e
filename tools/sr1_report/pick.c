/* pick.c - choose trajectories from a file of any size, in one pass and little memory.
 *
 * The file is cut into equal parts by its bytes, so that all of the run is seen. Each
 * part gives four: the best reward, the worst, the largest advantage either way, and one
 * at random (a reservoir of one, from a fixed seed: the same file gives the same page).
 * A file with no more trajectories than may be taken gives all of them. */
#include "sr1_report/report.h"

#include "sr1_report/lines.h"
#include "sr1_report/scan.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { BEST, WORST, STRONGEST, RANDOM, KINDS };

struct part {
    struct pick by[KINDS]; /* len 0: none yet */
    uint64_t seen;
};

struct chooser {
    struct part *parts;
    size_t n_parts;
    struct pick *first; /* the first `max` of the file */
    size_t max;
    uint64_t file_size;
};

/* splitmix64 (Steele, Lea, Flood 2014). */
static uint64_t hash(uint64_t x)
{
    x += 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

/* Of equal ones the best is the first and the worst the last: two, where there are. */
static void consider(struct part *part, const struct pick *p)
{
    struct pick *by = part->by;

    part->seen++;
    if (by[BEST].len == 0 || p->reward > by[BEST].reward)
        by[BEST] = *p;
    if (by[WORST].len == 0 || p->reward <= by[WORST].reward)
        by[WORST] = *p;
    if (by[STRONGEST].len == 0 || fabs(p->advantage) > fabs(by[STRONGEST].advantage))
        by[STRONGEST] = *p;
    if (hash(p->offset) % part->seen == 0)
        by[RANDOM] = *p;
}

static void take(struct chooser *c, struct picks *out, const struct line *l)
{
    struct scan_number found[] = {{"step", 0}, {"reward", 0}, {"advantage", 0}};
    size_t at;
    struct pick p = {.offset = l->offset, .len = l->len};

    if (!l->whole) {
        *(l->len ? &out->lines.cut : &out->lines.too_long) += 1;
        return;
    }
    if (scan_object(l->text, l->len, found, 3) != 0) {
        out->lines.broken++;
        return;
    }
    p.step = isfinite(found[0].value) ? found[0].value : 0;
    p.reward = isfinite(found[1].value) ? found[1].value : 0;
    p.advantage = isfinite(found[2].value) ? found[2].value : 0;
    if ((size_t)out->seen < c->max)
        c->first[out->seen] = p;
    out->seen++;
    at = (size_t)((double)l->offset / ((double)c->file_size + 1) * (double)c->n_parts);
    consider(&c->parts[at < c->n_parts ? at : c->n_parts - 1], &p);
}

static int by_offset(const void *a, const void *b)
{
    const struct pick *p = a, *q = b;

    return p->offset < q->offset ? -1 : p->offset > q->offset;
}

/* Those of all parts, each once. */
static void gather(struct picks *out, const struct chooser *c)
{
    size_t n = 0;

    for (size_t i = 0; i < c->n_parts; i++) {
        for (int k = 0; k < KINDS && n < c->max; k++) {
            const struct pick *p = &c->parts[i].by[k];
            int known = p->len == 0;

            for (int j = 0; j < k; j++)
                known |= c->parts[i].by[j].offset == p->offset;
            if (!known)
                c->first[n++] = *p;
        }
    }
    out->n = n;
    qsort(c->first, n, sizeof(*c->first), by_offset);
}

static void read_all(struct chooser *c, struct picks *out, const char *path)
{
    struct lines file;
    struct line l;
    struct stat st;
    int failed = lines_open(&file, path);

    if (failed) {
        out->missing = failed == ENOENT;
        out->error = out->missing ? 0 : failed;
        return;
    }
    c->file_size = fstat(file.fd, &st) == 0 ? (uint64_t)st.st_size : 0;
    while (lines_next(&file, &l))
        take(c, out, &l);
    out->error = file.error;
    lines_close(&file);
}

int picks_make(struct picks *out, const char *path, size_t max)
{
    struct chooser c = {.max = max, .n_parts = max / KINDS ? max / KINDS : 1};

    memset(out, 0, sizeof(*out));
    c.parts = calloc(c.n_parts, sizeof(*c.parts));
    c.first = calloc(max + 1, sizeof(*c.first));
    if (c.parts == NULL || c.first == NULL) {
        free(c.parts);
        free(c.first);
        return -1;
    }
    read_all(&c, out, path);
    out->chosen = c.first;
    if ((uint64_t)out->seen <= max)
        out->n = (size_t)out->seen;
    else
        gather(out, &c);
    free(c.parts);
    return 0;
}

void picks_free(struct picks *p)
{
    free(p->chosen);
    memset(p, 0, sizeof(*p));
}
