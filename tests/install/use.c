/* use.c - a program of somebody else's, in C11 and C++17: it knows nothing of this tree.
 */
#include <searchr1/searchr1.h>

#include <stdio.h>
#include <string.h>

/* A call that works, and one that fails as documented. */
int main(void)
{
    sr1_config *config = NULL;
    sr1_status status = sr1_config_new(&config);

    if (status != SR1_OK) {
        fprintf(stderr, "sr1_config_new: %s\n", sr1_last_error());
        return 1;
    }
    status = sr1_config_set(config, "group_sise", "8");
    if (status != SR1_E_CONFIG || strstr(sr1_last_error(), "group_size") == NULL) {
        fprintf(stderr, "unknown key: %s: %s\n", sr1_status_name(status),
                sr1_last_error());
        return 1;
    }
    sr1_config_free(config);
    printf("%s\n", sr1_version());
    return 0;
}
