/* pick.c - choose trajectories from a file of any size, in little memory.
 *
 * Its lines are counted, then cut into equal parts, so that all of the run is seen. Each
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

enum { BEST, WORST, STRONGEST, RANDOM, KINDS };

struct file_part {
    struct pick by[KINDS]; /* len 0: none yet */
    uint64_t seen;
};

struct chooser {
    struct file_part *parts;
    size_t n_parts;
    uint64_t lines, at; /* of the file, and before the present one */
    struct pick *first; /* the first `max` of the file */
    size_t max;
};

/* splitmix64 (Steele, Lea, Flood 2014). */
static uint64_t hash_offset(uint64_t x)
{
    x += 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

/* Among equal rewards the best is the first and the worst the last, so two are chosen if
 * there are two. */
static void consider_pick(struct file_part *part, const struct pick *p)
{
    struct pick *by = part->by;

    part->seen++;
    if (by[BEST].len == 0 || p->reward > by[BEST].reward)
        by[BEST] = *p;
    if (by[WORST].len == 0 || p->reward <= by[WORST].reward)
        by[WORST] = *p;
    if (by[STRONGEST].len == 0 || fabs(p->advantage) > fabs(by[STRONGEST].advantage))
        by[STRONGEST] = *p;
    if (hash_offset(p->offset) % part->seen == 0)
        by[RANDOM] = *p;
}

static void add_candidate(struct chooser *c, struct picks *out,
                          const struct report_line *l)
{
    struct scan_number found[] = {{"step", 0}, {"reward", 0}, {"advantage", 0}};
    size_t part = (size_t)((double)c->at++ / (double)c->lines * (double)c->n_parts);
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
    consider_pick(&c->parts[part < c->n_parts ? part : c->n_parts - 1], &p);
}

static int compare_pick_offset(const void *a, const void *b)
{
    const struct pick *p = a, *q = b;

    return p->offset < q->offset ? -1 : p->offset > q->offset;
}

/* Those of all parts, each once. */
static void gather_picks(struct picks *out, const struct chooser *c)
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
    qsort(c->first, n, sizeof(*c->first), compare_pick_offset);
}

/* Call `each` with every line. 0, or errno. */
static int go_through(const char *path, struct chooser *c, struct picks *out,
                      void (*each)(struct chooser *, struct picks *,
                                   const struct report_line *))
{
    struct lines file;
    struct report_line l;
    int error = text_lines_open(&file, path);

    if (error)
        return error;
    while (lines_next(&file, &l))
        each(c, out, &l);
    error = file.error;
    lines_close(&file);
    return error;
}

static void count_line(struct chooser *c, struct picks *out, const struct report_line *l)
{
    (void)out, (void)l;
    c->lines++;
}

static void read_candidates(struct chooser *c, struct picks *out, const char *path)
{
    int error = go_through(path, c, out, count_line);

    if (c->lines > 0)
        error = go_through(path, c, out, add_candidate);
    out->missing = error == ENOENT;
    out->error = out->missing ? 0 : error;
}

/* The lines themselves, by going through the file again: a compressed one has no other
 * way to them. */
static void load_chosen(struct picks *p, const char *path)
{
    struct lines file;
    struct report_line l;
    size_t held = 0, k = 0;

    if (p->n == 0 || text_lines_open(&file, path) != 0)
        return;
    while (k < p->n && lines_next(&file, &l)) {
        struct pick *pick = &p->chosen[k];

        if (l.offset != pick->offset)
            continue;
        k++;
        pick->len = l.len; /* of now: the run may have written on */
        if (l.len <= PICK_BYTES - held)
            pick->text = malloc(l.len + 1);
        if (pick->text != NULL)
            memcpy(pick->text, l.text, l.len);
        held += pick->text != NULL ? l.len : 0;
        p->too_big += pick->text == NULL;
    }
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
    read_candidates(&c, out, path);
    out->chosen = c.first;
    if ((uint64_t)out->seen <= max)
        out->n = (size_t)out->seen;
    else
        gather_picks(out, &c);
    free(c.parts);
    load_chosen(out, path);
    return 0;
}

void picks_free(struct picks *p)
{
    for (size_t i = 0; i < p->n; i++)
        free(p->chosen[i].text);
    free(p->chosen);
    memset(p, 0, sizeof(*p));
}
