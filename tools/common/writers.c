/* writers.c - see writers.h. */
#include "common/writers.h"

#include <jansson.h>

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

/* Who writes, and how programs are judged. */
static const char *const keys[] = {
    "model_name_or_path", "tokenizer",       "use_openai",           "openai_base_url",
    "openai_model",       "proxy_model",     "proxy_url",            "proxy_max_tokens",
    "vllm_server_host",   "max_tokens",      "vllm_server_port",     "enable_thinking",
    "temperature",        "top_p",           "critique_template",    "top_k",
    "solve_template",     "execution_score", "execution_time_limit",
};

static json_t *chosen_keys(const json_t *all)
{
    json_t *o = json_object();

    for (size_t i = 0; o != NULL && i < sizeof(keys) / sizeof(keys[0]); i++) {
        json_t *v = json_object_get(all, keys[i]);

        if (json_object_set(o, keys[i], v != NULL ? v : json_null()) != 0) {
            json_decref(o);
            return NULL;
        }
    }
    return o;
}

char *made_by(const sr1_config *c, const char *const *more, size_t n)
{
    char *text = NULL;
    json_t *all, *chosen, *list = json_array();
    int bad = sr1_config_to_json(c, &text) != SR1_OK;

    all = bad ? NULL : json_loads(text, 0, NULL);
    sr1_free(text);
    chosen = chosen_keys(all);
    for (size_t i = 0; i < n; i++)
        bad |= json_array_append_new(list, more[i] != NULL ? json_string(more[i])
                                                           : json_null()) != 0;
    bad |= all == NULL || chosen == NULL || json_array_append(list, chosen) != 0;
    text = bad ? NULL : json_dumps(list, JSON_SORT_KEYS | JSON_COMPACT);
    json_decref(all);
    json_decref(chosen);
    json_decref(list);
    return text;
}
