/* config/config.h - reading a configuration from inside the library, where the key is a
 * literal: an unknown key or wrong type gives 0 or "" (a defect that tests show). */
#ifndef SR1__CONFIG_CONFIG_H
#define SR1__CONFIG_CONFIG_H

#include <searchr1/config.h>

/* sr1_config_load from memory; errors use name, whose ending determines the format. */
sr1_status sr1__config_load_text(sr1_config *c, const char *text, size_t n,
                                 const char *name);

int64_t sr1__config_int(const sr1_config *c, const char *key);
double sr1__config_real(const sr1_config *c, const char *key); /* INT keys too */
int32_t sr1__config_bool(const sr1_config *c, const char *key);
const char *sr1__config_str(const sr1_config *c, const char *key);
/* The name of its protocol: protocol_file where that is set, else protocol. */
const char *sr1__config_protocol(const sr1_config *c);
/* The items of a LIST key without the spaces around them; *n is 0 for an empty one. One
 * block: free *items with sr1__free. */
sr1_status sr1__config_list(const sr1_config *c, const char *key, char ***items,
                            size_t *n);
/* Whether a LIST key has this item, or a CHOICE key this value. */
int sr1__config_has_item(const sr1_config *c, const char *key, const char *item);
/* Whether a CHOICE key has this value. */
int sr1__config_is(const sr1_config *c, const char *key, const char *choice);
/* Whether the key was set, by a file, a command line or a program. */
int sr1__config_is_set(const sr1_config *c, const char *key);
/* The default that the value of compat gives this key, NULL: none, and whether it gives
 * one. */
const char *sr1__config_preset(const sr1_config *c, const char *key);
int sr1__config_by_compat(const sr1_config *c, const char *key);
/* The search engine, and the environment, that the program of a loaded run gave it; "":
 * none, and of environments once the key is set anew. NULL sets none. */
const char *sr1__config_given_engine(const sr1_config *c);
const char *sr1__config_given_environment(const sr1_config *c);
sr1_status sr1__config_set_given(sr1_config *c, const char *engine,
                                 const char *environment);
/* While of_record is set, take names that a program registered for itself: who generates
 * with the run's model needs neither its estimator nor its loss. */
void sr1__config_read_record(sr1_config *c, int of_record);
/* The rules between keys, but for those that ask for files of questions, demonstrations
 * and indexes: what takes memory does not depend on them. */
sr1_status sr1__config_validate_shape(const sr1_config *config);

/* SR1_E_CONFIG where a key has such a name, and this program has not registered it. */
sr1_status sr1__config_check_names(const sr1_config *c);
/* A SECRET key's value from its environment variable, "" when absent; never kept or
 * logged. */
const char *sr1__config_secret(const sr1_config *c, const char *key);

#endif
