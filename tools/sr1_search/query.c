/* sr1_search/query.c - `sr1-search query`: ask an index, a retrieval server or a web
 * search service, print what is found. */
#include "sr1_search/commands.h"

#include "common/table.h"

#include <searchr1/ext/embed.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The arguments with single spaces between; free it. */
static char *join_query_words(const char *const *words, size_t n)
{
    size_t size = 1;
    char *text;

    for (size_t i = 0; i < n; i++)
        size += strlen(words[i]) + 1;
    text = malloc(size);
    if (text == NULL)
        return NULL;
    text[0] = '\0';
    for (size_t i = 0; i < n; i++) {
        if (i > 0)
            strcat(text, " ");
        strcat(text, words[i]);
    }
    return text;
}

/* The first line of contents without its quotes, and what follows; a single line has no
 * title. Free the title. */
static char *split_title(const char *contents, const char **rest)
{
    size_t n = strcspn(contents, "\n");
    char *title;

    if (contents[n] == '\0')
        n = 0;
    *rest = contents + n + (contents[n] == '\n');
    if (n >= 2 && contents[0] == '"' && contents[n - 1] == '"') {
        contents++;
        n -= 2;
    }
    title = malloc(n + 1);
    if (title == NULL)
        return NULL;
    memcpy(title, contents, n);
    title[n] = '\0';
    return title;
}

static int print_hits_table(const sr1_search_results *found)
{
    static const struct table_column columns[] = {
        {"score", TABLE_RIGHT, 0},
        {"id", TABLE_LEFT, 24},
        {"title", TABLE_LEFT, 32},
        {"text", TABLE_LEFT, 80},
    };
    sr1_search_hit hit = {sizeof(hit)};
    struct table t;

    table_begin(&t, columns, 4);
    for (int32_t k = 0; sr1_search_results_hit(found, 0, k, &hit) == SR1_OK; k++) {
        const char *text;
        char *title = split_title(hit.contents, &text);
        char score[32];
        const char *cells[] = {score, hit.id, title, text};

        snprintf(score, sizeof(score), "%.4f", hit.score);
        table_row(&t, cells);
        t.failed |= title == NULL;
        free(title);
    }
    if (table_end(&t, stdout) == 0)
        return TOOL_OK;
    fprintf(stderr, "sr1-search: out of memory\n");
    return TOOL_FAILED;
}

static void print_json_string(const char *s)
{
    putchar('"');
    for (; *s != '\0'; s++) {
        if (*s == '"' || *s == '\\')
            printf("\\%c", *s);
        else if ((unsigned char)*s < 0x20)
            printf("\\u%04x", (unsigned)*s);
        else
            putchar(*s);
    }
    putchar('"');
}

/* One object a line, best first. */
static int print_hits_json(const sr1_search_results *found)
{
    sr1_search_hit hit = {sizeof(hit)};

    for (int32_t k = 0; sr1_search_results_hit(found, 0, k, &hit) == SR1_OK; k++) {
        printf("{\"rank\": %d, \"score\": %.6f, \"id\": ", (int)k + 1, hit.score);
        print_json_string(hit.id);
        printf(", \"contents\": ");
        print_json_string(hit.contents);
        printf("}\n");
    }
    return TOOL_OK;
}

static void print_no_hits(const struct request *r, int32_t how, const char *message)
{
    if (how == SR1_ACTION_EMPTY)
        fprintf(stderr, "%s\n", message);
    else if (r->remote != NULL)
        fprintf(stderr, "sr1-search: %s; is a retrieval server running at %s?\n", message,
                r->remote);
    else
        fprintf(stderr, "sr1-search: %s\n", message);
}

static int run_query_text(sr1_search *engine, const struct request *r, const char *text)
{
    sr1_search_results *found = NULL;
    sr1_status status = sr1_search_run(engine, &text, 1, (int32_t)r->top_k, &found);
    int code;

    if (status != SR1_OK)
        return search_failed(status);
    if (sr1_search_results_hit_count(found, 0) == 0) {
        int32_t how = sr1_search_results_status(found, 0);

        print_no_hits(r, how, sr1_search_results_message(found, 0));
        code = how == SR1_ACTION_EMPTY ? TOOL_OK : TOOL_FAILED;
    } else {
        code = r->json ? print_hits_json(found) : print_hits_table(found);
    }
    sr1_search_results_free(found);
    return code;
}

static sr1_status open_query_engine(sr1_search **engine, const struct request *r,
                                    const char *index)
{
    sr1_reranker *reranker = NULL;
    sr1_status status = open_reranker(&reranker, r);

    if (status == SR1_OK)
        status = open_engine(engine, r, reranker, index);
    sr1_reranker_free(reranker);
    return status;
}

/* Ask an engine one query, of words [n]. */
static int ask_one_query(const struct request *r, const char *index,
                         const char *const *words, size_t n)
{
    sr1_search *engine = NULL;
    sr1_status status = open_query_engine(&engine, r, index);
    char *text;
    int code;

    if (status != SR1_OK)
        return tool_refused("sr1-search", status);
    text = join_query_words(words, n);
    if (text == NULL) {
        fprintf(stderr, "sr1-search: out of memory\n");
        code = TOOL_FAILED;
    } else {
        code = run_query_text(engine, r, text);
    }
    free(text);
    sr1_search_free(engine);
    return code;
}

int run_query(const struct args *a, const struct request *r, const char *const *rest,
              size_t n)
{
    struct request asked = *r;
    size_t pairs = count_pairs(r, rest, n);
    size_t first = pairs + (size_t)has_index(r); /* word of the query */
    sr1_config *config = NULL;
    sr1_status status;
    int code;

    code = check_engine_options(a, r);
    if (code >= 0)
        return code;
    if (n < first + 1)
        return args_wrong(a, "query needs %s: sr1-search query %s%s%s TEXT...",
                          has_index(r) ? "an index and words" : "words",
                          has_index(r) ? "INDEX" : service_option(r),
                          has_index(r) ? "" : " ", has_index(r) ? "" : service_value(r));
    status = load_request_config(&config, &asked, a, rest, pairs);
    code = status == SR1_OK ? ask_one_query(&asked, rest[0], rest + first, n - first)
                            : tool_refused("sr1-search", status);
    sr1_config_free(config);
    return code;
}
