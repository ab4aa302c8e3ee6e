/* tensor/weights/hf_keys.h - members of the JSON files in a Hugging Face folder. A
 * missing member and null are the same; errors name the file and the key. */
#ifndef SR1__WEIGHTS_HF_KEYS_H
#define SR1__WEIGHTS_HF_KEYS_H

#include "base/error.h"
#include "base/json.h"

#include <stddef.h>
#include <stdint.h>

/* Bytes of a configuration file. */
#define SR1__HF_FILE_MAX ((size_t)4 << 20)

/* Each leaves *out as it is when the key is absent; SR1_E_PARSE for another type. */
sr1_status sr1__hf_flag(const json_t *root, const char *key, const char *name,
                        int32_t *out);
sr1_status sr1__hf_real(const json_t *root, const char *key, const char *name,
                        double *out);
/* Borrowed from root. */
sr1_status sr1__hf_text(const json_t *root, const char *key, const char *name,
                        const char **out);

/* 0 < v <= max, else SR1_E_INVALID. */
sr1_status sr1__hf_real_check(double v, double max, const char *key, const char *name);

/* Unsupported features: 0, false, null, "" and empty lists mean off; any other value is
 * refused by name. */
struct sr1__hf_refused {
    const char *key;
    const char *what;
};
/* remedy ends the message. */
sr1_status sr1__hf_refuse(const char *name, const char *key, const char *what,
                          const char *remedy);
sr1_status sr1__hf_refuse_all(const json_t *root, const struct sr1__hf_refused *rows,
                              size_t n, const char *remedy, const char *name);

/* One size of a configuration: the int64_t it goes to and what it may be. */
struct sr1__hf_size {
    const char *key;
    size_t offset;
    int64_t def; /* SR1__HF_NEEDED: must be there */
    int64_t min;
    int64_t max;
};
#define SR1__HF_NEEDED INT64_MIN

int64_t *sr1__hf_size_at(void *config, const struct sr1__hf_size *row);
/* Defaults are not checked here. */
sr1_status sr1__hf_sizes_read(const json_t *root, const struct sr1__hf_size *rows,
                              size_t n, const char *name, void *config);
sr1_status sr1__hf_sizes_check(const void *config, const struct sr1__hf_size *rows,
                               size_t n, const char *name);

#endif
