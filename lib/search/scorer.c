/* search/scorer.c - see scorer.h. */
#include "search/scorer.h"

static const struct sr1__scorer_ops *offered;

void sr1__scorer_offer(const struct sr1__scorer_ops *ops)
{
    offered = ops;
}

const struct sr1__scorer_ops *sr1__scorer_offered(void)
{
    return offered;
}
