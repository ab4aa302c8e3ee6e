/* retrieval/server/dialects.c - the request and answer formats of the trainers' clients.
 */
#include "retrieval/server/wire.h"

#include <stddef.h>

#define SEARCH_R1 "{\"result\":[", NULL, "]}"

/* Of rows that share their queries, the first whose own number of hits is there, else the
 * last. */
const struct sr1__dialect sr1__dialects[] = {
    /* rLLM: its server takes both forms, and answers one query with a flat list */
    {"/retrieve", "queries", 1, "top_k", "return_scores", 1, SEARCH_R1},
    {"/retrieve", "query", 0, "top_k", "return_scores", 1, "{\"results\":", NULL, "}"},
    /* Search-R1, verl; SkyRL asks for one query */
    {"/retrieve", "queries", 1, "topk", "return_scores", 0, SEARCH_R1},
    {"/retrieve", "query_list", 1, "topk", "return_scores", 0, SEARCH_R1},
    {"/retrieve", "query", 0, "topk", "return_scores", 0, SEARCH_R1},
    /* FlashRAG: scores lie beside the documents; the other names of the number of hits
     * are known there too */
    {"/search", "query", 0, "topk", "return_score", 0, "", ",", ""},
    {"/search", "query", 0, "top_k", "return_score", 0, "", ",", ""},
    {"/search", "query", 0, "top_n", "return_score", 0, "", ",", ""},
    {"/batch_search", "query", 1, "topk", "return_score", 0, "[", "],[", "]"},
    {"/batch_search", "query", 1, "top_k", "return_score", 0, "[", "],[", "]"},
    {"/batch_search", "query", 1, "top_n", "return_score", 0, "[", "],[", "]"},
    {NULL, NULL, 0, NULL, NULL, 0, NULL, NULL, NULL},
};
