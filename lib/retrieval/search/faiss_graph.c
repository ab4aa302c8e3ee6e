/* retrieval/search/faiss_graph.c - a search goes from the entry down the levels, from
 * link to link; on level l it reads the places per_level[l] to per_level[l + 1] of a
 * vector's links. So a link on level l has to lead to a vector that has such a level. */
#include "retrieval/search/faiss_graph.h"

#include "retrieval/search/sections.h"

#define LEVELS_MAX 1024
#define EF_SEARCH_MAX (1 << 20)

static sr1_status fail_corrupt_graph(const char *what)
{
    return sr1__fail(SR1_E_CORRUPT, "FAISS index is damaged: %s", what);
}

static int32_t read_i32(const unsigned char *p, uint64_t i)
{
    return (int32_t)index_u32(p + 4 * i);
}

static sr1_status check_graph_sizes(const struct sr1__faiss_graph *g, int64_t vectors)
{
    if (g->n_levels != (uint64_t)vectors || g->n_offsets != (uint64_t)vectors + 1 ||
        g->n_per_level < 2 || g->n_per_level > LEVELS_MAX ||
        read_i32(g->per_level, 0) != 0 || g->ef_search < 1 ||
        g->ef_search > EF_SEARCH_MAX || g->beam != 1)
        return fail_corrupt_graph("its graph is out of range");
    for (uint64_t i = 1; i < g->n_per_level; i++)
        if (read_i32(g->per_level, i) < read_i32(g->per_level, i - 1))
            return fail_corrupt_graph("its levels are out of order");
    return SR1_OK;
}

/* Where the links of each vector begin: as many behind one another as it has levels. */
static sr1_status check_offsets(const struct sr1__faiss_graph *g, int64_t vectors)
{
    uint64_t at = 0;

    for (int64_t v = 0; v < vectors; v++) {
        int32_t levels = read_i32(g->levels, (uint64_t)v);

        if (levels < 1 || (uint64_t)levels >= g->n_per_level ||
            index_u64(g->offsets + 8 * v) != at)
            return fail_corrupt_graph("its links are out of order");
        at += (uint64_t)read_i32(g->per_level, (uint64_t)levels);
    }
    if (index_u64(g->offsets + 8 * vectors) != at || at != g->n_neighbors)
        return fail_corrupt_graph("links are missing");
    return SR1_OK;
}

static sr1_status check_links(const struct sr1__faiss_graph *g, int64_t vectors,
                              int64_t v)
{
    const unsigned char *links = g->neighbors + 4 * index_u64(g->offsets + 8 * v);
    int32_t levels = read_i32(g->levels, (uint64_t)v);

    for (int32_t l = 0; l < levels; l++) {
        int32_t end = read_i32(g->per_level, (uint64_t)l + 1);

        for (int32_t k = read_i32(g->per_level, (uint64_t)l); k < end; k++) {
            int32_t to = read_i32(links, (uint64_t)k);

            if (to < -1 || to >= vectors ||
                (to >= 0 && read_i32(g->levels, (uint64_t)to) <= l))
                return fail_corrupt_graph("a link leads nowhere");
        }
    }
    return SR1_OK;
}

sr1_status sr1__faiss_graph_check(const struct sr1__faiss_graph *g, int64_t vectors)
{
    SR1__TRY(check_graph_sizes(g, vectors));
    SR1__TRY(check_offsets(g, vectors));
    if (vectors == 0)
        return g->entry == -1 ? SR1_OK : fail_corrupt_graph("its entry is out of range");
    if (g->entry < 0 || g->entry >= vectors || g->max_level < 0 ||
        g->max_level >= read_i32(g->levels, (uint64_t)g->entry))
        return fail_corrupt_graph("its entry is out of range");
    for (int64_t v = 0; v < vectors; v++)
        SR1__TRY(check_links(g, vectors, v));
    return SR1_OK;
}
