/* retrieval/search/faiss_bridge.c - loads the bridge once, when it is first needed. */
#include "retrieval/search/faiss_bridge.h"

#include "base/plugin.h"

#include <pthread.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const struct sr1__faiss_table *loaded;

static sr1_status load_bridge(void)
{
    const void *found;
    const struct sr1__faiss_table *table;

    if (sr1__plugin_table(&found, SR1__FAISS_LIBRARY, "retrieval/faiss",
                          SR1__FAISS_TABLE) != SR1_OK)
        return sr1__fail(SR1_E_UNSUPPORTED,
                         "FAISS cannot be used: %.300s; install libfaiss-dev (apt-get "
                         "install libfaiss-dev) and build this library again",
                         sr1_last_error());
    table = found;
    if (table->size != sizeof(*table) || table->version != SR1__FAISS_VERSION)
        return sr1__fail(SR1_E_UNSUPPORTED,
                         "FAISS cannot be used: " SR1__FAISS_LIBRARY
                         " is of another version of this library; build it again");
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
