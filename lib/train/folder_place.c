/* train/folder_place.c - is the folder of a run still where the run began in it? */
#include "train/internal.h"

/* Files are opened by its path: in a folder that was moved, or replaced by another, the
 * run's journals would go on and the rest would come to lie elsewhere. */
sr1_status sr1__folder_check_there(const sr1_trainer *tr)
{
    if (tr->folder_id.number == 0 || sr1__path_is(tr->run_folder, tr->folder_id))
        return SR1_OK;
    return sr1__fail(SR1_E_IO,
                     "%s is no longer the folder that the run began in: it was moved, "
                     "removed or replaced; where it is now, --resume goes on from its "
                     "last checkpoint",
                     tr->run_folder);
}
