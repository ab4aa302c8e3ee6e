/* retrieval/search/faiss_bridge.c - looks for the bridge beside this library (or
 * program), where a build folder has it, and where the loader looks. */
#include "retrieval/search/faiss_bridge.h"

#include "base/buf.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const struct sr1__faiss_table *loaded;

/* From where this code is: a library or a tool, installed or in a build folder. */
static const char *const places[] = {
    "/" SR1__FAISS_LIBRARY,
    "/../retrieval/faiss/" SR1__FAISS_LIBRARY,
    "/../lib/retrieval/faiss/" SR1__FAISS_LIBRARY,
};

#define N_PLACES (sizeof(places) / sizeof(places[0]))

static void *open_beside(void)
{
    Dl_info info;
    const char *slash;
    void *found = NULL;

    if (dladdr((const void *)&lock, &info) == 0 || info.dli_fname == NULL)
        return NULL;
    slash = strrchr(info.dli_fname, '/');
    for (size_t i = 0; slash != NULL && found == NULL && i < N_PLACES; i++) {
        struct sr1__buf path;

        sr1__buf_init(&path, 0);
        sr1__buf_add(&path, info.dli_fname, (size_t)(slash - info.dli_fname));
        sr1__buf_str(&path, places[i]);
        if (path.status == SR1_OK)
            found = dlopen(path.data, RTLD_NOW | RTLD_LOCAL);
        sr1__buf_free(&path);
    }
    return found;
}

static sr1_status load_bridge(void)
{
    void *library = open_beside();
    const struct sr1__faiss_table *table;
    const char *why;

    if (library == NULL)
        library = dlopen(SR1__FAISS_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        why = dlerror();
        return sr1__fail(SR1_E_UNSUPPORTED,
                         "FAISS cannot be used: %.300s; install libfaiss-dev (apt-get "
                         "install libfaiss-dev) and build this library again",
                         why != NULL ? why : "no " SR1__FAISS_LIBRARY);
    }
    table = dlsym(library, SR1__FAISS_TABLE);
    if (table == NULL || table->size != sizeof(*table) ||
        table->version != SR1__FAISS_VERSION) {
        dlclose(library);
        return sr1__fail(SR1_E_UNSUPPORTED,
                         "FAISS cannot be used: " SR1__FAISS_LIBRARY
                         " is of another version of this library; build it again");
    }
    loaded = table;
    return SR1_OK;
}

sr1_status sr1__faiss_bridge(const struct sr1__faiss_table **out)
{
    sr1_status status = SR1_OK;

    pthread_mutex_lock(&lock);
    if (loaded == NULL)
        status = load_bridge();
    *out = loaded;
    pthread_mutex_unlock(&lock);
    return status;
}

sr1_status sr1__faiss_status(sr1_status status, const struct sr1__faiss_error *error,
                             const char *doing)
{
    return status == SR1_OK ? SR1_OK
                            : sr1__fail(status, "%s: FAISS: %.*s", doing,
                                        (int)strcspn(error->text, "\n"), error->text);
}
