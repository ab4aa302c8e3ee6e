/* train/learner_states.c - see learner_states.h. All is fp32. */
#include "train/learner_states.h"

#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/num.h"
#include "tensor/weights/safetensors.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define PART "part-"
#define PART_END ".safetensors"

/* ---- writing ---- */

struct states_writer {
    const struct sr1__learner *l;
    struct sr1__weight_out *rows;
    char **names; /* of tensors that are cut; NULL: it has its own */
    size_t n;
    float *row; /* the tensor being written */
};

static sr1_status read_tensor(void *arg, size_t i, const void **bytes)
{
    struct states_writer *d = arg;
    sr1_tensor *t = sr1__optimizer_state(d->l->optimizer, i).tensor;
    size_t n = (size_t)t_numel(t);
    float *p = sr1__realloc(d->row, n + 1, sizeof(*p));
    sr1_scope *s;

    if (!p)
        return sr1__fail_nomem("optimizer state");
    d->row = p;
    s = sr1__scope_open(d->l->replicas[0]->device, "optimizer state");
    t_to_host_f32(s, t, p, n);
    *bytes = p;
    return sr1__scope_close(s);
}

static void describe_tensor(struct sr1__weight_out *w, const char *name,
                            const sr1_tensor *like)
{
    w->name = name;
    w->dtype = SR1__WEIGHT_F32;
    w->n_dims = t_ndim(like);
    for (int32_t d = 0; d < w->n_dims && d < SR1__WEIGHT_MAX_DIMS; d++)
        w->shape[d] = t_size(like, d);
}

static sr1_status describe_states(struct states_writer *w)
{
    for (size_t i = 0; i < w->n; i++) {
        struct sr1__named state = sr1__optimizer_state(w->l->optimizer, i);
        int64_t from = sr1__optimizer_state_from(w->l->optimizer, i);
        struct sr1__buf b;

        if (from >= 0) {
            sr1__buf_init(&b, 0);
            sr1__buf_fmt(&b, "%s[%" PRId64 ":%" PRId64 "]", state.name, from,
                         from + t_numel(state.tensor));
            SR1__TRY(sr1__buf_finish(&b, "name of a part", &w->names[i]));
        }
        describe_tensor(&w->rows[i], from >= 0 ? w->names[i] : state.name, state.tensor);
    }
    return SR1_OK;
}

static sr1_status write_states(struct states_writer *w, const char *folder)
{
    const struct sr1__shards *shards = w->l->shards;
    char file[64];

    SR1__TRY(describe_states(w));
    if (!shards)
        return sr1__weights_save(folder, w->rows, w->n, 0, read_tensor, w);
    snprintf(file, sizeof(file), PART "%05" PRId32 "-of-%05" PRId32 PART_END,
             shards->rank + 1, shards->ranks);
    return sr1__weights_save_file(folder, file, NULL, w->rows, w->n, read_tensor, w);
}

sr1_status sr1__learner_save_states(const struct sr1__learner *l, const char *folder)
{
    struct states_writer w = {.l = l, .n = sr1__optimizer_state_count(l->optimizer)};
    sr1_status st;

    if (l->shards && l->shards->group > 0) /* the first group has all parts */
        return SR1_OK;
    w.rows = sr1__calloc(w.n + 1, sizeof(*w.rows));
    w.names = sr1__calloc(w.n + 1, sizeof(*w.names));
    st =
        w.rows && w.names ? write_states(&w, folder) : sr1__fail_nomem("optimizer state");
    for (size_t i = 0; w.names && i < w.n; i++)
        sr1__free(w.names[i]);
    sr1__free(w.names);
    sr1__free(w.rows);
    sr1__free(w.row);
    return st;
}

/* ---- reading ---- */

/* The files of a folder, of one process or of several. */
struct saved_states {
    const char *folder;
    struct sr1__weights **files;
    size_t n;
};

static int is_part(const char *name)
{
    size_t n = strlen(name), end = strlen(PART_END);

    return strncmp(name, PART, strlen(PART)) == 0 && n > end &&
           strcmp(name + n - end, PART_END) == 0;
}

static sr1_status open_part(struct saved_states *s, const char *name)
{
    char *path = sr1__path_join(s->folder, name);
    sr1_status st =
        path ? sr1__weights_open(&s->files[s->n], path) : sr1__fail_nomem("path");

    s->n += st == SR1_OK;
    sr1__free(path);
    return st;
}

static sr1_status open_states(struct saved_states *s)
{
    char **names = NULL;
    size_t n = 0;
    sr1_status st = sr1__dir_list(s->folder, &names, &n);

    if (st == SR1_OK) {
        s->files = sr1__calloc(n + 1, sizeof(*s->files));
        st = s->files ? SR1_OK : sr1__fail_nomem("optimizer state");
    }
    for (size_t i = 0; i < n && st == SR1_OK; i++)
        if (is_part(names[i]))
            st = open_part(s, names[i]);
    sr1__dir_list_free(names, n);
    if (st == SR1_OK && s->n == 0) {
        st = sr1__weights_open(&s->files[0], s->folder);
        s->n = st == SR1_OK;
    }
    return st;
}

static sr1_status close_states(struct saved_states *s, sr1_status st)
{
    for (size_t i = 0; i < s->n; i++) {
        st = sr1__weights_blame(s->files[i], st);
        sr1__weights_close(s->files[i]);
    }
    sr1__free(s->files);
    return st;
}

/* Numbers [begin, end) of a tensor, in a file. */
struct saved_range {
    const float *data;
    int64_t begin, end;
};

/* A number, up to the character `until`; NULL: there is none. */
static const char *parse_bound(const char *text, char until, int64_t *out)
{
    const char *at = strchr(text, until);

    return at && sr1__parse_int(text, (size_t)(at - text), out) && *out >= 0 ? at + 1
                                                                             : NULL;
}

/* Is w a part of the tensor called `name`? */
static int match_part(const struct sr1__weight *w, const char *name,
                      struct saved_range *out)
{
    size_t n = strlen(name);
    const char *at = w->name + n;

    if (strncmp(w->name, name, n) != 0 || *at != '[')
        return 0;
    at = parse_bound(at + 1, ':', &out->begin);
    at = at ? parse_bound(at, ']', &out->end) : NULL;
    out->data = w->data;
    return at && *at == '\0' && out->begin < out->end && w->n_dims == 1 &&
           w->dtype == SR1__WEIGHT_F32 && w->shape[0] == out->end - out->begin;
}

/* The tensor whole, as large as `leaf`; *out unchanged: no file has it so. */
static sr1_status find_whole(const struct saved_states *s, const char *name,
                             const sr1_tensor *leaf, struct saved_range *out)
{
    struct sr1__weight_out want;
    const struct sr1__weight *found;

    describe_tensor(&want, name, leaf);
    for (size_t i = 0; i < s->n; i++) {
        if (!sr1__weights_find(s->files[i], name))
            continue;
        SR1__TRY(sr1__weights_get(s->files[i], name, want.n_dims, want.shape, &found));
        if (found->dtype != SR1__WEIGHT_F32)
            return sr1__fail(SR1_E_CORRUPT, "%s: %s is not fp32", found->file, name);
        *out = (struct saved_range){found->data, 0, t_numel(leaf)};
        return SR1_OK;
    }
    return SR1_OK;
}

/* The part of it that has number `at`. */
static sr1_status find_part(const struct saved_states *s, const char *name, int64_t at,
                            struct saved_range *out)
{
    for (size_t i = 0; i < s->n; i++)
        for (size_t k = 0; k < sr1__weights_count(s->files[i]); k++)
            if (match_part(sr1__weights_at(s->files[i], k), name, out) &&
                out->begin <= at && at < out->end)
                return SR1_OK;
    return sr1__fail(SR1_E_CORRUPT, "%s: number %" PRId64 " of %s is missing", s->folder,
                     at, name);
}

static sr1_status copy_numbers(sr1_tensor *to, int64_t at, const float *from, int64_t n)
{
    sr1_scope *s = sr1__scope_open(SR1__CPU, "optimizer state"); /* t_copy_ moves them */

    sr1__scope_no_grad(s);
    t_copy_(s, t_narrow(s, t_reshape(s, to, T_SHAPE(t_numel(to))), 0, at, n),
            t_from_f32(s, from, 1, &n));
    return sr1__scope_close(s);
}

/* Tensor i of the optimizer, which may be a part itself. */
static sr1_status load_tensor(const struct saved_states *s, struct sr1__optimizer *o,
                              size_t i)
{
    struct sr1__named to = sr1__optimizer_state(o, i);
    int64_t from = sr1__optimizer_state_from(o, i), n = t_numel(to.tensor), here;
    struct saved_range r = {0};

    from = from < 0 ? 0 : from;
    SR1__TRY(find_whole(s, to.name, sr1__optimizer_state_leaf(o, i), &r));
    for (int64_t at = 0; at < n; at += here) {
        if (from + at >= r.end)
            SR1__TRY(find_part(s, to.name, from + at, &r));
        here = r.end - (from + at) < n - at ? r.end - (from + at) : n - at;
        SR1__TRY(copy_numbers(to.tensor, at, r.data + (from + at - r.begin), here));
    }
    return SR1_OK;
}

sr1_status sr1__learner_load_states(struct sr1__learner *l, const char *folder)
{
    struct saved_states s = {.folder = folder};
    size_t n = sr1__optimizer_state_count(l->optimizer);
    sr1_status st = open_states(&s);

    for (size_t i = 0; i < n && st == SR1_OK; i++)
        st = load_tensor(&s, l->optimizer, i);
    return close_states(&s, st);
}
