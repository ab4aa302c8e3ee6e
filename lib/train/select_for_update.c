/* train/select_for_update.c - collect the trajectories of the update: those that are not
 * dropped, with their loss masks and without the tokens that are rejected, in a store
 * that spills to disk beyond trajectory_memory. */
#include "train/ranks.h"
#include "train/reject_tokens.h"

#include "base/file.h"
#include "base/mem.h"

/* The k-th of the update. */
static sr1_status store_one(struct sr1__step_batch *b, sr1_trajectory *t,
                            const struct sr1__kept_tokens *kept, size_t k)
{
    sr1_trajectory *copy = NULL;
    sr1_status st;

    SR1__TRY(sr1__without_rejected(kept, k, t, &copy));
    st = sr1__trajectory_store_add(b->selected, copy ? copy : t);
    sr1_trajectory_free(copy);
    return st;
}

static sr1_status store_kept(struct sr1__step_batch *b,
                             const struct sr1__step_batch *from,
                             const struct sr1__kept_tokens *kept)
{
    int64_t limit = b->tr->set.trajectory_memory;
    const char *folder = limit ? b->tr->run_folder : NULL;

    if (folder)
        SR1__TRY(sr1__dir_make(folder));
    SR1__TRY(sr1__trajectory_store_new(&b->selected, limit, folder));
    for (size_t i = 0, k = 0; i < from->n; i++)
        if (from->drop[i] == SR1__DROP_NONE)
            SR1__TRY(store_one(b, from->t[i], kept, k++));
    return SR1_OK;
}

static sr1_status store_selected(struct sr1__step_batch *b,
                                 const struct sr1__step_batch *from)
{
    struct sr1__kept_tokens kept;
    sr1_status st;

    SR1__TRY(sr1__reject_tokens(from, &kept));
    st = store_kept(b, from, &kept);
    sr1__kept_tokens_free(&kept);
    return st;
}

/* Release the stores' memory, so that the bound on memory holds during the update. */
static sr1_status release_all(struct sr1__step_batch *b)
{
    for (size_t i = 0; b->log && i < b->n; i++)
        SR1__TRY(sr1__trajectory_store_add(b->log, b->t[i]));
    if (b->masked)
        sr1__step_batch_free(b->masked);
    sr1__free(b->masked);
    b->masked = NULL;
    for (size_t i = 0; !b->keep && i < b->n; i++) {
        sr1_trajectory_free(b->t[i]);
        b->t[i] = NULL;
    }
    return SR1_OK;
}

sr1_status sr1__select_for_update(struct sr1__step_batch *b)
{
    SR1__TRY(sr1__check_shared(b->tr, b->t, b->n));
    SR1__TRY(sr1__mask_loss(b));
    SR1__TRY(store_selected(b, b->masked ? b->masked : b));
    return release_all(b);
}
