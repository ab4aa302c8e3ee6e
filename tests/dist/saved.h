/* dist/saved.h - the optimizer's states in checkpoints of different numbers of ranks. */
#ifndef SR1_TESTS_DIST_SAVED_H
#define SR1_TESTS_DIST_SAVED_H

#include "dist/ranks.h"

#include "base/file.h"
#include "base/mem.h"
#include "tensor/weights/safetensors.h"

struct saved {
    struct sr1__weights *files[RANKS_MAX];
    size_t n, n_cut;
};

static inline void open_saved(struct saved *s, const char *run, const char *folder)
{
    char path[700];
    char **names = NULL;
    size_t n = 0;

    *s = (struct saved){.n = 0};
    snprintf(path, sizeof path, "%s/%s", scratch_path(run), folder);
    OK(sr1__dir_list(path, &names, &n));
    for (size_t i = 0; i < n; i++) {
        size_t end = strlen(names[i]);

        snprintf(path, sizeof path, "%s/%s/%s", scratch_path(run), folder, names[i]);
        if (end > 12 && strcmp(names[i] + end - 12, ".safetensors") == 0) {
            assert_true(s->n < RANKS_MAX);
            OK(sr1__weights_open(&s->files[s->n++], path));
        }
    }
    sr1__dir_list_free(names, n);
}

static inline void close_saved(struct saved *s)
{
    for (size_t i = 0; i < s->n; i++)
        sr1__weights_close(s->files[i]);
}

/* Numbers of w, or of its parts, are those of a part or of all of b. */
static inline void same_numbers(struct saved *b, const struct sr1__weight *w)
{
    size_t n = strlen(w->name), found = 0;

    for (size_t i = 0; i < b->n; i++)
        for (size_t k = 0; k < sr1__weights_count(b->files[i]); k++) {
            const struct sr1__weight *p = sr1__weights_at(b->files[i], k);
            long long from = 0, to;

            if (strncmp(p->name, w->name, n) != 0 ||
                (p->name[n] != '\0' &&
                 sscanf(p->name + n, "[%lld:%lld]", &from, &to) != 2))
                continue;
            b->n_cut += p->name[n] != '\0';
            assert_true((size_t)from * 4 + p->n_bytes <= w->n_bytes);
            if (memcmp((const char *)w->data + from * 4, p->data, p->n_bytes) != 0)
                fail_msg("%s differs from %s", p->name, w->name);
            found += p->n_bytes;
        }
    if (found != w->n_bytes)
        fail_msg("of %s there are %zu bytes of %zu", w->name, found, (size_t)w->n_bytes);
}

/* The run `whole` has its states in one file. Returns how many parts are cut ones. */
static inline size_t same_states(const char *whole, const char *other, const char *folder)
{
    struct saved a, b;
    size_t cut;

    open_saved(&a, whole, folder);
    open_saved(&b, other, folder);
    assert_true(a.n == 1 && sr1__weights_count(a.files[0]) > 10);
    for (size_t i = 0; i < sr1__weights_count(a.files[0]); i++)
        same_numbers(&b, sr1__weights_at(a.files[0], i));
    cut = b.n_cut;
    close_saved(&a);
    close_saved(&b);
    return cut;
}

#endif
