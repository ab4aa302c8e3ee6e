/* name_device.c - a program that only uses the public interface has the simulated device,
 * and its configurations may name it. */
#include "accelerator/accelerator.h"
#include "config/added_choices.h"

__attribute__((constructor)) static void name_device(void)
{
    accelerator_reset(); /* so that the shared object is needed */
    (void)sr1__added_choice("device", "sim", "tests");
}
