/* searchr1/config.h - every hyper-parameter, by name.
 *
 * A configuration holds one value for each known key, the default until something sets
 * it. The same names are used in YAML and JSON files, as key=value on command lines and
 * from other languages. Secrets come from environment variables only and are never
 * written out.
 *
 * Ownership: free a configuration with sr1_config_free.
 * Errors:    a status other than SR1_OK leaves the configuration and outputs as they
 *            were; sr1_last_error() names the file, line and key, and what is allowed.
 * Threads:   any number may read one configuration; setting needs it alone. */
#ifndef SEARCHR1_CONFIG_H
#define SEARCHR1_CONFIG_H

#include <searchr1/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sr1_config sr1_config;

/* Make a configuration with every key at its default. Caller frees with sr1_config_free.
 * SR1_E_NOMEM. */
SR1_API sr1_status sr1_config_new(sr1_config **out);

/* Free a configuration. NULL is fine. */
SR1_API void sr1_config_free(sr1_config *config);

/* Make an independent copy of a configuration. Caller frees with sr1_config_free.
 * SR1_E_NOMEM. */
SR1_API sr1_status sr1_config_copy(sr1_config **out, const sr1_config *config);

/* Set the keys that a file gives: one mapping from key to value, in JSON when its name
 * ends in .json, else in YAML. A null value resets the key to its default. Relative paths
 * are resolved against the folder of the file, except the value of `out`, which stays
 * relative to the working folder. All keys are set or none. SR1_E_IO, SR1_E_PARSE,
 * SR1_E_CONFIG. */
SR1_API sr1_status sr1_config_load(sr1_config *config, const char *path);

/* Set the keys of the run in this folder, in order to use the model that it trained: the
 * keys of its config.json with the changes made when it was resumed, and
 * model_name_or_path as its model/ folder or, without one, the model of its newest
 * checkpoint. folder may also be RUN/model, RUN/best, RUN/checkpoints/step-N or
 * RUN/checkpoints/step-N/model, to name one model. Paths of files that were moved
 * together with the run are adjusted. use_openai is false, whoever generated in training:
 * a server has other weights; set it again to ask one. An estimator or a loss that only
 * the run's program registered keeps its name, which a trainer refuses. All keys are set
 * or none. SR1_E_NOT_FOUND: there is no run in the folder, or it has no model yet. */
SR1_API sr1_status sr1_config_load_run(sr1_config *config, const char *folder);

/* Set one key from text: "true", "3", "1e-5", "a,b" (copied). A relative path is resolved
 * against the working folder. SR1_E_CONFIG: the key is unknown or does not allow the
 * value. */
SR1_API sr1_status sr1_config_set(sr1_config *config, const char *key, const char *text);

/* Reset a key to its default, as if nothing had set it: the default that compat gives to
 * the key where it gives one. SR1_E_CONFIG: the key is unknown or a secret. */
SR1_API sr1_status sr1_config_unset(sr1_config *config, const char *key);

/* Get the value of an INT key. SR1_E_CONFIG: the key is unknown. SR1_E_INVALID: it has
 * another type. */
SR1_API sr1_status sr1_config_get_int(const sr1_config *config, const char *key,
                                      int64_t *out);

/* Get the value of a REAL or INT key. Errors as sr1_config_get_int. */
SR1_API sr1_status sr1_config_get_real(const sr1_config *config, const char *key,
                                       double *out);

/* Get the value of a BOOL key: 1 or 0. Errors as sr1_config_get_int. */
SR1_API sr1_status sr1_config_get_bool(const sr1_config *config, const char *key,
                                       int32_t *out);

/* Get the value of a STRING, LIST, CHOICE or PATH key; "" when it is empty. Borrowed
 * until the key is next set or the configuration is freed. Errors as
 * sr1_config_get_int. */
SR1_API sr1_status sr1_config_get_str(const sr1_config *config, const char *key,
                                      const char **out);

/* *out becomes 1 when the key was set, 0 while it has its default. SR1_E_CONFIG: the key
 * is unknown. */
SR1_API sr1_status sr1_config_is_set(const sr1_config *config, const char *key,
                                     int32_t *out);

/* Check the rules between keys, which setting a single key cannot check. SR1_E_CONFIG
 * names the keys and the remedy. Files need not exist. */
SR1_API sr1_status sr1_config_validate(const sr1_config *config);

/* Write all values as a JSON object that sr1_config_load can read; secrets are left out.
 * A value is null where the key is not set and more than its default follows from that
 * (openai_model, search_engine, execution_score). Caller frees *out with sr1_free. */
SR1_API sr1_status sr1_config_to_json(const sr1_config *config, char **out);

#ifdef __cplusplus
}
#endif
#endif
