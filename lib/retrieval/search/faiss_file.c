/* retrieval/search/faiss_file.c - see faiss_file.h. The layout is that of
 * faiss::write_index, in the order of its fields; a vector is its length:u64 and its
 * elements. */
#include "retrieval/search/faiss_file.h"

#include "base/buf.h"
#include "retrieval/search/faiss_graph.h"
#include "retrieval/search/sections.h"

#include <string.h>

#define DIM_MAX 65536
#define NESTED_MAX 4
#define TRANSFORMS_MAX 8
#define LISTS_MAX ((uint64_t)1 << 31)
#define PQ_BITS_MAX 16
#define SDC_BITS_MAX 8 /* HNSW over PQ has FAISS tabulate 4^bits distances */

/* An index within the file. */
struct nested_index {
    const struct index_type *type;
    int32_t dim;
    int64_t vectors;
    int32_t metric;
    int has_ivf;
    int has_hnsw;
    uint64_t code_size; /* of PQ and SQ */
    uint64_t bits;      /* of PQ */
};

struct file_walk {
    struct sr1__reader r;
    int depth;
    int mapped; /* an IDMap is around: FAISS takes ids for places in it */
};

struct index_type {
    char name[5];
    const char *family;
    sr1_status (*check)(struct file_walk *w, struct nested_index *ix);
};

static sr1_status check_faiss_index(struct file_walk *w, struct nested_index *ix);

static sr1_status fail_corrupt_index(const char *what)
{
    return sr1__fail(SR1_E_CORRUPT, "FAISS index is damaged: %s", what);
}

static sr1_status fail_unsupported_index(const char *what)
{
    return sr1__fail(SR1_E_UNSUPPORTED, "FAISS index: %s; known are %s", what,
                     "Flat, IVF, HNSW, PQ, SQ, IDMap and linear transforms");
}

/* ---- elements ---- */

/* A bool; FAISS reads it as one, so it has to be. */
static sr1_status read_flag(struct file_walk *w, int *out)
{
    uint8_t v = sr1__read_u8(&w->r);

    *out = v;
    return v > 1 ? fail_corrupt_index("a flag is neither 0 nor 1") : SR1_OK;
}

/* n elements of a size, in place. */
static sr1_status read_array(struct file_walk *w, uint64_t n, size_t size,
                             const void **out)
{
    if (w->r.failed || n > w->r.left / size)
        return fail_corrupt_index("it is cut short, or a size is wrong");
    *out = sr1__read_bytes(&w->r, (size_t)n * size);
    return SR1_OK;
}

static sr1_status read_vector(struct file_walk *w, size_t size, const void **out,
                              uint64_t *n)
{
    *n = sr1__read_u64(&w->r);
    return read_array(w, *n, size, out);
}

static sr1_status check_floats_finite(const unsigned char *p, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        if ((index_u32(p + 4 * i) & 0x7F800000u) == 0x7F800000u)
            return fail_corrupt_index("a number is not finite");
    return SR1_OK;
}

/* A vector of n floats, all finite. */
static sr1_status read_faiss_floats(struct file_walk *w, uint64_t n, const char *what)
{
    const unsigned char *p = NULL;
    uint64_t have = 0;

    SR1__TRY(read_vector(w, 4, (const void **)&p, &have));
    return have != n ? fail_corrupt_index(what) : check_floats_finite(p, n);
}

static sr1_status read_codes(struct file_walk *w, const struct nested_index *ix,
                             const unsigned char **codes)
{
    uint64_t have = 0;

    SR1__TRY(read_vector(w, 1, (const void **)codes, &have));
    return have != (uint64_t)ix->vectors * ix->code_size
               ? fail_corrupt_index("codes are missing")
               : SR1_OK;
}

static sr1_status read_faiss_header(struct file_walk *w, struct nested_index *ix)
{
    int trained = 0;

    ix->dim = (int32_t)sr1__read_u32(&w->r);
    ix->vectors = (int64_t)sr1__read_u64(&w->r);
    (void)sr1__read_bytes(&w->r, 16);
    SR1__TRY(read_flag(w, &trained));
    ix->metric = (int32_t)sr1__read_u32(&w->r);
    if (w->r.failed)
        return fail_corrupt_index("it is cut short");
    if (ix->dim < 1 || ix->dim > DIM_MAX || ix->vectors < 0 || ix->vectors > INT32_MAX)
        return fail_corrupt_index("its size is out of range");
    if (ix->metric < 0 || ix->metric > 1)
        return fail_unsupported_index("its metric is neither inner product nor L2");
    return trained ? SR1_OK : fail_corrupt_index("it is not trained");
}

/* The index within *ix, of as many vectors and dimensions, and the same metric. */
static sr1_status check_inner(struct file_walk *w, const struct nested_index *ix,
                              struct nested_index *in)
{
    SR1__TRY(check_faiss_index(w, in));
    if (in->dim != ix->dim || in->vectors != ix->vectors || in->metric != ix->metric)
        return fail_corrupt_index("an index within it does not fit");
    return SR1_OK;
}

static int is_family(const struct nested_index *ix, const char *family)
{
    return strcmp(ix->type->family, family) == 0;
}

/* ---- flat, PQ, SQ ---- */

static sr1_status check_flat(struct file_walk *w, struct nested_index *ix)
{
    SR1__TRY(read_faiss_header(w, ix));
    return read_faiss_floats(w, (uint64_t)ix->vectors * (uint64_t)ix->dim,
                             "vectors are missing");
}

static sr1_status read_pq(struct file_walk *w, struct nested_index *ix)
{
    uint64_t dim = sr1__read_u64(&w->r);
    uint64_t parts = sr1__read_u64(&w->r);

    ix->bits = sr1__read_u64(&w->r);
    if (w->r.failed || dim != (uint64_t)ix->dim || parts < 1 || parts > dim ||
        dim % parts != 0 || ix->bits < 1 || ix->bits > PQ_BITS_MAX)
        return fail_corrupt_index("its product quantizer is out of range");
    ix->code_size = (parts * ix->bits + 7) / 8;
    return read_faiss_floats(w, dim << ix->bits, "centroids are missing");
}

static sr1_status check_pq(struct file_walk *w, struct nested_index *ix)
{
    const unsigned char *codes = NULL;
    uint32_t search_type;
    int signs = 0;

    SR1__TRY(read_faiss_header(w, ix));
    SR1__TRY(read_pq(w, ix));
    SR1__TRY(read_codes(w, ix, &codes));
    search_type = sr1__read_u32(&w->r);
    SR1__TRY(read_flag(w, &signs));
    (void)sr1__read_u32(&w->r);
    return search_type != 0 || signs
               ? fail_unsupported_index("it compares by Hamming distance")
               : SR1_OK;
}

/* Scalar quantizers: bits a component, and what is trained: a number for each component
 * of lower end and width, for all together, or nothing. */
static const struct {
    uint32_t bits;
    int trained; /* 0, 1: two for all, 2: two a component */
} scalars[] = {{8, 2}, {4, 2}, {8, 1}, {4, 1}, {16, 0}, {8, 0}, {6, 2}};

#define SQ_FP16 4
#define SQ_STATISTICS 4

static sr1_status read_sq(struct file_walk *w, struct nested_index *ix, uint32_t *kind)
{
    uint64_t dim, n;
    uint32_t statistic;

    *kind = sr1__read_u32(&w->r);
    statistic = sr1__read_u32(&w->r);
    (void)sr1__read_u32(&w->r);
    dim = sr1__read_u64(&w->r);
    ix->code_size = sr1__read_u64(&w->r);
    if (*kind >= sizeof(scalars) / sizeof(scalars[0]))
        return fail_unsupported_index("its scalar quantizer is of a kind not known");
    if (dim != (uint64_t)ix->dim || statistic >= SQ_STATISTICS ||
        ix->code_size != (dim * scalars[*kind].bits + 7) / 8)
        return fail_corrupt_index("its scalar quantizer is out of range");
    n = scalars[*kind].trained == 2 ? 2 * dim : 2 * (uint64_t)scalars[*kind].trained;
    return read_faiss_floats(w, n, "its scalar quantizer has a wrong size");
}

static sr1_status check_halves(const unsigned char *p, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        if ((p[2 * i + 1] & 0x7C) == 0x7C)
            return fail_corrupt_index("a number is not finite");
    return SR1_OK;
}

static sr1_status check_sq(struct file_walk *w, struct nested_index *ix)
{
    const unsigned char *codes = NULL;
    uint32_t kind = 0;

    SR1__TRY(read_faiss_header(w, ix));
    SR1__TRY(read_sq(w, ix, &kind));
    SR1__TRY(read_codes(w, ix, &codes));
    return kind == SQ_FP16
               ? check_halves(codes, (uint64_t)ix->vectors * (uint64_t)ix->dim)
               : SR1_OK;
}

/* ---- HNSW ---- */

static sr1_status read_graph(struct file_walk *w, struct sr1__faiss_graph *g)
{
    uint64_t n = 0;
    const void *probas;

    SR1__TRY(read_vector(w, 8, &probas, &n));
    SR1__TRY(read_vector(w, 4, (const void **)&g->per_level, &g->n_per_level));
    SR1__TRY(read_vector(w, 4, (const void **)&g->levels, &g->n_levels));
    SR1__TRY(read_vector(w, 8, (const void **)&g->offsets, &g->n_offsets));
    SR1__TRY(read_vector(w, 4, (const void **)&g->neighbors, &g->n_neighbors));
    g->entry = (int32_t)sr1__read_u32(&w->r);
    g->max_level = (int32_t)sr1__read_u32(&w->r);
    (void)sr1__read_u32(&w->r); /* efConstruction */
    g->ef_search = (int32_t)sr1__read_u32(&w->r);
    g->beam = (int32_t)sr1__read_u32(&w->r);
    return w->r.failed ? fail_corrupt_index("it is cut short") : SR1_OK;
}

static sr1_status check_hnsw(struct file_walk *w, struct nested_index *ix)
{
    struct sr1__faiss_graph g;
    struct nested_index in = {0};

    SR1__TRY(read_faiss_header(w, ix));
    SR1__TRY(read_graph(w, &g));
    SR1__TRY(sr1__faiss_graph_check(&g, ix->vectors));
    ix->has_hnsw = 1;
    SR1__TRY(check_inner(w, ix, &in));
    /* "IHNf" over flat, "IHNp" over PQ, "IHNs" over SQ: FAISS casts without a look */
    if (!is_family(&in, ix->type->name[3] == 'f'   ? "flat"
                        : ix->type->name[3] == 'p' ? "PQ"
                                                   : "SQ"))
        return fail_corrupt_index("its vectors are of another kind than it says");
    return is_family(&in, "PQ") && in.bits > SDC_BITS_MAX
               ? fail_unsupported_index("HNSW over PQ codes of more than 8 bits")
               : SR1_OK;
}

/* ---- IVF ---- */

static sr1_status read_direct_map(struct file_walk *w)
{
    uint8_t kind = sr1__read_u8(&w->r);
    const void *array;
    uint64_t n;

    if (kind > 1)
        return fail_unsupported_index("it has a map of a kind not known");
    return read_vector(w, 8, &array, &n);
}

static sr1_status read_ivf_header(struct file_walk *w, struct nested_index *ix,
                                  uint64_t *lists)
{
    struct nested_index quantizer = {0};
    uint64_t nprobe;

    SR1__TRY(read_faiss_header(w, ix));
    ix->has_ivf = 1;
    *lists = sr1__read_u64(&w->r);
    nprobe = sr1__read_u64(&w->r);
    if (w->r.failed || *lists < 1 || *lists > LISTS_MAX || nprobe < 1)
        return fail_corrupt_index("its lists are out of range");
    SR1__TRY(check_faiss_index(w, &quantizer));
    if (!is_family(&quantizer, "flat") && !is_family(&quantizer, "HNSW"))
        return fail_unsupported_index("its quantizer is neither Flat nor HNSW");
    if (quantizer.dim != ix->dim || (uint64_t)quantizer.vectors != *lists)
        return fail_corrupt_index("its quantizer does not fit");
    return read_direct_map(w);
}

/* n vectors and ids of a list. */
static sr1_status read_inverted_list(struct file_walk *w, const struct nested_index *ix,
                                     uint64_t n, int halves)
{
    const unsigned char *ids = NULL;
    const void *codes = NULL;

    SR1__TRY(read_array(w, n, (size_t)ix->code_size, &codes));
    SR1__TRY(read_array(w, n, 8, (const void **)&ids));
    for (uint64_t i = 0; i < n && w->mapped; i++)
        if (index_u64(ids + 8 * i) >= (uint64_t)ix->vectors)
            return fail_corrupt_index("an id is out of range");
    return halves ? check_halves(codes, n * ix->code_size / 2) : SR1_OK;
}

/* "full": the size of each list; "sprs": number and size of those that are not empty. */
static sr1_status read_inverted_lists(struct file_walk *w, const struct nested_index *ix,
                                      uint64_t lists, int halves)
{
    const char *kind = NULL;
    const unsigned char *sizes = NULL;
    uint64_t n = 0, sum = 0, step, last = 0;

    SR1__TRY(read_array(w, 4, 1, (const void **)&kind));
    step = memcmp(kind, "sprs", 4) == 0 ? 2 : 1;
    if (step == 1 && memcmp(kind, "full", 4) != 0)
        return fail_corrupt_index("its lists are of no known kind");
    SR1__TRY(read_vector(w, 8, (const void **)&sizes, &n));
    if (step == 1 ? n != lists : n % 2 != 0)
        return fail_corrupt_index("the sizes of its lists are missing");
    for (uint64_t i = 0; i < n; i += step) {
        uint64_t at = step == 1 ? i : index_u64(sizes + 8 * i);
        uint64_t size = index_u64(sizes + 8 * (i + step - 1));

        if (at >= lists || (i > 0 && at <= last))
            return fail_corrupt_index("its lists are out of order");
        SR1__TRY(read_inverted_list(w, ix, size, halves));
        sum += size;
        last = at;
    }
    return sum != (uint64_t)ix->vectors ? fail_corrupt_index("its lists are incomplete")
                                        : SR1_OK;
}

static sr1_status read_inverted(struct file_walk *w, const struct nested_index *ix,
                                uint64_t lists, int halves)
{
    const char *kind = NULL;
    uint64_t have, size;

    SR1__TRY(read_array(w, 4, 1, (const void **)&kind));
    if (memcmp(kind, "ilar", 4) != 0)
        return fail_unsupported_index("its lists are not in the file");
    have = sr1__read_u64(&w->r);
    size = sr1__read_u64(&w->r);
    if (have != lists || size != ix->code_size)
        return fail_corrupt_index("its lists do not fit");
    return read_inverted_lists(w, ix, lists, halves);
}

static sr1_status check_ivf_flat(struct file_walk *w, struct nested_index *ix)
{
    uint64_t lists = 0;

    SR1__TRY(read_ivf_header(w, ix, &lists));
    ix->code_size = 4 * (uint64_t)ix->dim;
    return read_inverted(w, ix, lists, 0);
}

static sr1_status check_ivf_pq(struct file_walk *w, struct nested_index *ix)
{
    uint64_t lists = 0, size;
    int residual = 0;

    SR1__TRY(read_ivf_header(w, ix, &lists));
    SR1__TRY(read_flag(w, &residual));
    size = sr1__read_u64(&w->r);
    SR1__TRY(read_pq(w, ix));
    if (size != ix->code_size)
        return fail_corrupt_index("its codes have a wrong size");
    return read_inverted(w, ix, lists, 0);
}

static sr1_status check_ivf_sq(struct file_walk *w, struct nested_index *ix)
{
    uint64_t lists = 0, size;
    uint32_t kind = 0;
    int residual = 0;

    SR1__TRY(read_ivf_header(w, ix, &lists));
    SR1__TRY(read_sq(w, ix, &kind));
    size = sr1__read_u64(&w->r);
    if (size != ix->code_size)
        return fail_corrupt_index("its codes have a wrong size");
    if (ix->type->name[3] == 'q') /* "IwSQ" is older and has none */
        SR1__TRY(read_flag(w, &residual));
    return read_inverted(w, ix, lists, kind == SQ_FP16);
}

/* ---- what stands before an index ---- */

static sr1_status check_id_map(struct file_walk *w, struct nested_index *ix)
{
    struct nested_index in = {0};
    const void *ids;
    uint64_t n = 0;

    SR1__TRY(read_faiss_header(w, ix));
    w->mapped++;
    SR1__TRY(check_inner(w, ix, &in));
    w->mapped--;
    ix->has_ivf = in.has_ivf;
    ix->has_hnsw = in.has_hnsw;
    SR1__TRY(read_vector(w, 8, &ids, &n));
    return n != (uint64_t)ix->vectors ? fail_corrupt_index("ids are missing") : SR1_OK;
}

/* Vectors of floats whose length does not matter: mean, eigenvalues, ... */
static sr1_status skip_floats(struct file_walk *w, int n)
{
    const void *p;
    uint64_t have;

    for (int i = 0; i < n; i++)
        SR1__TRY(read_vector(w, 4, &p, &have));
    return SR1_OK;
}

static sr1_status read_pca(struct file_walk *w, int has_epsilon)
{
    int rotates = 0;

    (void)sr1__read_bytes(&w->r, has_epsilon ? 8 : 4);
    SR1__TRY(read_flag(w, &rotates));
    (void)sr1__read_u32(&w->r);
    return skip_floats(w, 3);
}

static sr1_status read_matrix(struct file_walk *w, uint64_t *n_matrix, uint64_t *n_bias,
                              int *has_bias)
{
    const unsigned char *p = NULL;

    SR1__TRY(read_flag(w, has_bias));
    SR1__TRY(read_vector(w, 4, (const void **)&p, n_matrix));
    SR1__TRY(check_floats_finite(p, *n_matrix));
    SR1__TRY(read_vector(w, 4, (const void **)&p, n_bias));
    return check_floats_finite(p, *n_bias);
}

static const char *const matrices[] = {"LTra", "rrot", "PcAm", "Pcam"};

static int is_matrix(const char *name)
{
    for (size_t i = 0; i < sizeof(matrices) / sizeof(matrices[0]); i++)
        if (memcmp(name, matrices[i], 4) == 0)
            return 1;
    return 0;
}

/* *dim: what goes in, then what comes out. */
static sr1_status read_transform(struct file_walk *w, int32_t *dim)
{
    uint64_t n_matrix = 0, n_bias = 0;
    int has_bias = 0, trained = 0;
    const char *name = NULL;
    uint32_t in, out;

    SR1__TRY(read_array(w, 4, 1, (const void **)&name));
    if (!is_matrix(name) && memcmp(name, "VNrm", 4) != 0)
        return fail_unsupported_index("a transform is of a kind not known");
    if (!is_matrix(name) && sr1__read_f32(&w->r) != 2.0F)
        return fail_unsupported_index("it normalises by another norm than L2's");
    if (memcmp(name, "PcAm", 4) == 0 || memcmp(name, "Pcam", 4) == 0)
        SR1__TRY(read_pca(w, name[1] == 'c' && name[2] == 'a'));
    if (is_matrix(name))
        SR1__TRY(read_matrix(w, &n_matrix, &n_bias, &has_bias));
    in = sr1__read_u32(&w->r);
    out = sr1__read_u32(&w->r);
    SR1__TRY(read_flag(w, &trained));
    if (w->r.failed || in != (uint32_t)*dim || out < 1 || out > DIM_MAX || !trained)
        return fail_corrupt_index("a transform does not fit");
    if (is_matrix(name) ? n_matrix != (uint64_t)in * out || (has_bias && n_bias != out)
                        : in != out)
        return fail_corrupt_index("a transform has a wrong size");
    *dim = (int32_t)out;
    return SR1_OK;
}

static sr1_status check_transformed(struct file_walk *w, struct nested_index *ix)
{
    struct nested_index in = {0}, expected;
    uint32_t n;

    SR1__TRY(read_faiss_header(w, ix));
    n = sr1__read_u32(&w->r);
    if (n > TRANSFORMS_MAX)
        return fail_corrupt_index("it has too many transforms");
    expected = *ix;
    for (uint32_t i = 0; i < n; i++)
        SR1__TRY(read_transform(w, &expected.dim));
    SR1__TRY(check_inner(w, &expected, &in));
    ix->has_ivf = in.has_ivf;
    ix->has_hnsw = in.has_hnsw;
    return SR1_OK;
}

/* ---- any ---- */

static const struct index_type types[] = {
    {"IxFI", "flat", check_flat},       {"IxF2", "flat", check_flat},
    {"IxFl", "flat", check_flat},       {"IxPq", "PQ", check_pq},
    {"IxSQ", "SQ", check_sq},           {"IHNf", "HNSW", check_hnsw},
    {"IHNp", "HNSW", check_hnsw},       {"IHNs", "HNSW", check_hnsw},
    {"IwFl", "IVF", check_ivf_flat},    {"IwPQ", "IVF", check_ivf_pq},
    {"IwSQ", "IVF", check_ivf_sq},      {"IwSq", "IVF", check_ivf_sq},
    {"IxMp", "map", check_id_map},      {"IxM2", "map", check_id_map},
    {"IxPT", "map", check_transformed},
};

/* name[4]; NULL: it is not known. */
static const struct index_type *find_index_type(const char *name)
{
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        if (memcmp(name, types[i].name, 4) == 0)
            return &types[i];
    return NULL;
}

int sr1__faiss_begins(const char *bytes, size_t n)
{
    return n >= 4 && find_index_type(bytes) != NULL;
}

static sr1_status fail_unknown_type(const char *name)
{
    char shown[5] = "....";

    for (int i = 0; i < 4; i++)
        if (name[i] > ' ' && name[i] < 127)
            shown[i] = name[i];
    return sr1__fail(SR1_E_UNSUPPORTED,
                     "FAISS index: type '%s' is not known, or this is no FAISS index; "
                     "known are Flat, IVF, HNSW, PQ, SQ, IDMap and linear transforms",
                     shown);
}

static sr1_status check_faiss_index(struct file_walk *w, struct nested_index *ix)
{
    const char *name = NULL;
    sr1_status status;

    if (w->depth == NESTED_MAX)
        return fail_unsupported_index("it is nested too deeply");
    SR1__TRY(read_array(w, 4, 1, (const void **)&name));
    ix->type = find_index_type(name);
    if (ix->type == NULL)
        return fail_unknown_type(name);
    w->depth++;
    status = ix->type->check(w, ix);
    w->depth--;
    if (status == SR1_OK && w->r.failed)
        return fail_corrupt_index("it is cut short");
    return status;
}

sr1_status sr1__faiss_check(const void *bytes, size_t n, struct sr1__faiss_meta *out)
{
    struct file_walk w = {.depth = 0};
    struct nested_index ix = {0};

    sr1__reader_init(&w.r, bytes, n);
    SR1__TRY(check_faiss_index(&w, &ix));
    if (w.r.left > 0)
        return fail_corrupt_index("something follows its end");
    out->dim = ix.dim;
    out->vectors = ix.vectors;
    out->metric = ix.metric;
    out->has_ivf = ix.has_ivf;
    out->has_hnsw = ix.has_hnsw;
    return SR1_OK;
}
