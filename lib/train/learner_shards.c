/* train/learner_shards.c - see learner_shards.h. */
#include "train/learner_shards.h"

#include "base/mem.h"

static sr1_status make_shards(const struct sr1__learner *l, const struct sr1__named *of,
                              size_t n, size_t *ends, size_t n_units,
                              struct sr1__shards **out)
{
    struct sr1__shard_layout layout = {
        .n = n, .ends = ends, .n_units = n_units, .chunk = SR1__NORM_CHUNK};
    int64_t *sizes;
    sr1_status st;

    SR1__CALLOC(sizes, n + 1, "shards");
    for (size_t i = 0; i < n; i++)
        sizes[i] = t_numel(of[i].tensor);
    layout.sizes = sizes;
    st = sr1__shards_new(out, &l->mesh, &layout);
    sr1__free(sizes);
    return st;
}

sr1_status sr1__leaf_shards(const struct sr1__learner *l, struct sr1__shards **out)
{
    const sr1_model *m = l->replicas[0];
    size_t n_units = sr1__model_units(m, NULL), *ends;
    sr1_status st;

    SR1__CALLOC(ends, n_units, "shards");
    sr1__model_units(m, ends);
    st = make_shards(l, m->leaves, m->n_leaves, ends, n_units, out);
    sr1__free(ends);
    return st;
}

sr1_status sr1__param_shards(const struct sr1__learner *l, struct sr1__shards **out)
{
    const sr1_model *m = l->replicas[0];

    return m->params == m->leaves ? sr1__leaf_shards(l, out)
                                  : make_shards(l, m->params, m->n_params, NULL, 1, out);
}
