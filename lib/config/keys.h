/* config/keys.h - the table of keys and one key's value; shared by the files of this
 * module. */
#ifndef SR1__CONFIG_KEYS_H
#define SR1__CONFIG_KEYS_H

#include "base/json.h"
#include "config/config.h"

#define KEY(name, type, default_text, min, max, choices, status, help) CONFIG_KEY_##name,
enum {
#include "config/config_keys.def"
    CONFIG_N_KEYS
};
#undef KEY

struct config_key {
    const char *name;
    int32_t type;
    const char *default_text;
    double min;
    double max;
    const char *choices;
    int32_t status;
    const char *help;
};

extern const struct config_key sr1__config_keys[CONFIG_N_KEYS];

/* A name of other programs; key or text may be NULL, not both. */
struct config_elsewhere {
    const char *name, *of, *key, *text;
};

extern const struct config_elsewhere sr1__config_elsewhere[];
extern const size_t sr1__n_config_elsewhere;

/* The key of this name; NULL with SR1_E_CONFIG's text set, which names the key to use
 * instead. */
const struct config_key *sr1__config_key_find(const char *name);

/* SR1_E_CONFIG for the unknown names of a file, `from` the first of them. The text says
 * what to use in place of each; settings in sections, as in files of other programs, go
 * by their full names. */
sr1_status sr1__config_refuse_names(json_t *file, const char *from);

/* Is it a built-in choice of the key? */
int sr1__config_lists(const struct config_key *key, const char *text);

struct config_value {
    int64_t i; /* INT, BOOL */
    double r;  /* REAL, INT */
    char *s;   /* the text types; owned */
    int is_set;
};

/* SR1_E_CONFIG unless the key takes the text, by its row or since a program added it. */
sr1_status sr1__config_check_choice(const struct config_key *key, const char *text);

/* A checked value of key from text or from a file; *out (uninitialised) on success only.
 * of_record: a name that only the program of a recorded run registered is one too. */
sr1_status sr1__config_value_text(const struct config_key *key, const char *text,
                                  int of_record, struct config_value *out);
sr1_status sr1__config_value_json(const struct config_key *key, const json_t *j,
                                  int of_record, struct config_value *out);

/* Let each have the other's values. */
void sr1__config_swap(sr1_config *a, sr1_config *b);

#endif
