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

/* Types of keys. LIST is text with commas between its items; PATH is text. */
enum {
    SR1_CONFIG_BOOL = 0,
    SR1_CONFIG_INT = 1,
    SR1_CONFIG_REAL = 2,
    SR1_CONFIG_STRING = 3,
    SR1_CONFIG_LIST = 4,
    SR1_CONFIG_CHOICE = 5,
    SR1_CONFIG_PATH = 6,
    SR1_CONFIG_SECRET = 7
};

/* LATER: known, but anything except the default is refused until its feature lands. */
enum { SR1_CONFIG_LIVE = 0, SR1_CONFIG_LATER = 1 };

/* What there is to know about a key. Strings are static. */
typedef struct sr1_config_key_info {
    size_t struct_size; /* set by the caller; later versions append fields */
    const char *name;
    const char *default_text; /* as sr1_config_set takes it */
    const char *choices; /* CHOICE: "a|b"; SECRET: the environment variable; else NULL */
    const char *help;    /* one line */
    double min;          /* INT and REAL: inclusive bounds */
    double max;
    int32_t type;   /* SR1_CONFIG_BOOL ... */
    int32_t status; /* SR1_CONFIG_LIVE or SR1_CONFIG_LATER */
} sr1_config_key_info;

/* A configuration with every key at its default. Free it with sr1_config_free.
 * Fails with SR1_E_NOMEM. Since 0.1. */
SR1_API sr1_status sr1_config_new(sr1_config **out);

/* NULL is fine. Since 0.1. */
SR1_API void sr1_config_free(sr1_config *config);

/* An independent copy. Fails with SR1_E_NOMEM. Since 0.1. */
SR1_API sr1_status sr1_config_copy(sr1_config **out, const sr1_config *config);

/* Set the keys given in a file: JSON when its name ends in .json, else YAML; one mapping
 * from key to value, null meaning the default. All of them are set or none. SR1_E_IO,
 * SR1_E_PARSE, SR1_E_CONFIG. Since 0.1. */
SR1_API sr1_status sr1_config_load(sr1_config *config, const char *path);

/* Set one key from text: "true", "3", "1e-5", "a,b". The text is copied.
 * SR1_E_CONFIG for an unknown key or a value that is not allowed. Since 0.1. */
SR1_API sr1_status sr1_config_set(sr1_config *config, const char *key, const char *text);

/* The same from "key=value"; the value may hold further '='. Since 0.1. */
SR1_API sr1_status sr1_config_set_pair(sr1_config *config, const char *pair);

/* The value of an INT key. SR1_E_CONFIG for an unknown key, SR1_E_INVALID for one of
 * another type; so for all getters. Since 0.1. */
SR1_API sr1_status sr1_config_get_int(const sr1_config *config, const char *key,
                                      int64_t *out);

/* The value of a REAL or INT key. Since 0.1. */
SR1_API sr1_status sr1_config_get_real(const sr1_config *config, const char *key,
                                       double *out);

/* 1 or 0 for a BOOL key. Since 0.1. */
SR1_API sr1_status sr1_config_get_bool(const sr1_config *config, const char *key,
                                       int32_t *out);

/* The value of a STRING, LIST, CHOICE or PATH key, "" when empty. Borrowed until the key
 * is next set or the configuration is freed. Since 0.1. */
SR1_API sr1_status sr1_config_get_str(const sr1_config *config, const char *key,
                                      const char **out);

/* *out is 1 when something set the key, 0 while it has its default. Since 0.1. */
SR1_API sr1_status sr1_config_is_set(const sr1_config *config, const char *key,
                                     int32_t *out);

/* Check what no single key can know: rules between keys. SR1_E_CONFIG names the keys and
 * the remedy. Whether files exist is not checked here. Since 0.1. */
SR1_API sr1_status sr1_config_validate(const sr1_config *config);

/* All values as a JSON object that sr1_config_load reads back; secrets are left out.
 * Caller frees with sr1_free. Since 0.1. */
SR1_API sr1_status sr1_config_to_json(const sr1_config *config, char **out);

/* How many keys there are. Since 0.1. */
SR1_API size_t sr1_config_key_count(void);

/* Describe key index (0 <= index < count, in the order of the docs). The caller sets
 * out->struct_size. SR1_E_INVALID for an index past the end. Since 0.1. */
SR1_API sr1_status sr1_config_key_describe(size_t index, sr1_config_key_info *out);

#ifdef __cplusplus
}
#endif
#endif
