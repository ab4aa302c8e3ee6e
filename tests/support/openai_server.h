/* support/openai_server.h - a server of OpenAI's API over a small model of ours, which
 * misbehaves as told (support/http_server.h).
 *
 *     static struct openai_server s;
 *     openai_start(&s, scratch_path("searcher"));   ... s.http.url, s.http.port ...
 *     s.no_ids = 1;
 *     openai_stop(&s);
 *
 * It answers as vLLM does; with `plain` set as OpenAI's own server. With `engine` set it
 * has the routes by which vLLM (VLLM_SERVER_DEV_MODE=1) or SGLang takes weights. Requests
 * are answered one at a time, each on its own: nothing is kept between them. */
#ifndef SR1_TESTS_OPENAI_SERVER_H
#define SR1_TESTS_OPENAI_SERVER_H

#include "support/http_server.h"
#include "support/tiny.h"

#include "base/json.h"
#include "base/utf8.h"
#include "tensor/model/model_decoder.h"
#include "text/tokenizer/tokenizer.h"

#define OPENAI_KEPT 4096

enum { NO_ENGINE, VLLM, SGLANG };

/* What a test may set while the server answers is atomic. */
struct openai_server {
    struct server http;
    sr1_model *model;
    sr1_tokenizer *tokenizer;
    struct sr1__decoder *decoder;
    const char *_Atomic model_name; /* NULL: "tiny", and requests may ask for any */
    atomic_int models_wait;         /* for this to become 0 */
    atomic_int models_waiting;      /* questions for the models that do */
    atomic_int plain;  /* models without max_model_len, no ids, stop texts cut off */
    atomic_int no_ids; /* neither token_ids nor token_id:... */
    atomic_int no_log_probs; /* and no texts of tokens */
    atomic_int cut_stop;     /* stop texts are cut off, ids and all */
    atomic_int ignore_stop;  /* it goes on until its tokens run out */
    _Atomic int64_t most;    /* tokens of one answer at most; 0: as asked */
    _Atomic double delay_s;
    atomic_int fail_code;       /* answers of this code ... */
    atomic_int fail_first;      /* ... to the first so many, */
    atomic_int fail_every;      /* ... or to each so manieth */
    atomic_int garbage;         /* what is no JSON */
    atomic_int down;            /* connections are closed without a word */
    atomic_int wrong_ids;       /* ids that do not spell the text */
    atomic_int cut_end;         /* the id that ends a message is not given */
    atomic_int adds_prompt;     /* it reads one id more than it was sent */
    atomic_int default_top_k;   /* of its generation_config.json; 0: none */
    atomic_int completions;     /* asked for so far */
    atomic_int engine;          /* whose control routes it has */
    atomic_int die_after_pause; /* it is down then */
    atomic_int refuse_flush;
    atomic_int update_code; /* of the answer to new weights, which it does not take */
    const char *_Atomic old_version; /* it goes on saying; NULL: the one it was told */
    _Atomic double update_delay_s;
    const char *_Atomic other_weights; /* that it loads in place of those it is told */
    atomic_int to_hold, held;  /* answers to completions: the next ones, up to so many */
    atomic_int let_go;         /* of those that were held */
    atomic_int answers_paused; /* it goes on when paused, as pause_mode keep lets it */
    atomic_int paused;
    char version[32];
    char adapter[64]; /* the name that completions must ask for; "": any */
    char steps[512];  /* of the control routes asked for, "pause wait;..." */
    /* Other routes of vLLM's, where a test gives them: 1 when it answered (NULL: none).
     */
    int (*more_routes)(struct openai_server *s, const char *request, const json_t *q,
                       struct reply *r);
    void *more;
    atomic_int loads;        /* POST /update_weights_from_disk */
    char loaded[512];        /* its last body */
    char *kept[OPENAI_KEPT]; /* bodies; they must outlive the reply */
    size_t n_kept;
};

/* ---- generating ---- */

struct openai_said {
    int32_t ids[512];
    float log_probs[512];
    size_t n;
    struct sr1__buf text;
    const char *finish;
    const char *stop; /* NULL: none */
};

/* The first stop text in what was said; *end where it ends. */
static inline const char *openai_stopped(const struct openai_said *a, const json_t *stops,
                                         size_t *end)
{
    for (size_t i = 0; i < json_array_size(stops); i++) {
        const char *stop = json_string_value(json_array_get(stops, i));
        const char *at = strstr(sr1__buf_cstr(&a->text), stop);

        if (at) {
            *end = (size_t)(at - a->text.data) + strlen(stop);
            return stop;
        }
    }
    return NULL;
}

static inline int openai_is_end(const sr1_tokenizer *t, int32_t id)
{
    size_t n;
    const int32_t *ids = sr1_tokenizer_stop_ids(t, &n);

    for (size_t i = 0; i < n; i++)
        if (ids[i] == id)
            return 1;
    return 0;
}

static inline double openai_number(const json_t *o, const char *key, double otherwise)
{
    const json_t *v = json_object_get(o, key);

    return json_is_number(v) ? json_number_value(v) : otherwise;
}

static inline void openai_generate(struct openai_server *s, const int32_t *prompt,
                                   size_t n, const json_t *q, struct openai_said *a)
{
    struct sr1__sampling how = {.temperature = openai_number(q, "temperature", 1.0),
                                .top_p = openai_number(q, "top_p", 1.0),
                                .top_k =
                                    (int32_t)openai_number(q, "top_k", s->default_top_k)};
    int64_t most = (int64_t)openai_number(q, "max_tokens",
                                          openai_number(q, "max_completion_tokens", 16));
    struct sr1__decode_input feed = {0, prompt, n};
    struct sr1__rng rng, *rngs[] = {&rng};
    const int32_t row = 0;
    size_t end;

    how.top_k = how.top_k < 0 ? 0 : how.top_k;
    if (s->most && most > s->most)
        most = s->most;
    sr1__rng_seed(&rng, (uint64_t)openai_number(q, "seed", 1), 0);
    sr1__decoder_clear(s->decoder, 0);
    a->finish = "length";
    while ((int64_t)a->n < most && a->n < 512) {
        int32_t id = 0;

        OK(sr1__decoder_decode(s->decoder, &feed, 1));
        OK(sr1__decoder_sample(s->decoder, &row, 1, &how, rngs, &id, &a->log_probs[a->n],
                               NULL));
        a->ids[a->n++] = id;
        feed = (struct sr1__decode_input){0, &a->ids[a->n - 1], 1};
        sr1__buf_clear(&a->text);
        OK(sr1__tokenizer_decode(s->tokenizer, a->ids, a->n, 1, &a->text));
        if (openai_is_end(s->tokenizer, id))
            a->finish = "stop";
        if (!s->ignore_stop &&
            (a->stop = openai_stopped(a, json_object_get(q, "stop"), &end)) != NULL) {
            int keep = json_is_true(json_object_get(q, "include_stop_str_in_output"));

            a->finish = "stop";
            a->text.len = keep && !s->cut_stop ? end : end - strlen(a->stop);
            a->text.data[a->text.len] = '\0';
        }
        if (strcmp(a->finish, "stop") == 0)
            break;
    }
}

/* Cut the stop text off the ids as well. */
static inline void openai_cut(struct openai_server *s, struct openai_said *a)
{
    size_t n = a->text.len;

    for (; a->n > 0; a->n--) {
        sr1__buf_clear(&a->text);
        OK(sr1__tokenizer_decode(s->tokenizer, a->ids, a->n, 1, &a->text));
        if (a->text.len <= n)
            return;
    }
    sr1__buf_clear(&a->text);
}

/* ---- answering ---- */

static inline json_t *openai_ids(const int32_t *ids, size_t n)
{
    json_t *list = json_array();

    for (size_t i = 0; i < n; i++)
        json_array_append_new(list, json_integer(ids[i]));
    return list;
}

/* A token as its text, with its bytes, or as token_id:17. */
static inline void openai_token(struct openai_server *s, int32_t id, int as_id,
                                char text[64], json_t *bytes)
{
    size_t n = 0;
    const char *b = sr1__tokenizer_token_bytes(s->tokenizer, id, &n);

    if (as_id)
        snprintf(text, 64, "token_id:%d", (int)id);
    else
        snprintf(text, 64, "%.*s", (int)n, sr1__utf8_valid(b, n) ? b : "?");
    for (size_t i = 0; i < n; i++)
        json_array_append_new(bytes, json_integer((unsigned char)b[i]));
}

static inline json_t *openai_log_probs(struct openai_server *s,
                                       const struct openai_said *a, int as_id, int chat)
{
    json_t *tokens = json_array(), *values = json_array(), *content = json_array();

    for (size_t i = 0; i < a->n; i++) {
        json_t *bytes = json_array();
        char text[64];

        openai_token(s, a->ids[i], as_id, text, bytes);
        json_array_append_new(tokens, json_string(text));
        json_array_append_new(values, json_real((double)a->log_probs[i]));
        json_array_append_new(content,
                              json_pack("{s:s, s:o, s:f}", "token", text, "bytes", bytes,
                                        "logprob", (double)a->log_probs[i]));
    }
    if (chat) {
        json_decref(tokens);
        json_decref(values);
        return json_pack("{s:o}", "content", content);
    }
    json_decref(content);
    return json_pack("{s:o, s:o}", "tokens", tokens, "token_logprobs", values);
}

static inline json_t *openai_choice(struct openai_server *s, const json_t *q,
                                    const struct openai_said *a, int chat)
{
    int as_id =
        json_is_true(json_object_get(q, "return_tokens_as_token_ids")) && !s->no_ids;
    json_t *c = json_pack("{s:i, s:s}", "index", 0, "finish_reason", a->finish);

    if (chat)
        json_object_set_new(c, "message",
                            json_pack("{s:s, s:s}", "role", "assistant", "content",
                                      sr1__buf_cstr(&a->text)));
    else
        json_object_set_new(c, "text", json_string(sr1__buf_cstr(&a->text)));
    if (!s->no_log_probs && json_object_get(q, "logprobs"))
        json_object_set_new(c, "logprobs", openai_log_probs(s, a, as_id, chat));
    if (json_is_true(json_object_get(q, "return_token_ids")) && !s->no_ids)
        json_object_set_new(c, "token_ids", openai_ids(a->ids, a->n));
    if (!s->plain && a->stop)
        json_object_set_new(c, "stop_reason", json_string(a->stop));
    return c;
}

static inline void openai_keep(struct openai_server *s, struct reply *r, json_t *body)
{
    if (s->n_kept == OPENAI_KEPT)
        abort();
    s->kept[s->n_kept] = json_dumps(body, JSON_REAL_PRECISION(17));
    r->body = s->kept[s->n_kept++];
    json_decref(body);
}

static inline void openai_complete(struct openai_server *s, const json_t *q,
                                   const int32_t *prompt, size_t n, int chat,
                                   struct reply *r)
{
    struct openai_said a = {0};
    json_t *choice, *body;

    sr1__buf_init(&a.text, 0);
    openai_generate(s, prompt, n, q, &a);
    if (s->cut_stop && a.stop)
        openai_cut(s, &a);
    if (s->cut_end && a.n && openai_is_end(s->tokenizer, a.ids[a.n - 1]))
        a.n--;
    for (size_t i = 0; s->wrong_ids && i < a.n; i++)
        a.ids[i] = (a.ids[i] + 1) % 300;
    choice = openai_choice(s, q, &a, chat);
    if (json_object_get(choice, "token_ids")) {
        json_t *read = openai_ids(prompt, n);

        if (s->adds_prompt)
            json_array_insert_new(read, 0, json_integer(1));
        json_object_set_new(choice, "prompt_token_ids", read);
    }
    body = json_pack("{s:[o], s:{s:i, s:i}}", "choices", choice, "usage", "prompt_tokens",
                     (int)n, "completion_tokens", (int)a.n);
    openai_keep(s, r, body);
    sr1__buf_free(&a.text);
}

static inline void openai_chat(struct openai_server *s, const json_t *q, struct reply *r)
{
    sr1_chat_options o = {.struct_size = sizeof o, .add_generation_prompt = 1};
    char *messages = json_dumps(json_object_get(q, "messages"), 0);
    int32_t *ids = NULL;
    size_t n = 0;

    OK(sr1_tokenizer_chat_json(s->tokenizer, messages, strlen(messages), &o, NULL, NULL,
                               &ids, &n));
    openai_complete(s, q, ids, n, 1, r);
    sr1_free(ids);
    sr1__free(messages);
}

static inline void openai_text(struct openai_server *s, const json_t *q, struct reply *r)
{
    const json_t *prompt = json_object_get(q, "prompt");
    int32_t ids[512];
    size_t n = json_array_size(prompt);

    for (size_t i = 0; i < n && i < 512; i++)
        ids[i] = (int32_t)json_integer_value(json_array_get(prompt, i));
    openai_complete(s, q, ids, n, 0, r);
}

static inline void openai_hold(struct openai_server *s, struct reply *r)
{
    if (s->held == s->to_hold)
        return;
    r->gate = &s->let_go;
    r->after = ++s->held;
}

/* 1 when the answer is to be a failure. */
static inline int openai_fails(struct openai_server *s, struct reply *r)
{
    int k = s->completions++;

    r->delay_s = s->delay_s;
    if (s->garbage)
        r->body = "{\"choices\": [{\"text\": \"<sea";
    else if (s->fail_code && (k < s->fail_first ||
                              (s->fail_every && k % s->fail_every == s->fail_every - 1)))
        r->code = s->fail_code;
    else
        return 0;
    return 1;
}

/* Serve the weights of this folder from now on. */
static inline void openai_load(struct openai_server *s, const char *folder)
{
    sr1_model_options o = {.struct_size = sizeof o, .device = "cpu", .dtype = "fp32"};

    sr1__decoder_free(s->decoder);
    sr1_model_free(s->model);
    s->model = NULL;
    s->decoder = NULL;
    OK(sr1_model_open(&s->model, folder, &o));
    OK(sr1__decoder_new(&s->decoder, s->model, 1, 512));
}

static inline void openai_update(struct openai_server *s, const char *body)
{
    json_t *q = json_loads(body, 0, NULL);

    s->loads++;
    snprintf(s->loaded, sizeof s->loaded, "%s", body);
    openai_load(s, json_string_value(json_object_get(q, "model_path")));
    json_decref(q);
}

/* ---- control ---- */

static inline void openai_note(struct openai_server *s, const char *step)
{
    size_t n = strlen(s->steps);

    snprintf(s->steps + n, sizeof s->steps - n, "%s;", step);
}

static inline int openai_asked(const char *request, const char *line)
{
    return strncmp(request, line, strlen(line)) == 0;
}

static inline void openai_pause(struct openai_server *s, const char *mode)
{
    char step[64];

    snprintf(step, sizeof step, "pause %s", mode);
    openai_note(s, step);
    s->paused = 1;
    s->down = s->die_after_pause;
}

static inline void openai_take(struct openai_server *s, const char *folder,
                               struct reply *r)
{
    openai_note(s, "update");
    r->delay_s = s->update_delay_s;
    if (s->update_code) {
        r->code = s->update_code;
        return;
    }
    s->loads++;
    snprintf(s->loaded, sizeof s->loaded, "%s", folder);
    openai_load(s, s->other_weights ? s->other_weights : folder);
}

static inline void openai_flush(struct openai_server *s, struct reply *r)
{
    openai_note(s, "flush");
    r->body = "{\"success\": true}";
    if (s->refuse_flush && s->engine == VLLM)
        r->body = "{\"success\": false}";
    else if (s->refuse_flush)
        r->code = 400;
}

static inline void openai_say_version(struct openai_server *s, struct reply *r)
{
    openai_note(s, "version");
    snprintf(r->made, sizeof r->made, "{\"weight_version\": \"%s\"}",
             s->old_version ? s->old_version : s->version);
    r->body = r->made;
}

static inline const char *openai_member(const json_t *q, const char *name)
{
    const char *text = json_string_value(json_object_get(q, name));

    return text ? text : "";
}

static inline void openai_adapt(struct openai_server *s, const json_t *q, int load)
{
    openai_note(s, load ? "load" : "unload");
    if (!load)
        return;
    snprintf(s->adapter, sizeof s->adapter, "%s%s", s->engine == SGLANG ? "tiny:" : "",
             openai_member(q, "lora_name"));
    s->loads++;
    snprintf(s->loaded, sizeof s->loaded, "%s", openai_member(q, "lora_path"));
    openai_load(s, s->loaded);
}

/* 1: it was one of vLLM's routes. */
static inline int openai_vllm(struct openai_server *s, const char *request,
                              const json_t *q, struct reply *r)
{
    const json_t *kwargs = json_object_get(q, "kwargs");
    char mode[16] = "";

    if (sscanf(request, "POST /pause?mode=%15[a-z] ", mode) == 1) {
        openai_pause(s, mode);
    } else if (openai_asked(request, "GET /health ")) {
        r->body = "";
    } else if (openai_asked(request, "GET /version ")) {
        r->body = "{\"version\": \"0.30.0\"}";
    } else if (openai_asked(request, "GET /is_paused ")) {
        r->body = s->paused ? "{\"is_paused\": true}" : "{\"is_paused\": false}";
    } else if (openai_asked(request, "POST /collective_rpc ")) {
        if (strcmp(openai_member(q, "method"), "reload_weights") != 0)
            abort();
        openai_take(s, openai_member(kwargs, "weights_path"), r);
    } else if (openai_asked(request,
                            "POST /reset_prefix_cache?reset_running_requests=true ")) {
        openai_flush(s, r);
    } else if (openai_asked(request, "POST /update_weight_version ")) {
        snprintf(s->version, sizeof s->version, "%s", openai_member(q, "new_version"));
    } else if (openai_asked(request, "GET /weight_info ")) {
        openai_say_version(s, r);
    } else if (openai_asked(request, "POST /resume ")) {
        openai_note(s, "resume");
        s->paused = 0;
    } else if (openai_asked(request, "POST /v1/load_lora_adapter ")) {
        openai_adapt(s, q, 1);
    } else if (openai_asked(request, "POST /v1/unload_lora_adapter ")) {
        openai_adapt(s, q, 0);
    } else {
        return s->more_routes && s->more_routes(s, request, q, r);
    }
    return 1;
}

static inline int openai_sglang(struct openai_server *s, const char *request,
                                const json_t *q, struct reply *r)
{
    if (openai_asked(request, "POST /pause_generation ")) {
        openai_pause(s, openai_member(q, "mode"));
    } else if (openai_asked(request, "GET /health ")) {
        r->body = "";
    } else if (openai_asked(request, "POST /update_weights_from_disk ")) {
        if (!json_is_true(json_object_get(q, "flush_cache")))
            abort();
        snprintf(s->version, sizeof s->version, "%s", openai_member(q, "weight_version"));
        openai_take(s, openai_member(q, "model_path"), r);
        r->body = "{\"success\": true, \"message\": \"\", \"num_paused_requests\": 0}";
    } else if (openai_asked(request, "POST /flush_cache ")) {
        openai_flush(s, r);
    } else if (openai_asked(request, "GET /model_info ")) {
        openai_say_version(s, r);
        s->steps[strlen(s->steps) - strlen("version;")] = '\0'; /* asked to detect, too */
        snprintf(r->made + strlen(r->made) - 1, 64, ", \"model_path\": \"tiny\"}");
    } else if (openai_asked(request, "POST /continue_generation ")) {
        openai_note(s, "resume");
        s->paused = 0;
    } else if (openai_asked(request, "POST /load_lora_adapter ")) {
        openai_adapt(s, q, 1);
    } else if (openai_asked(request, "POST /unload_lora_adapter ")) {
        openai_adapt(s, q, 0);
    } else {
        return 0;
    }
    return 1;
}

static inline int openai_control(struct openai_server *s, const char *request,
                                 struct reply *r)
{
    json_t *q = json_loads(request_body(request), 0, NULL);
    int known = s->engine == VLLM     ? openai_vllm(s, request, q, r)
                : s->engine == SGLANG ? openai_sglang(s, request, q, r)
                                      : 0;

    json_decref(q);
    if (!known && !openai_asked(request, "POST /v1/")) {
        r->code = 404;
        known = 1;
    }
    return known;
}

static inline void openai_answer(void *user, int nth, const char *request,
                                 struct reply *r)
{
    struct openai_server *s = user;
    const char *body = request_body(request);
    const char *asked = s->adapter[0] ? s->adapter : s->model_name;
    json_t *q;

    (void)nth;
    if (s->down) {
        r->drop = 1;
        return;
    }
    if (strncmp(request, "GET /v1/models ", 15) == 0) {
        const char *name = s->model_name ? s->model_name : "tiny";

        for (s->models_waiting++; s->models_wait; usleep(1000))
            ;
        s->models_waiting--;
        snprintf(r->made, sizeof r->made, "{\"data\": [{\"id\": \"%s\"%s}]}", name,
                 s->plain ? "" : ", \"max_model_len\": 512");
        r->body = r->made;
        return;
    }
    if (s->engine == NO_ENGINE &&
        strncmp(request, "POST /update_weights_from_disk ", 31) == 0) {
        openai_update(s, body);
        return;
    }
    if (s->engine != NO_ENGINE && openai_control(s, request, r))
        return;
    if (openai_fails(s, r))
        return;
    q = json_loads(body, 0, NULL);
    if ((s->paused && !s->answers_paused) ||
        (asked && strcmp(openai_member(q, "model"), asked))) {
        r->code = s->paused && !s->answers_paused ? 503 : 404;
        json_decref(q);
        return;
    }
    if (strstr(request, " /v1/chat/completions "))
        openai_chat(s, q, r);
    else
        openai_text(s, q, r);
    openai_hold(s, r);
    json_decref(q);
}

/* ---- the server ---- */

static inline void openai_start(struct openai_server *s, const char *folder)
{
    memset(s, 0, sizeof *s);
    openai_load(s, folder);
    OK(sr1_tokenizer_open(&s->tokenizer, folder));
    server_start(&s->http, openai_answer, s);
}

/* Other weights, for a test; none of its requests is at work meanwhile. */
static inline void openai_reload(struct openai_server *s, const char *folder)
{
    pthread_mutex_lock(&s->http.lock);
    openai_load(s, folder);
    pthread_mutex_unlock(&s->http.lock);
}

static inline void openai_stop(struct openai_server *s)
{
    server_stop(&s->http);
    for (size_t i = 0; i < s->n_kept; i++)
        sr1__free(s->kept[i]); /* jansson's memory is ours */
    sr1__decoder_free(s->decoder);
    sr1_tokenizer_free(s->tokenizer);
    sr1_model_free(s->model);
}

/* Point a configuration at n of them. */
static inline void openai_use_all(const struct openai_server *s, size_t n, sr1_config *c)
{
    struct sr1__buf urls;

    sr1__buf_init(&urls, 0);
    for (size_t i = 0; i < n; i++)
        sr1__buf_fmt(&urls, "%s%s/v1", i ? ", " : "", s[i].http.url);
    OK(sr1_config_set(c, "use_openai", "true"));
    OK(sr1_config_set(c, "openai_base_url", sr1__buf_cstr(&urls)));
    OK(sr1_config_set(c, "openai_retries", "1"));
    sr1__buf_free(&urls);
}

static inline void openai_use(const struct openai_server *s, sr1_config *c)
{
    openai_use_all(s, 1, c);
}

#endif
