/* retrieval/net/transfer.c - curl's options for one request, and the classification of
 * its result.
 *
 * Messages are made of curl's fixed texts, never of its error buffer, which may quote the
 * URL with the key in it. */
#include "retrieval/net/transfer.h"

#include "base/mem.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define USER_AGENT "libsearchr1"

struct sr1__transfer {
    CURL *easy;
    struct curl_slist *headers;
    struct sr1__http_response *response;
    const char *want_header; /* borrowed; NULL: none */
    char origin[SR1__ORIGIN_MAX];
};

/* ---- URLs ---- */

static int copy_part(CURLU *u, CURLUPart part, unsigned flags, char *out, size_t size)
{
    char *text = NULL;
    int n = -1;

    if (curl_url_get(u, part, &text, flags) == CURLUE_OK)
        n = snprintf(out, size, "%s", text);
    curl_free(text);
    return n >= 0 && (size_t)n < size;
}

static int has_part(CURLU *u, CURLUPart part)
{
    char *text = NULL;
    int is = curl_url_get(u, part, &text, 0) == CURLUE_OK;

    curl_free(text);
    return is;
}

static sr1_status read_origin(CURLU *u, const char *what, char *origin)
{
    char scheme[16], host[264], port[16];

    if (!copy_part(u, CURLUPART_SCHEME, 0, scheme, sizeof scheme) ||
        (strcmp(scheme, "http") != 0 && strcmp(scheme, "https") != 0) ||
        !copy_part(u, CURLUPART_HOST, 0, host, sizeof host))
        return sr1__fail(SR1_E_INVALID, "%s: not an http:// or https:// URL", what);
    if (has_part(u, CURLUPART_USER) || has_part(u, CURLUPART_PASSWORD))
        return sr1__fail(SR1_E_INVALID,
                         "%s: a user or password in a URL is not used; "
                         "put a key into an environment variable",
                         what);
    if (copy_part(u, CURLUPART_PORT, 0, port, sizeof port))
        snprintf(origin, SR1__ORIGIN_MAX, "%s://%s:%s", scheme, host, port);
    else
        snprintf(origin, SR1__ORIGIN_MAX, "%s://%s", scheme, host);
    return SR1_OK;
}

sr1_status sr1__url_origin(const char *url, const char *what,
                           char origin[SR1__ORIGIN_MAX])
{
    CURLU *u;
    sr1_status st;

    if (!url || !*url)
        return sr1__fail(SR1_E_INVALID, "%s: no URL is given", what);
    u = curl_url();
    SR1__CHECK_ALLOC(u, "URL");
    if (curl_url_set(u, CURLUPART_URL, url, 0) != CURLUE_OK)
        st = sr1__fail(SR1_E_INVALID, "%s: not an http:// or https:// URL", what);
    else
        st = read_origin(u, what, origin);
    curl_url_cleanup(u);
    return st;
}

void sr1__url_escape(struct sr1__buf *b, const char *text)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                "0123456789-._~";

    for (const char *p = text; *p; p++) {
        if (strchr(plain, *p))
            sr1__buf_char(b, *p);
        else
            sr1__buf_fmt(b, "%%%02X", (unsigned)(unsigned char)*p);
    }
}

/* ---- one attempt ---- */

static size_t receive_body(char *bytes, size_t size, size_t n, void *user)
{
    struct sr1__transfer *t = user;

    sr1__buf_add(&t->response->body, bytes, size * n);
    return t->response->body.status == SR1_OK ? size * n : 0;
}

static sr1_status set_headers(struct sr1__transfer *t,
                              const struct sr1__http_request *request)
{
    /* "Expect:" without a value: a long body does not wait for a 100 Continue. */
    struct curl_slist *list = curl_slist_append(NULL, "Expect:");

    for (size_t i = 0; list && i < request->n_headers; i++) {
        t->headers = list;
        list = curl_slist_append(list, request->headers[i]);
    }
    SR1__CHECK_ALLOC(list, "headers of a request");
    t->headers = list;
    return SR1_OK;
}

static long to_milliseconds(double s)
{
    return s < 1e6 ? (long)ceil(1000 * s) : 1000000000L;
}

static int set_method(CURL *e, const struct sr1__http_request *request)
{
    int bad = curl_easy_setopt(e, CURLOPT_CUSTOMREQUEST, request->method) != CURLE_OK;

    if (!request->body)
        return bad | (curl_easy_setopt(e, CURLOPT_HTTPGET, 1L) != CURLE_OK);
    bad |= curl_easy_setopt(e, CURLOPT_POST, 1L) != CURLE_OK;
    bad |= curl_easy_setopt(e, CURLOPT_POSTFIELDSIZE_LARGE,
                            (curl_off_t)request->body_len) != CURLE_OK;
    bad |= curl_easy_setopt(e, CURLOPT_POSTFIELDS, request->body) != CURLE_OK;
    return bad;
}

/* 0 when curl took all of them. */
static int set_options(struct sr1__transfer *t, const struct sr1__http_options *o,
                       const struct sr1__http_request *request, void *tag)
{
    CURL *e = t->easy;
    double timeout_s = request->timeout_s > 0 ? request->timeout_s : o->timeout_s;
    int bad = 0;

    bad |= curl_easy_setopt(e, CURLOPT_URL, request->url) != CURLE_OK;
    bad |= curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http,https") != CURLE_OK;
    bad |= curl_easy_setopt(e, CURLOPT_PROXY, "") != CURLE_OK;
    bad |= curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L) != CURLE_OK;
    bad |= curl_easy_setopt(e, CURLOPT_SSL_VERIFYPEER, 1L) != CURLE_OK;
    bad |= curl_easy_setopt(e, CURLOPT_SSL_VERIFYHOST, 2L) != CURLE_OK;
    if (o->ca_file && *o->ca_file)
        bad |= curl_easy_setopt(e, CURLOPT_CAINFO, o->ca_file) != CURLE_OK;
    bad |= curl_easy_setopt(e, CURLOPT_ACCEPT_ENCODING, "") != CURLE_OK;
    bad |= curl_easy_setopt(e, CURLOPT_USERAGENT, USER_AGENT) != CURLE_OK;
    bad |= curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS,
                            to_milliseconds(o->connect_timeout_s)) != CURLE_OK;
    bad |=
        curl_easy_setopt(e, CURLOPT_TIMEOUT_MS, to_milliseconds(timeout_s)) != CURLE_OK;
    bad |= curl_easy_setopt(e, CURLOPT_HTTPHEADER, t->headers) != CURLE_OK;
    bad |= curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, receive_body) != CURLE_OK;
    bad |= curl_easy_setopt(e, CURLOPT_WRITEDATA, t) != CURLE_OK;
    bad |= curl_easy_setopt(e, CURLOPT_PRIVATE, tag) != CURLE_OK;
    return bad | set_method(e, request);
}

static void clear_response(struct sr1__http_response *r)
{
    sr1__buf_clear(&r->body);
    sr1__free(r->header);
    r->header = NULL;
    r->status = SR1_OK;
    r->code = 0;
    r->message[0] = '\0';
    r->retry_after = 0;
    r->again = r->outage = 0;
}

sr1_status sr1__transfer_new(struct sr1__transfer **out,
                             const struct sr1__http_options *options,
                             const struct sr1__http_request *request,
                             struct sr1__http_response *response, void *tag)
{
    struct sr1__transfer *t = sr1__calloc(1, sizeof(*t));
    sr1_status st;

    SR1__CHECK_ALLOC(t, "request");
    clear_response(response);
    t->response = response;
    t->want_header = request->want_header;
    st = sr1__url_origin(request->url, "request", t->origin);
    if (st == SR1_OK)
        st = set_headers(t, request);
    if (st == SR1_OK && !(t->easy = curl_easy_init()))
        st = sr1__fail_nomem("request");
    if (st == SR1_OK && set_options(t, options, request, tag))
        st = sr1__fail(SR1_E_NOMEM, "libcurl refused an option of a request");
    SR1__RETURN_NEW(out, t, st, sr1__transfer_free);
}

void sr1__transfer_free(struct sr1__transfer *t)
{
    if (!t)
        return;
    curl_easy_cleanup(t->easy);
    curl_slist_free_all(t->headers);
    sr1__free(t);
}

CURL *sr1__transfer_handle(const struct sr1__transfer *t)
{
    return t->easy;
}

int64_t sr1__transfer_connections(const struct sr1__transfer *t)
{
    long n = 0;

    (void)curl_easy_getinfo(t->easy, CURLINFO_NUM_CONNECTS, &n);
    return n;
}

/* ---- what an end means ---- */

/* Failures that the next attempt would meet again. */
static int is_lasting(CURLcode code)
{
    static const CURLcode lasting[] = {
        CURLE_UNSUPPORTED_PROTOCOL,
        CURLE_URL_MALFORMAT,
        CURLE_OUT_OF_MEMORY,
        CURLE_SSL_CACERT_BADFILE,
        CURLE_PEER_FAILED_VERIFICATION,
        CURLE_SSL_ISSUER_ERROR,
        CURLE_FILESIZE_EXCEEDED,
    };

    for (size_t i = 0; i < sizeof(lasting) / sizeof(lasting[0]); i++)
        if (lasting[i] == code)
            return 1;
    return 0;
}

static void end_without_memory(struct sr1__http_response *r)
{
    r->status = SR1_E_NOMEM;
    snprintf(r->message, sizeof r->message, "out of memory for an answer");
}

static void keep_wanted_header(struct sr1__transfer *t)
{
    struct sr1__http_response *r = t->response;
    struct curl_header *found = NULL;

    if (!t->want_header || curl_easy_header(t->easy, t->want_header, 0, CURLH_HEADER, -1,
                                            &found) != CURLHE_OK)
        return;
    if (strlen(found->value) > SR1__HTTP_HEADER_MAX) {
        r->status = SR1_E_LIMIT;
        snprintf(r->message, sizeof r->message,
                 "the header %s of %.150s is longer than %d bytes", t->want_header,
                 t->origin, SR1__HTTP_HEADER_MAX);
        return;
    }
    r->header = sr1__strdup(found->value);
    if (!r->header)
        end_without_memory(r);
}

static void end_answered(struct sr1__transfer *t)
{
    struct sr1__http_response *r = t->response;
    int redirected = r->code >= 300 && r->code < 400;

    if (r->code >= 200 && r->code < 300) {
        keep_wanted_header(t);
        return;
    }
    r->status = SR1_E_NETWORK;
    r->again = sr1__retry_code(r->code);
    r->outage = r->code >= 500;
    snprintf(r->message, sizeof r->message, "%.150s answered with HTTP %d%s", t->origin,
             (int)r->code,
             redirected ? "; redirects are not followed, give the final URL" : "");
}

static void end_too_long(struct sr1__transfer *t)
{
    struct sr1__http_response *r = t->response;
    size_t max = r->body.max;

    r->status = r->body.status;
    if (r->status == SR1_E_LIMIT)
        snprintf(r->message, sizeof r->message,
                 "the answer of %.150s is longer than %zu bytes", t->origin, max);
    else
        end_without_memory(r);
    sr1__buf_free(&r->body);
    sr1__buf_init(&r->body, max);
}

static void end_broken(struct sr1__transfer *t, CURLcode code)
{
    struct sr1__http_response *r = t->response;

    r->status = code == CURLE_OPERATION_TIMEDOUT ? SR1_E_TIMEOUT
                : code == CURLE_OUT_OF_MEMORY    ? SR1_E_NOMEM
                                                 : SR1_E_NETWORK;
    r->again = !is_lasting(code);
    r->outage = r->again;
    snprintf(r->message, sizeof r->message, "%.150s: %s", t->origin,
             code == CURLE_OPERATION_TIMEDOUT ? "no answer in time"
                                              : curl_easy_strerror(code));
}

void sr1__transfer_end(struct sr1__transfer *t, CURLcode code)
{
    struct sr1__http_response *r = t->response;
    curl_off_t after = 0;
    long http_code = 0;

    (void)curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &http_code);
    (void)curl_easy_getinfo(t->easy, CURLINFO_RETRY_AFTER, &after);
    r->code = (int32_t)http_code;
    r->retry_after = after > 0 ? (double)after : 0;
    if (r->body.status != SR1_OK)
        end_too_long(t);
    else if (code != CURLE_OK)
        end_broken(t, code);
    else
        end_answered(t);
}
