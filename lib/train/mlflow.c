/* train/mlflow.c - see mlflow.h. Requests: https://mlflow.org/docs/latest/rest-api.html
 * (experiments/get-by-name, experiments/create, runs/create, runs/update,
 * runs/log-batch). The address, the experiment and the credentials have the names of
 * MLflow's own client in the environment. */
#include "train/mlflow.h"

#include "base/clock.h"
#include "base/executor.h"
#include "base/file.h"
#include "base/io.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/quote.h"
#include "base/rng.h"
#include "base/utf8.h"
#include "config/config.h"
#include "retrieval/net/service.h"

#include <ctype.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define API "/api/2.0/mlflow/"
#define STATE "mlflow.json"
#define CHUNK ((size_t)256 << 10) /* bytes of rows at a time */
#define MOST_METRICS 1000         /* of one request; the API's limits */
#define MOST_PARAMS 100
#define PARAM_BYTES 500 /* of a value; what older servers take */
#define NAME_BYTES 250  /* of a metric */
#define TIMEOUT_S 10.0
#define LAST_S 15.0 /* what the end of a run may take */

struct sr1__mlflow {
    struct sr1__http *http;
    struct sr1__executor *thread;
    struct sr1__task task;
    atomic_int queued;         /* 1: the task is posted and has not begun */
    atomic_uint_fast64_t size; /* bytes of metrics.jsonl */
    char *uri, *experiment, *name, *folder;
    char *authorization; /* a header; NULL: none */
    char *secret;        /* of it, for messages */
    /* The thread's, and after it the owner's. */
    char experiment_id[64], run_id[64];
    uint64_t sent;
    double timeout_s; /* of a request */
    int begun, failing;
    int unsaid;      /* the run was created, and has no parameters yet */
    int passed_over; /* a row was, which the server refuses */
    atomic_int over; /* nothing more is sent */
};

/* ---- one request ---- */

static char *name_url(const struct sr1__mlflow *m, const char *call)
{
    struct sr1__buf b;
    char *url;

    sr1__buf_init(&b, 0);
    sr1__buf_fmt(&b, "%s" API "%s", m->uri, call);
    url = sr1__buf_take(&b);
    sr1__buf_free(&b);
    return url;
}

static sr1_status read_call_answer(const struct sr1__http_response *r, const char *call,
                                   json_t **out)
{
    if (!out)
        return SR1_OK;
    return sr1__json_parse(out, sr1__buf_cstr(&r->body), r->body.len, call);
}

/* body NULL: GET. *code (may be NULL) becomes HTTP's, also of a refusal. */
static sr1_status call_server(const struct sr1__mlflow *m, const char *call,
                              const json_t *body, int32_t *code, json_t **out)
{
    const char *headers[] = {"Content-Type: application/json", m->authorization};
    struct sr1__http_request q = {.headers = headers,
                                  .n_headers = m->authorization ? 2 : 1,
                                  .timeout_s = m->timeout_s};
    struct sr1__http_response r = {0};
    struct sr1__buf text;
    char *url = name_url(m, call);
    sr1_status st = url ? SR1_OK : sr1__fail_nomem("address");

    if (st == SR1_OK && atomic_load(&m->over))
        st = sr1__fail(SR1_E_CANCELLED, "the end of a run waits no longer");
    sr1__buf_init(&text, 0);
    if (st == SR1_OK && body)
        st = sr1__json_dump(body, 0, &text);
    q.url = url;
    q.body = body ? sr1__buf_cstr(&text) : NULL;
    q.body_len = text.len;
    if (st == SR1_OK)
        st = sr1__http_run(m->http, &q, 1, &r);
    if (st == SR1_OK) {
        if (code)
            *code = r.code;
        st = r.status == SR1_OK ? read_call_answer(&r, call, out)
                                : sr1__service_fail(m->secret, &r);
        sr1__http_response_free(&r);
    }
    sr1__buf_free(&text);
    sr1__free(url);
    return st;
}

/* POST body, which is taken over. */
static sr1_status post_call(const struct sr1__mlflow *m, const char *call, json_t *body,
                            int32_t *code, json_t **out)
{
    sr1_status st = body ? call_server(m, call, body, code, out)
                         : sr1__fail_nomem("request to MLflow");

    json_decref(body);
    return st;
}

/* The text at a path of an answer. */
static sr1_status take_id(const json_t *answer, const char *path, char *id, size_t size)
{
    const char *text = json_string_value(sr1__json_at(answer, path));

    if (!text || !*text || strlen(text) >= size)
        return sr1__fail(SR1_E_NETWORK, "the answer has no %s", path);
    snprintf(id, size, "%s", text);
    return SR1_OK;
}

/* ---- the state ---- */

static sr1_status save_sent(const struct sr1__mlflow *m)
{
    char *path = sr1__path_join(m->folder, STATE);
    json_t *o =
        json_pack("{s:s, s:s, s:s, s:I}", "tracking_uri", m->uri, "experiment_id",
                  m->experiment_id, "run_id", m->run_id, "sent", (json_int_t)m->sent);
    sr1_status st = path && o ? sr1__json_save(o, 2, path) : sr1__fail_nomem("state");

    json_decref(o);
    sr1__free(path);
    return st;
}

/* Of the run that is gone on with, where it went to the same server. */
static void load_sent(struct sr1__mlflow *m)
{
    char *path = sr1__path_join(m->folder, STATE);
    const char *uri = "", *run = "", *experiment = "";
    json_t *o = NULL;
    int64_t sent = 0;

    if (path && sr1__path_exists(path) &&
        sr1__json_load(&o, path, (size_t)1 << 16) == SR1_OK &&
        sr1__json_get_str(o, "tracking_uri", &uri) == SR1_OK &&
        strcmp(uri, m->uri) == 0 && sr1__json_get_str(o, "run_id", &run) == SR1_OK &&
        sr1__json_get_str(o, "experiment_id", &experiment) == SR1_OK &&
        sr1__json_get_int(o, "sent", &sent) == SR1_OK && sent >= 0) {
        snprintf(m->run_id, sizeof(m->run_id), "%s", run);
        snprintf(m->experiment_id, sizeof(m->experiment_id), "%s", experiment);
        m->sent = (uint64_t)sent;
    }
    json_decref(o);
    sr1__free(path);
}

/* ---- experiment and run ---- */

static int64_t now_ms(void)
{
    return (int64_t)time(NULL) * 1000;
}

static sr1_status find_experiment(struct sr1__mlflow *m)
{
    struct sr1__buf call;
    json_t *answer = NULL;
    int32_t code = 0;
    sr1_status st;

    sr1__buf_init(&call, 0);
    sr1__buf_str(&call, "experiments/get-by-name?experiment_name=");
    sr1__url_escape(&call, m->experiment);
    st = call_server(m, sr1__buf_cstr(&call), NULL, &code, &answer);
    sr1__buf_free(&call);
    if (st == SR1_OK)
        st = take_id(answer, "experiment.experiment_id", m->experiment_id,
                     sizeof(m->experiment_id));
    else if (code == 404) {
        st = post_call(m, "experiments/create", json_pack("{s:s}", "name", m->experiment),
                       NULL, &answer);
        if (st == SR1_OK)
            st = take_id(answer, "experiment_id", m->experiment_id,
                         sizeof(m->experiment_id));
    }
    json_decref(answer);
    return st;
}

static sr1_status create_tracked_run(struct sr1__mlflow *m)
{
    json_t *answer = NULL;
    json_t *body =
        json_pack("{s:s, s:s, s:I, s:[{s:s, s:s}, {s:s, s:s}]}", "experiment_id",
                  m->experiment_id, "run_name", m->name, "start_time",
                  (json_int_t)now_ms(), "tags", "key", "mlflow.runName", "value", m->name,
                  "key", "mlflow.source.name", "value", "searchr1");
    sr1_status st = post_call(m, "runs/create", body, NULL, &answer);

    if (st == SR1_OK)
        st = take_id(answer, "run.info.run_id", m->run_id, sizeof(m->run_id));
    json_decref(answer);
    return st;
}

static sr1_status set_run_status(const struct sr1__mlflow *m, const char *status,
                                 int ended, int32_t *code)
{
    json_t *body = json_pack("{s:s, s:s}", "run_id", m->run_id, "status", status);

    if (body && ended)
        (void)json_object_set_new(body, "end_time", json_integer(now_ms()));
    return post_call(m, "runs/update", body, code, NULL);
}

/* And empty the list of "params" or "metrics". */
static sr1_status send_batch(const struct sr1__mlflow *m, const char *what, json_t *list,
                             int32_t *code)
{
    sr1_status st;

    if (json_array_size(list) == 0)
        return SR1_OK;
    st = post_call(m, "runs/log-batch",
                   json_pack("{s:s, s:O}", "run_id", m->run_id, what, list), code, NULL);
    (void)json_array_clear(list);
    return st;
}

static sr1_status add_param(json_t *params, const char *key, const json_t *v)
{
    struct sr1__buf text;
    size_t n;
    sr1_status st = SR1_OK;

    sr1__buf_init(&text, 0);
    if (json_is_string(v))
        sr1__buf_str(&text, json_string_value(v));
    else
        st = sr1__json_dump(v, 0, &text);
    if (st == SR1_OK)
        st = sr1__buf_status(&text, "parameters");
    n = text.len;
    if (n > PARAM_BYTES)
        n = sr1__utf8_complete(sr1__buf_cstr(&text), PARAM_BYTES);
    if (st == SR1_OK && n > 0 &&
        json_array_append_new(params, json_pack("{s:s, s:s%}", "key", key, "value",
                                                sr1__buf_cstr(&text), n)) != 0)
        st = sr1__fail_nomem("parameters");
    sr1__buf_free(&text);
    return st;
}

/* Every key of config.json; a value that was sent before is the same. */
static sr1_status send_config(const struct sr1__mlflow *m, int32_t *code)
{
    char *path = sr1__path_join(m->folder, "config.json");
    json_t *config = NULL, *v, *params = json_array();
    const char *key;
    sr1_status st = path && params ? sr1__json_load(&config, path, (size_t)1 << 22)
                                   : sr1__fail_nomem("parameters");

    json_object_foreach(config, key, v)
    {
        st = add_param(params, key, v);
        if (st == SR1_OK && json_array_size(params) == MOST_PARAMS)
            st = send_batch(m, "params", params, code);
        if (st != SR1_OK)
            break;
    }
    if (st == SR1_OK)
        st = send_batch(m, "params", params, code);
    json_decref(config);
    json_decref(params);
    sr1__free(path);
    return st;
}

/* Is it what was sent that the server does not take, now and later? */
static int is_refused(int32_t code)
{
    return code >= 400 && code < 500 && code != 408 && code != 429;
}

static int is_content_refused(int32_t code)
{
    return is_refused(code) && code != 401 && code != 403 && code != 404;
}

/* Parameters that the server refuses are no reason to keep the metrics from it. */
static sr1_status say_config(struct sr1__mlflow *m)
{
    int32_t code = 0;
    sr1_status st = send_config(m, &code);

    if (st != SR1_OK && !is_refused(code))
        return st;
    if (st != SR1_OK)
        sr1__log(SR1_LOG_WARN, "MLflow refuses the keys of the run: %s",
                 sr1_last_error());
    m->unsaid = 0;
    return SR1_OK;
}

/* A run of the server's: the one that the folder names, unless it was deleted there,
 * which MLflow answers by 400 (the run must be active), and by 404 once it is gone. */
static sr1_status begin_tracked_run(struct sr1__mlflow *m)
{
    int32_t code = 0;
    sr1_status st;

    if (m->begun)
        return SR1_OK;
    if (*m->run_id && !m->unsaid) {
        st = set_run_status(m, "RUNNING", 0, &code);
        if (st == SR1_OK)
            m->begun = 1;
        if (st == SR1_OK || (code != 404 && code != 400))
            return st;
        m->sent = 0;
        m->run_id[0] = '\0';
    }
    if (!*m->run_id) {
        SR1__TRY(find_experiment(m));
        SR1__TRY(create_tracked_run(m));
        m->unsaid = 1;
    }
    SR1__TRY(say_config(m));
    m->begun = 1;
    return save_sent(m);
}

/* ---- rows ---- */

/* Letters, digits and _-./ and spaces are in every server's names. Such a name must be a
 * path in its normal form that leads nowhere else, so a part that is empty or begins with
 * a dot gets a "_" in front. A long name ends with a hash of it. */
static void clean_name(const char *name, char out[NAME_BYTES + 1])
{
    size_t n = 0;

    for (const char *c = name; n < NAME_BYTES; c++) {
        int begins = c == name || c[-1] == '/';

        if (begins && (*c == '/' || *c == '.' || !*c))
            out[n++] = '_';
        if (!*c || n == NAME_BYTES)
            break;
        out[n++] = isalnum((unsigned char)*c) || strchr("_-./ ", *c) ? *c : '_';
    }
    out[n] = '\0';
    if (n == NAME_BYTES)
        snprintf(out + n - 9, 10, "-%08x", (unsigned)sr1__hash64(name, strlen(name), 0));
}

/* *code becomes that of a refusal. */
static sr1_status add_row_metrics(const struct sr1__mlflow *m, const json_t *row,
                                  json_t *metrics, int32_t *code)
{
    json_int_t step = json_integer_value(json_object_get(row, "step"));
    json_int_t at = json_integer_value(json_object_get(row, "perf/timestamp")) * 1000;
    const char *key;
    json_t *v;

    json_object_foreach((json_t *)(uintptr_t)row, key, v)
    {
        char name[NAME_BYTES + 1];

        if (!json_is_number(v) || strcmp(key, "step") == 0 ||
            strcmp(key, "perf/timestamp") == 0)
            continue;
        clean_name(key, name);
        if (json_array_append_new(metrics, json_pack("{s:s, s:f, s:I, s:I}", "key", name,
                                                     "value", json_number_value(v),
                                                     "timestamp", at, "step", step)) != 0)
            return sr1__fail_nomem("metrics");
        if (json_array_size(metrics) == MOST_METRICS)
            SR1__TRY(send_batch(m, "metrics", metrics, code));
    }
    return SR1_OK;
}

/* At most `lines` whole lines of text; *used becomes the bytes they have. */
static sr1_status send_journal_lines(const struct sr1__mlflow *m, const char *text,
                                     size_t n, size_t lines, size_t *used, int32_t *code)
{
    json_t *metrics = json_array();
    sr1_status st = metrics ? SR1_OK : sr1__fail_nomem("metrics");
    const char *stop;

    *used = 0;
    while (st == SR1_OK && lines-- > 0 &&
           (stop = memchr(text + *used, '\n', n - *used)) != NULL) {
        size_t size = (size_t)(stop - text) - *used;
        json_t *row = NULL;

        if (sr1__json_parse(&row, text + *used, size, "metrics.jsonl") == SR1_OK)
            st = add_row_metrics(m, row, metrics, code);
        json_decref(row);
        *used += size + 1;
    }
    if (st == SR1_OK)
        st = send_batch(m, "metrics", metrics, code);
    json_decref(metrics);
    return st;
}

/* The lines together; if the server refuses what is in them, the first alone, which is
 * passed over if it is refused again: one row must not keep those behind it here. A run
 * or an account that the server does not know is another matter. */
static sr1_status send_or_pass_over(struct sr1__mlflow *m, const char *text, size_t n,
                                    size_t *used)
{
    int32_t code = 0;
    sr1_status st = send_journal_lines(m, text, n, SIZE_MAX, used, &code);

    if (st == SR1_OK || !is_content_refused(code))
        return st;
    st = send_journal_lines(m, text, n, 1, used, &code);
    if (st == SR1_OK || !is_content_refused(code))
        return st;
    if (!m->passed_over)
        sr1__log(
            SR1_LOG_WARN,
            "MLflow refuses a row of metrics, which is passed over, as others that it "
            "refuses will be; metrics.jsonl has them: %s",
            sr1_last_error());
    m->passed_over = 1;
    return SR1_OK;
}

static sr1_status read_journal_chunk(const struct sr1__mlflow *m, uint64_t size,
                                     char *text, size_t *n)
{
    char *path = sr1__path_join(m->folder, "metrics.jsonl");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    size_t want = size - m->sent < CHUNK ? (size_t)(size - m->sent) : CHUNK;
    ssize_t got = fd >= 0 ? sr1__pread_all(fd, text, want, m->sent) : -1;
    sr1_status st =
        got < 0 ? sr1__fail_errno("read", path ? path : "metrics.jsonl") : SR1_OK;

    *n = got > 0 ? (size_t)got : 0;
    if (fd >= 0)
        close(fd);
    sr1__free(path);
    return st;
}

/* What is in the file and not at the server. */
static sr1_status send_journal(struct sr1__mlflow *m)
{
    uint64_t size = atomic_load(&m->size);
    char *text = sr1__malloc(CHUNK + 1);
    size_t n = 0, used = 0;
    sr1_status st = text ? begin_tracked_run(m) : sr1__fail_nomem("rows of metrics");

    while (st == SR1_OK && m->sent < size) {
        st = read_journal_chunk(m, size, text, &n);
        if (st == SR1_OK)
            st = send_or_pass_over(m, text, n, &used);
        if (st != SR1_OK || used == 0)
            break;
        m->sent += used;
        st = save_sent(m);
    }
    sr1__free(text);
    return st;
}

/* Said once, and once that it is over. */
static void report_sending(struct sr1__mlflow *m, sr1_status st)
{
    if (st != SR1_OK && !m->failing)
        sr1__log(SR1_LOG_WARN,
                 "MLflow: %s; the metrics are in metrics.jsonl, and are sent when it "
                 "answers",
                 sr1_last_error());
    if (st == SR1_OK && m->failing)
        sr1__log(SR1_LOG_INFO, "MLflow answers again, and has all metrics");
    m->failing = st != SR1_OK;
}

static void send_task(void *arg)
{
    struct sr1__mlflow *m = arg;

    atomic_store(&m->queued, 0);
    report_sending(m, send_journal(m));
}

void sr1__mlflow_tell(struct sr1__mlflow *m, uint64_t size)
{
    if (!m)
        return;
    atomic_store(&m->size, size);
    if (!atomic_exchange(&m->queued, 1) &&
        sr1__executor_post(m->thread, &m->task) != SR1_OK)
        atomic_store(&m->queued, 0);
}

/* ---- opening and closing ---- */

static const char *from_environment(const char *value, const char *variable)
{
    const char *v = getenv(variable);

    return *value ? value : v ? v : "";
}

/* MLFLOW_TRACKING_TOKEN, else MLFLOW_TRACKING_USERNAME with its password. */
static sr1_status read_credentials(struct sr1__mlflow *m)
{
    const char *user = getenv("MLFLOW_TRACKING_USERNAME");
    const char *password = getenv("MLFLOW_TRACKING_PASSWORD");
    struct sr1__buf b;
    sr1_status st;

    if (getenv("MLFLOW_TRACKING_TOKEN")) {
        SR1__TRY(sr1__service_key(&m->secret, "MLFLOW_TRACKING_TOKEN"));
        return sr1__service_bearer(&m->authorization, m->secret);
    }
    if (!user || !password)
        return SR1_OK;
    sr1__buf_init(&b, 0);
    sr1__buf_fmt(&b, "%s:%s", user, password);
    m->secret = sr1__strdup(password);
    st = m->secret ? sr1__buf_status(&b, "credentials") : sr1__fail_nomem("credentials");
    if (st == SR1_OK)
        st = sr1__service_basic(&m->authorization, sr1__buf_cstr(&b));
    sr1__buf_free(&b);
    return st;
}

static sr1_status open_tracker_client(struct sr1__mlflow *m)
{
    struct sr1__http_options o = {.connect_timeout_s = 5.0,
                                  .timeout_s = TIMEOUT_S,
                                  .max_body = (size_t)1 << 20,
                                  .concurrency = 1,
                                  .ca_file = getenv("MLFLOW_TRACKING_SERVER_CERT_PATH")};

    SR1__TRY(sr1__http_new(&m->http, &o));
    return sr1__executor_new(&m->thread, "MLflow", 1, 0);
}

static sr1_status copy_own_text(char **out, const char *text)
{
    *out = sr1__strdup(text);
    return *out ? SR1_OK : sr1__fail_nomem("MLflow");
}

/* "": none. SR1_E_CONFIG: it is no address of a server. */
static sr1_status find_tracking_uri(const sr1_config *c, const char **out)
{
    const char *uri = sr1__config_str(c, "mlflow_tracking_uri");
    char origin[SR1__ORIGIN_MAX];

    if (strcmp(uri, "env") == 0) {
        uri = from_environment("", "MLFLOW_TRACKING_URI");
        if (!*uri)
            return sr1__fail(SR1_E_CONFIG, "mlflow_tracking_uri is env, and the variable "
                                           "MLFLOW_TRACKING_URI is not set");
    }
    *out = uri;
    if (!*uri || sr1__url_origin(uri, "mlflow_tracking_uri", origin) == SR1_OK)
        return SR1_OK;
    return sr1__context(sr1__fail(SR1_E_CONFIG, "%s", sr1_last_error()),
                        "MLflow is told by its server; files of its own are written by "
                        "python3 -m searchr1.track RUN --to mlflow");
}

sr1_status sr1__mlflow_check(const sr1_config *config)
{
    const char *uri;

    return find_tracking_uri(config, &uri);
}

static sr1_status fill_tracker(struct sr1__mlflow *m, const sr1_config *c,
                               const char *uri, const char *folder)
{
    const char *experiment = from_environment(sr1__config_str(c, "mlflow_experiment"),
                                              "MLFLOW_EXPERIMENT_NAME");
    size_t n;

    SR1__TRY(copy_own_text(&m->uri, uri));
    for (n = strlen(m->uri); n > 0 && m->uri[n - 1] == '/'; n--)
        m->uri[n - 1] = '\0';
    SR1__TRY(copy_own_text(&m->experiment, *experiment ? experiment : "searchr1"));
    SR1__TRY(copy_own_text(&m->name, sr1__config_str(c, "name")));
    SR1__TRY(copy_own_text(&m->folder, folder));
    SR1__TRY(read_credentials(m));
    load_sent(m);
    if (m->sent > atomic_load(&m->size)) /* the journal was cut for a run that goes on */
        m->sent = atomic_load(&m->size);
    return open_tracker_client(m);
}

static void mlflow_free(struct sr1__mlflow *m)
{
    sr1__executor_free(m->thread);
    sr1__http_free(m->http);
    sr1__service_wipe(m->authorization);
    sr1__service_wipe(m->secret);
    sr1__free(m->uri);
    sr1__free(m->experiment);
    sr1__free(m->name);
    sr1__free(m->folder);
    sr1__free(m);
}

sr1_status sr1__mlflow_open(struct sr1__mlflow **out, const sr1_config *config,
                            const char *run_folder, uint64_t size)
{
    struct sr1__mlflow *m;
    const char *uri;

    *out = NULL;
    SR1__TRY(find_tracking_uri(config, &uri));
    if (!*uri)
        return SR1_OK;
    SR1__CALLOC(m, 1, "MLflow");
    m->task = (struct sr1__task){.run = send_task, .arg = m};
    m->timeout_s = TIMEOUT_S;
    atomic_init(&m->size, size);
    SR1__RETURN_NEW(out, m, fill_tracker(m, config, uri, run_folder), mlflow_free);
}

static const char *name_outcome(sr1_status outcome)
{
    if (outcome == SR1_OK)
        return "FINISHED";
    return outcome == SR1_E_CANCELLED ? "KILLED" : "FAILED";
}

static void report_unsent(const struct sr1__mlflow *m, uint64_t bytes)
{
    char quoted[SR1__QUOTED_SIZE];

    sr1__quote_word(m->folder, quoted, sizeof quoted);
    sr1__log(SR1_LOG_WARN,
             "MLflow does not have the last %" PRIu64
             " bytes of metrics.jsonl, which are "
             "sent when the run goes on; python3 -m searchr1.track %s --to mlflow makes "
             "another run there with all of them",
             bytes, quoted);
}

void sr1__mlflow_close(struct sr1__mlflow *m, sr1_status outcome)
{
    double until = sr1__now() + LAST_S;
    struct sr1__error before;
    uint64_t size;

    if (!m)
        return;
    sr1__error_save(&before, outcome);
    size = atomic_load(&m->size);
    sr1__mlflow_tell(m, size);
    if (!sr1__executor_drain(m->thread, until)) {
        atomic_store(&m->over, 1); /* also for a task that is queued behind */
        sr1__http_cancel(m->http);
    }
    (void)sr1__executor_drain(m->thread, INFINITY);
    m->timeout_s = fmax(0.001, fmin(TIMEOUT_S, until - sr1__now()));
    if (m->begun && !m->failing && !atomic_load(&m->over))
        report_sending(m, set_run_status(m, name_outcome(outcome), 1, NULL));
    if (m->sent < size)
        report_unsent(m, size - m->sent);
    mlflow_free(m);
    (void)sr1__error_raise(&before);
}
