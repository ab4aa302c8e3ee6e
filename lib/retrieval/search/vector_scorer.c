/* retrieval/search/vector_scorer.c - see vector_scorer.h. */
#include "retrieval/search/vector_scorer.h"

static const struct sr1__scorer_ops *offered;

void sr1__scorer_offer(const struct sr1__scorer_ops *ops)
{
    offered = ops;
}

const struct sr1__scorer_ops *sr1__scorer_offered(void)
{
    return offered;
}
