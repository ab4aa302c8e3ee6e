/* config/model_folder.h - where the files of a model's folder lie. An adapter's folder
 * has its own, and takes what it lacks from the folder of its base. */
#ifndef SR1__CONFIG_MODEL_FOLDER_H
#define SR1__CONFIG_MODEL_FOLDER_H

#include "base/json.h"

#define SR1__ADAPTER_CONFIG_FILE "adapter_config.json"

/* Does the folder hold an adapter? A link that leads nowhere counts: its reader names it.
 */
sr1_status sr1__adapter_is_folder(const char *folder, int *yes);

/* The base that adapter_config.json names, "" where it names none. SR1_E_PARSE: it is no
 * text, or one with a NUL. Borrowed from root; name is what errors call the file. */
sr1_status sr1__adapter_base_named(const json_t *root, const char *name,
                                   const char **out);

/* The base of an adapter's folder; free with sr1__model_base_free. */
struct sr1__model_base {
    char *folder; /* "": none is named; it need not exist */
    char *tried;  /* the other place where it was looked for; NULL: there is none */
};

/* The base is `given` unless that is NULL or ""; else the one that adapter_config.json
 * names, or, where that is no folder and the adapter is the model of a run, what the run
 * was trained from (its model_name_or_path). */
sr1_status sr1__model_base_find(struct sr1__model_base *out, const char *folder,
                                const char *given);
void sr1__model_base_free(struct sr1__model_base *b);

/* The folder from which an adapter's folder takes the files that it lacks; NULL: it is no
 * adapter's, or its base is not there. Caller frees with sr1__free. */
sr1_status sr1__model_spare_folder(char **out, const char *folder, const char *given);

#endif
