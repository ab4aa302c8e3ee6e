/* base/plugin.c - looks beside this library (or program), where a build folder has it,
 * and where the loader looks. */
#include "base/plugin.h"

#include "base/buf.h"

#include <dlfcn.h>
#include <string.h>

/* From where this code is: a library or a tool, installed or in a build folder; then the
 * plugin's own folder. */
static const char *const places[][2] = {
    {"/", NULL},
    {"/../", "/"},
    {"/../lib/", "/"},
};

#define N_PLACES (sizeof(places) / sizeof(places[0]))

static void *open_beside(const char *library, const char *folder)
{
    Dl_info info;
    const char *slash;
    void *found = NULL;

    if (dladdr((const void *)places, &info) == 0 || info.dli_fname == NULL)
        return NULL;
    slash = strrchr(info.dli_fname, '/');
    for (size_t i = 0; slash != NULL && found == NULL && i < N_PLACES; i++) {
        struct sr1__buf path;

        sr1__buf_init(&path, 0);
        sr1__buf_add(&path, info.dli_fname, (size_t)(slash - info.dli_fname));
        sr1__buf_str(&path, places[i][0]);
        if (places[i][1]) {
            sr1__buf_str(&path, folder);
            sr1__buf_str(&path, places[i][1]);
        }
        sr1__buf_str(&path, library);
        if (path.status == SR1_OK)
            found = dlopen(path.data, RTLD_NOW | RTLD_LOCAL);
        sr1__buf_free(&path);
    }
    return found;
}

sr1_status sr1__plugin_table(const void **out, const char *library, const char *folder,
                             const char *table)
{
    void *opened = open_beside(library, folder);
    const void *found;
    const char *why;

    if (opened == NULL)
        opened = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (opened == NULL) {
        why = dlerror();
        return sr1__fail(SR1_E_UNSUPPORTED, "%.300s", why != NULL ? why : library);
    }
    found = dlsym(opened, table);
    if (found == NULL) {
        dlclose(opened);
        return sr1__fail(SR1_E_UNSUPPORTED, "%s exports no %s", library, table);
    }
    *out = found;
    return SR1_OK;
}
