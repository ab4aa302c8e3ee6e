/* A model behind a server in OpenAI's API writes: what it is asked, and what becomes of a
 * conversation it fails for. */
#include "critique_test.h"
#include "support/http_server.h"

#include <stdlib.h>

/* Echoes a word of the request; the conversation of "busy" finds it so each time. */
static void serve(void *user, int nth, const char *request, struct reply *r)
{
    static const char said[] = "{\"choices\": [{\"index\": 0, \"message\": {\"role\": "
                               "\"assistant\", \"content\": \"%s\"}, \"finish_reason\": "
                               "\"stop\"}]}";
    int *asked = user;

    (void)nth;
    if (strncmp(request, "GET /v1/models ", 15) == 0) {
        r->body = "{\"object\": \"list\", \"data\": [{\"id\": \"m\"}]}";
        return;
    }
    assert_non_null(strstr(request, "POST /v1/chat/completions "));
    assert_non_null(
        strstr(request, "\"max_tokens\":9") ? request : strstr(request, "_tokens\": 9"));
    ++*asked;
    if (strstr(request, "busy"))
        r->code = 503;
    snprintf(r->made, sizeof r->made, said, strstr(request, "second") ? "two" : "one");
    r->body = r->made;
}

static sr1_conversation talk(const char *const *text, const size_t *size)
{
    static const char *const roles[] = {"user"};

    return (sr1_conversation){.struct_size = sizeof(sr1_conversation),
                              .roles = roles,
                              .contents = text,
                              .sizes = size,
                              .n = 1};
}

static void a_server_writes(void **state)
{
    static const char *const texts[] = {"the first", "busy", "the second"};
    size_t sizes[3];
    sr1_conversation c[3];
    sr1_generator_options o = {.struct_size = sizeof o, .max_tokens = 9};
    sr1_config *config = NULL;
    sr1_generator *w = NULL;
    struct server s;
    char url[96], *said[3] = {NULL};
    int asked = 0;

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        sizes[i] = strlen(texts[i]);
        c[i] = talk(&texts[i], &sizes[i]);
    }
    server_start(&s, serve, &asked);
    snprintf(url, sizeof url, "%s/v1", s.url);
    OK(sr1_config_new(&config));
    OK(sr1_config_set(config, "openai_base_url", url));
    OK(sr1_config_set(config, "openai_retries", "0"));
    OK(sr1_generator_open_remote(&w, config, &o));
    OK(sr1_generator_generate(w, c, 3, said, NULL));
    assert_string_equal(said[0], "one");
    assert_null(said[1]); /* nothing is known */
    assert_string_equal(said[2], "two");
    assert_int_equal(asked, 3);
    sr1_free(said[0]);
    sr1_free(said[2]);
    sr1_generator_free(w);
    server_stop(&s);
    w = NULL;
    assert_int_not_equal(sr1_generator_open_remote(&w, config, &o), SR1_OK);
    assert_null(w);
    sr1_config_free(config);
}

/* A server of vLLM's dialect, whose chat templates can do without thoughts. */
static void serve_thoughts(void *user, int nth, const char *request, struct reply *r)
{
    int *without = user;

    (void)nth;
    r->body = "{\"data\": [{\"id\": \"m\", \"max_model_len\": 512}]}";
    if (strncmp(request, "GET ", 4) == 0)
        return;
    *without += strstr(request, "\"enable_thinking\":false") != NULL;
    r->body = "{\"choices\": [{\"index\": 0, \"message\": {\"role\": \"assistant\", "
              "\"content\": \"x\"}, \"finish_reason\": \"stop\"}]}";
}

static void the_key_enable_thinking_holds_for_servers(void **state)
{
    static const char *const keys[] = {"true", "false"};
    static const char *const text[] = {"say"};
    static const size_t size[] = {3};
    sr1_generator_options wrong = {.struct_size = sizeof wrong, .max_tokens = -1};
    int without = 0;
    struct server s;
    char url[96];

    (void)state;
    server_start(&s, serve_thoughts, &without);
    snprintf(url, sizeof url, "%s/v1", s.url);
    for (int i = 0; i < 2; i++) {
        sr1_conversation c = talk(text, size);
        sr1_config *config = NULL;
        sr1_generator *w = NULL;
        char *said = NULL;

        OK(sr1_config_new(&config));
        OK(sr1_config_set(config, "openai_base_url", url));
        OK(sr1_config_set(config, "enable_thinking", keys[i]));
        REFUSED(sr1_generator_open_remote(&w, config, &wrong), SR1_E_INVALID,
                "max_tokens");
        OK(sr1_generator_open_remote(&w, config, NULL));
        OK(sr1_generator_generate(w, &c, 1, &said, NULL));
        assert_string_equal(said, "x");
        assert_int_equal(without, i);
        sr1_free(said);
        sr1_generator_free(w);
        sr1_config_free(config);
    }
    server_stop(&s);
}

/* The seeds it was asked with, in order. */
static void serve_seeds(void *user, int nth, const char *request, struct reply *r)
{
    long long *seeds = user;
    const char *at = strstr(request, "\"seed\":");

    r->body = "{\"data\": [{\"id\": \"m\"}]}";
    if (strncmp(request, "GET ", 4) == 0)
        return;
    assert_non_null(at);
    (void)nth;
    while (*seeds)
        seeds++;
    *seeds = strtoll(at + 7, NULL, 10);
    r->body = "{\"choices\": [{\"index\": 0, \"message\": {\"role\": \"assistant\", "
              "\"content\": \"x\"}, \"finish_reason\": \"stop\"}]}";
}

/* Sample 1 under seed 0 is not sample 0 under seed 1. */
static void seeds_and_samples_are_not_mixed_up(void **state)
{
    static const char *const text[] = {"say"};
    static const size_t size[] = {3};
    static const char *const ids[] = {"problem", NULL};
    long long seeds[16] = {0};
    struct server s;
    char url[96];
    size_t n = 0;

    (void)state;
    server_start(&s, serve_seeds, seeds);
    snprintf(url, sizeof url, "%s/v1", s.url);
    for (uint64_t seed = 0; seed < 2; seed++) {
        sr1_generator_options o = {
            .struct_size = sizeof o, .temperature = 1.0, .seed = seed};
        sr1_config *config = NULL;
        sr1_generator *w = NULL;

        OK(sr1_config_new(&config));
        OK(sr1_config_set(config, "openai_base_url", url));
        OK(sr1_generator_open_remote(&w, config, &o));
        for (int32_t i = 0; i < 4; i++) {
            sr1_conversation c = talk(text, size);
            char *said = NULL;

            c.id = ids[i / 2];
            c.sample = i % 2;
            OK(sr1_generator_generate(w, &c, 1, &said, NULL));
            sr1_free(said);
        }
        sr1_generator_free(w);
        sr1_config_free(config);
    }
    server_stop(&s);
    while (seeds[n])
        n++;
    assert_int_equal(n, 8);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < i; k++)
            assert_true(seeds[i] != seeds[k]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_server_writes),
        cmocka_unit_test(the_key_enable_thinking_holds_for_servers),
        cmocka_unit_test(seeds_and_samples_are_not_mixed_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
