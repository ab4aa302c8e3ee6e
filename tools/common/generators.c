/* common/generators.c - see generators.h. */
#include "common/generators.h"

#include "common/args.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

sr1_status style_open(sr1_critique_style **out, const sr1_config *c)
{
    const char *critique = NULL, *solve = NULL;
    sr1_status st = sr1_config_get_str(c, "critique_template", &critique);

    if (st == SR1_OK)
        st = sr1_config_get_str(c, "solve_template", &solve);
    return st == SR1_OK ? sr1_critique_style_open(out, critique, solve) : st;
}

sr1_status count_tests(sr1_config *c)
{
    int32_t set = 0;
    sr1_status st = sr1_config_is_set(c, "execution_score", &set);

    return st == SR1_OK && !set ? sr1_config_set(c, "execution_score", "pass_rate") : st;
}

/* Who generates, and how programs are judged. */
static const char *const keys[] = {
    "model_name_or_path",
    "tokenizer",
    "chat_template",
    "chat_template_name",
    "enable_thinking",
    "use_openai",
    "openai_base_url",
    "openai_model",
    "openai_endpoint",
    "openai_dialect",
    "vllm_server_host",
    "vllm_server_port",
    "proxy_model",
    "proxy_url",
    "proxy_max_tokens",
    "max_tokens",
    "temperature",
    "top_p",
    "top_k",
    "execution_score",
    "execution_time_limit",
    "code_judge",
    "sandbox",
    "sandbox_memory",
    "sandbox_python",
};

/* These too, but that a default adds nothing: files begun before they counted go on. */
static const char *const later_keys[] = {"dtype", "quantization", "max_parallel_calls",
                                         "kv_cache_dtype"};

/* Files whose text counts, wherever they lie. */
static const char *const templates[] = {"critique_template", "solve_template"};

#define N_KEYS (sizeof(keys) / sizeof(keys[0]))
#define N_LATER_KEYS (sizeof(later_keys) / sizeof(later_keys[0]))
#define N_TEMPLATES (sizeof(templates) / sizeof(templates[0]))
#define TEMPLATE_MAX (1 << 20) /* bytes; more than the library takes */

/* FNV-1a. */
static uint64_t hash_stream(FILE *f)
{
    uint64_t h = 14695981039346656037u;
    int c;

    for (size_t n = 0; n <= TEMPLATE_MAX && (c = fgetc(f)) != EOF; n++)
        h = (h ^ (uint64_t)c) * 1099511628211u;
    return h;
}

static sr1_status hash_template(const char *path, char out[24])
{
    char text[512];
    FILE *f = fopen(path, "rb");
    int bad;

    if (f != NULL) {
        snprintf(out, 24, "%016" PRIx64, hash_stream(f));
        bad = ferror(f);
        fclose(f);
        if (!bad)
            return SR1_OK;
    }
    snprintf(text, sizeof(text), "cannot read %.400s: %s", path, strerror(errno));
    return sr1_set_error(SR1_E_IO, text);
}

static sr1_status add_template(json_t *o, const sr1_config *c, const char *key)
{
    const char *path = NULL;
    char hash[24] = "";
    sr1_status st = sr1_config_get_str(c, key, &path);

    if (st == SR1_OK && *path != '\0')
        st = hash_template(path, hash);
    if (st == SR1_OK && json_object_set_new(o, key, json_string(hash)) != 0)
        st = sr1_set_error(SR1_E_NOMEM, "out of memory");
    return st;
}

/* All keys with their values. */
static sr1_status read_values(json_t **out, const sr1_config *c)
{
    char *text = NULL;
    sr1_status st = sr1_config_to_json(c, &text);

    if (st != SR1_OK)
        return st;
    *out = json_loads(text, 0, NULL);
    sr1_free(text);
    return *out != NULL ? SR1_OK : sr1_set_error(SR1_E_NOMEM, "out of memory");
}

static sr1_status read_defaults(json_t **out)
{
    sr1_config *c = NULL;
    sr1_status st = sr1_config_new(&c);

    if (st == SR1_OK)
        st = read_values(out, c);
    sr1_config_free(c);
    return st;
}

static sr1_status add_keys(json_t *o, const sr1_config *c)
{
    json_t *all = NULL, *defaults = NULL;
    sr1_status st = read_values(&all, c);
    int bad = 0;

    if (st == SR1_OK)
        st = read_defaults(&defaults);
    for (size_t i = 0; st == SR1_OK && !bad && i < N_KEYS; i++)
        bad = json_object_set(o, keys[i], json_object_get(all, keys[i])) != 0;
    for (size_t i = 0; st == SR1_OK && !bad && i < N_LATER_KEYS; i++) {
        json_t *value = json_object_get(all, later_keys[i]);

        if (!json_equal(value, json_object_get(defaults, later_keys[i])))
            bad = json_object_set(o, later_keys[i], value) != 0;
    }
    json_decref(all);
    json_decref(defaults);
    return bad ? sr1_set_error(SR1_E_NOMEM, "out of memory") : st;
}

static sr1_status add_texts(json_t *list, const char *const *more, size_t n)
{
    int bad = 0;

    for (size_t i = 0; i < n; i++)
        bad |= json_array_append_new(list, more[i] != NULL ? json_string(more[i])
                                                           : json_null()) != 0;
    return bad ? sr1_set_error(SR1_E_NOMEM, "out of memory") : SR1_OK;
}

sr1_status made_by(char **out, const sr1_config *c, const char *const *more, size_t n)
{
    json_t *list = json_array(), *chosen = json_object();
    sr1_status st = add_texts(list, more, n);

    if (st == SR1_OK)
        st = add_keys(chosen, c);
    for (size_t i = 0; st == SR1_OK && i < N_TEMPLATES; i++)
        st = add_template(chosen, c, templates[i]);
    *out = st == SR1_OK && json_array_append(list, chosen) == 0
               ? json_dumps(list, JSON_SORT_KEYS | JSON_COMPACT)
               : NULL;
    if (st == SR1_OK && *out == NULL)
        st = sr1_set_error(SR1_E_NOMEM, "out of memory");
    json_decref(chosen);
    json_decref(list);
    return st;
}

int check_missing_answers(const char *tool, int64_t missing, const char *tree)
{
    if (missing == 0)
        return TOOL_OK;
    fprintf(stderr,
            "%s: answers missing: %" PRId64 ", which count as neither right nor wrong: a "
            "generator or the sandbox failed, then run it again%s; or a conversation was "
            "longer than its model reads, which stays so (the lines above say which)\n",
            tool, missing,
            tree ? ", the tree goes on where it is"
                 : " with --tree FILE, which keeps what there is");
    return TOOL_FAILED;
}
