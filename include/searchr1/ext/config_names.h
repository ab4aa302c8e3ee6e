/* searchr1/ext/config_names.h - the table of keys, names of settings in other programs,
 * and the defaults that the key compat changes.
 *
 * Errors:    a status other than SR1_OK leaves outputs as they were.
 * Threads:   no shared state; sr1_config_set_pair as searchr1/config.h.
 *
 * An extension: usable and tested, but its names may still change before 1.0
 * (docs/api.md). */
#ifndef SEARCHR1_EXT_CONFIG_NAMES_H
#define SEARCHR1_EXT_CONFIG_NAMES_H

#include <searchr1/config.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- keys ---- */

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
    const char *choices;      /* CHOICE: "a|b", where "c:N" is c:0 to c:63; LIST: names
                                 that the library knows, or NULL; SECRET: the
                                 environment variable; INT: the word for 0; else NULL */
    const char *help;         /* one line */
    double min;               /* INT and REAL: inclusive bounds */
    double max;
    int32_t type;   /* SR1_CONFIG_BOOL ... */
    int32_t status; /* SR1_CONFIG_LIVE or SR1_CONFIG_LATER */
} sr1_config_key_info;

/* Return the number of keys. */
SR1_API size_t sr1_config_key_count(void);

/* Fill *out (struct_size set) with the description of key index, 0 <= index <
 * sr1_config_key_count, in the order of docs/config.md. SR1_E_INVALID: index is out of
 * range. */
SR1_API sr1_status sr1_config_key_describe(size_t index, sr1_config_key_info *out);

/* Set one key from "key=value", as sr1_config_set; the value may contain '='. */
SR1_API sr1_status sr1_config_set_pair(sr1_config *config, const char *pair);

/* ---- names of other programs, presets ---- */

/* A name of a setting in other programs. It is no key: an error that meets it says what
 * is said here. Strings are static. */
typedef struct sr1_config_elsewhere {
    size_t struct_size; /* set by the caller; later versions append fields */
    const char *name;
    const char *of;   /* whose: "TRL", "verl and OpenRLHF", "other programs" */
    const char *key;  /* the key to use; NULL: there is none, and text says what to do */
    const char *text; /* what to know about it; NULL: nothing */
} sr1_config_elsewhere;

/* Return the number of names of other programs that are known. */
SR1_API size_t sr1_config_elsewhere_count(void);

/* Fill *out (struct_size set) with name index, 0 <= index < sr1_config_elsewhere_count.
 * SR1_E_INVALID: index is out of range. */
SR1_API sr1_status sr1_config_elsewhere_describe(size_t index, sr1_config_elsewhere *out);

/* The default that one value of the key compat gives to another key. Strings are static.
 */
typedef struct sr1_config_preset {
    size_t struct_size; /* set by the caller; later versions append fields */
    const char *compat; /* "search-r1", "trl", "verl" */
    const char *key;
    const char *value; /* as sr1_config_set takes it */
} sr1_config_preset;

/* Return the number of defaults that the values of the key compat change. */
SR1_API size_t sr1_config_preset_count(void);

/* Fill *out (struct_size set) with preset index, 0 <= index < sr1_config_preset_count;
 * presets of one value of compat follow one another. SR1_E_INVALID: index is out of
 * range. */
SR1_API sr1_status sr1_config_preset_describe(size_t index, sr1_config_preset *out);

#ifdef __cplusplus
}
#endif
#endif
