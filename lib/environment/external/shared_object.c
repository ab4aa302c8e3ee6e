/* environment/external/shared_object.c - parts of the user's that are tables of functions
 * in a shared object, loaded into this process. */
#include "environment/external/external.h"

#include "base/buf.h"
#include "base/error.h"
#include "base/str.h"

#include <dlfcn.h>
#include <string.h>

int sr1__is_shared_object(const char *path)
{
    return sr1__str_ends_with(sr1__str_of(path), ".so");
}

/* A name without a folder is a file of this one, not a library of the system's. */
static sr1_status load_shared_object(void **out, const char *what, const char *path)
{
    struct sr1__buf file;
    sr1_status st;

    sr1__buf_init(&file, 0);
    sr1__buf_fmt(&file, "%s%s", strchr(path, '/') ? "" : "./", path);
    st = sr1__buf_status(&file, what);
    if (st == SR1_OK) {
        *out = dlopen(file.data, RTLD_NOW | RTLD_LOCAL);
        if (*out == NULL)
            st = sr1__fail(SR1_E_IO, "%s: cannot load %s: %.300s", what, path, dlerror());
    }
    sr1__buf_free(&file);
    return st;
}

sr1_status sr1__shared_table(const void **out, const char *what, const char *type,
                             const char *path, const char *name)
{
    void *opened = NULL;
    const void *found;

    SR1__TRY(load_shared_object(&opened, what, path));
    found = dlsym(opened, name);
    if (found == NULL) {
        dlclose(opened);
        return sr1__fail(SR1_E_NOT_FOUND, "%s: %s exports no 'const %s %s'", what, path,
                         type, name);
    }
    *out = found;
    return SR1_OK;
}
