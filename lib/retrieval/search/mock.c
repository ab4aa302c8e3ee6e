/* retrieval/search/mock.c - keyword to information, for tests and first steps: the first
 * keyword that occurs in the query, both case folded, gives its information. */
#include <searchr1/search.h>
#include <searchr1/ext/engines.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/rng.h"
#include "retrieval/search/analyze.h"
#include "retrieval/search/search_engine.h"

#include <string.h>

#define MOCK_FILE_MAX ((size_t)256 << 20)

struct keyword_pair {
    char *keyword;
    char *folded;
    char *information;
};

struct mock {
    struct keyword_pair *pairs;
    size_t n;
};

static void mock_destroy(void *self)
{
    struct mock *m = self;

    for (size_t i = 0; m->pairs != NULL && i < m->n; i++) {
        sr1__free(m->pairs[i].keyword);
        sr1__free(m->pairs[i].folded);
        sr1__free(m->pairs[i].information);
    }
    sr1__free(m->pairs);
    sr1__free(m);
}

static sr1_status fold_mock_text(const char *s, char **out)
{
    struct sr1__buf b;
    sr1_status status;

    sr1__buf_init(&b, 0);
    status = sr1__text_fold(s, strlen(s), 0, &b);
    if (status == SR1_OK && (*out = sr1__buf_take(&b)) == NULL)
        status = sr1__fail_nomem("folded text");
    sr1__buf_free(&b);
    return status;
}

static sr1_status mock_search(void *self, const char *const *queries, size_t n,
                              int32_t top_k, sr1_search_sink *sink)
{
    const struct mock *m = self;

    (void)top_k;
    for (size_t i = 0; i < n; i++) {
        char *query = NULL;
        sr1_status status = fold_mock_text(queries[i], &query);

        for (size_t k = 0; status == SR1_OK && k < m->n; k++) {
            if (strstr(query, m->pairs[k].folded) == NULL)
                continue;
            status = sr1_search_sink_hit(sink, i, m->pairs[k].keyword,
                                         m->pairs[k].information, 1.0);
            break;
        }
        sr1__free(query);
        SR1__TRY(status);
    }
    return SR1_OK;
}

static const sr1_search_ops mock_ops = {sizeof(sr1_search_ops), "mock", mock_search,
                                        mock_destroy,
                                        SR1_SEARCH_CONCURRENT | SR1_SEARCH_THREADS};

static sr1_status set_keyword_pair(struct keyword_pair *p, const char *keyword,
                                   const char *information)
{
    if (keyword == NULL || information == NULL || keyword[0] == '\0')
        return sr1__fail(SR1_E_INVALID, "a keyword is empty, or a string NULL");
    p->keyword = sr1__strdup(keyword);
    p->information = sr1__strdup(information);
    if (p->keyword == NULL || p->information == NULL)
        return sr1__fail_nomem("mock engine");
    return fold_mock_text(keyword, &p->folded);
}

static uint64_t hash_pairs(const struct mock *m)
{
    uint64_t hash = 1; /* an engine that knows nothing is one, too */

    for (size_t i = 0; i < m->n; i++) {
        const struct keyword_pair *p = &m->pairs[i];

        hash = sr1__hash64(p->keyword, strlen(p->keyword) + 1, hash);
        hash = sr1__hash64(p->information, strlen(p->information) + 1, hash);
    }
    return hash;
}

sr1_status sr1_search_open_mock(sr1_search **out, const char *const *keywords,
                                const char *const *information, size_t n)
{
    struct mock *m;
    sr1_status status = SR1_OK;

    if (out == NULL || (n > 0 && (keywords == NULL || information == NULL)))
        return sr1__fail(SR1_E_INVALID, "mock engine: an argument is NULL");
    m = sr1__calloc(1, sizeof(*m));
    if (m == NULL)
        return sr1__fail_nomem("mock engine");
    m->pairs = sr1__calloc(n + 1, sizeof(*m->pairs));
    m->n = n;
    if (m->pairs == NULL)
        status = sr1__fail_nomem("mock engine");
    for (size_t i = 0; status == SR1_OK && i < n; i++)
        status = sr1__context(set_keyword_pair(&m->pairs[i], keywords[i], information[i]),
                              "mock engine: pair %zu", i);
    if (status == SR1_OK)
        status = sr1__search_new_builtin(out, &mock_ops, m);
    if (status != SR1_OK) {
        mock_destroy(m);
        return status;
    }
    sr1__search_set_origin(*out, hash_pairs(m));
    return SR1_OK;
}

static sr1_status read_pairs(const json_t *o, const char *path, const char **keywords,
                             const char **information)
{
    size_t i = 0;
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)o, key, value)
    {
        if (!json_is_string(value))
            return sr1__fail(SR1_E_PARSE, "%s: the value of '%.100s' is not a string",
                             path, key);
        keywords[i] = key;
        information[i++] = json_string_value(value);
    }
    return SR1_OK;
}

sr1_status sr1_search_open_mock_file(sr1_search **out, const char *path)
{
    json_t *o = NULL;
    const char **keywords = NULL;
    const char **information = NULL;
    sr1_status status;

    if (out == NULL || path == NULL)
        return sr1__fail(SR1_E_INVALID, "mock engine: an argument is NULL");
    SR1__TRY(sr1__json_load(&o, path, MOCK_FILE_MAX));
    keywords = sr1__calloc(json_object_size(o) + 1, sizeof(*keywords));
    information = sr1__calloc(json_object_size(o) + 1, sizeof(*information));
    if (keywords == NULL || information == NULL)
        status = sr1__fail_nomem("mock engine");
    else if (!json_is_object(o))
        status =
            sr1__fail(SR1_E_PARSE, "%s: not an object of keyword to information", path);
    else
        status = read_pairs(o, path, keywords, information);
    if (status == SR1_OK)
        status = sr1__context(
            sr1_search_open_mock(out, keywords, information, json_object_size(o)), "%s",
            path);
    sr1__free((void *)keywords);
    sr1__free((void *)information);
    json_decref(o);
    return status;
}
