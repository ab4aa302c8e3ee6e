/* name_device.c - a program that only uses the public interface has the simulated device:
 * its configurations may name it, and dense searches reach it. */
#include "accelerator/accelerator.h"
#include "config/added_choices.h"
#include "tensor/encoder/device_scorer.h"

__attribute__((constructor)) static void name_device(void)
{
    accelerator_reset(); /* so that the shared object is needed */
    sr1__scorer_offer(&sr1__scorer_torch);
    (void)sr1__added_choice("device", "sim", "tests");
}
