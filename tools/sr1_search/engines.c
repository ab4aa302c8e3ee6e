/* sr1_search/engines.c - the engine that a command line asks for: an index of either
 * kind, two of them together, and a reranker behind. */
#include "sr1_search/commands.h"

#include "common/output.h"

#include <searchr1/ext/bm25.h>
#include <searchr1/ext/dense.h>
#include <searchr1/ext/engines.h>
#include <searchr1/ext/faiss.h>

#include <stddef.h>
#include <stdio.h>
#include <string.h>

static int is_index_of(const char *path, const char *kind)
{
    const char *found = sr1_index_kind(path);

    return found != NULL && strcmp(found, kind) == 0;
}

int is_dense(const char *path)
{
    return is_index_of(path, "dense");
}

int is_bm25(const char *path)
{
    return is_index_of(path, "BM25");
}

int is_faiss(const char *path)
{
    return is_index_of(path, "FAISS");
}

/* ---- models ---- */

static void model_options(sr1_encoder_options *o, const struct request *r)
{
    before_models(r->argv);
    sr1_encoder_options_init(o);
    o->device = r->device;
    o->threads = (int32_t)r->threads;
}

sr1_status open_request_encoder(sr1_embedder **out, const struct request *r,
                                const char *folder)
{
    sr1_encoder_options o;

    model_options(&o, r);
    return sr1_embedder_open(out, folder, &o);
}

sr1_status open_reranker(sr1_reranker **out, const struct request *r)
{
    sr1_encoder_options o;

    if (r->reranker == NULL) {
        *out = NULL;
        return SR1_OK;
    }
    model_options(&o, r);
    return sr1_reranker_open(out, r->reranker, &o);
}

/* ---- indexes ---- */

static sr1_status open_bm25_file(sr1_search **out, const struct request *r,
                                 const char *path)
{
    sr1_bm25_options o;

    sr1_bm25_options_init(&o);
    o.k1 = r->k1;
    o.b = r->b;
    return sr1_search_open_bm25(out, path, &o);
}

/* The encoder of the request, or the one that a dense index was made with. */
static sr1_status open_query_encoder(sr1_embedder **out, const struct request *r,
                                     const char *path)
{
    char *kept = NULL;
    sr1_status status;

    if (r->encoder != NULL)
        return open_request_encoder(out, r, r->encoder);
    if (is_dense(path)) {
        status = sr1_dense_embedder_name(path, &kept);
        if (status != SR1_OK)
            return status;
    }
    if (kept != NULL && kept[0] != '\0')
        status = open_request_encoder(out, r, kept);
    else
        status = sr1_set_error(SR1_E_INVALID,
                               "the index does not say which model its vectors are from; "
                               "name it with --encoder MODEL");
    sr1_free(kept);
    return status;
}

/* What a device is about to be asked for. */
static void print_device_memory(const char *path, const char *device)
{
    sr1_dense_info info = {sizeof(info)};

    if (strncmp(device, "cuda", 4) == 0 && sr1_dense_info_read(path, &info) == SR1_OK)
        fprintf(stderr, "%s: its vectors go to %s, at most %.1f MB there\n", path, device,
                1e-6 * (double)info.device_bytes);
}

static sr1_status open_dense_file(sr1_search **out, const struct request *r,
                                  const char *path)
{
    sr1_embedder *encoder = NULL;
    sr1_dense_options o;
    sr1_status status = open_query_encoder(&encoder, r, path);

    if (status != SR1_OK)
        return status;
    sr1_dense_options_init(&o);
    o.threads = (int32_t)r->threads;
    o.device = r->index_device != NULL ? r->index_device : r->device;
    o.other_weights = r->other_weights;
    print_device_memory(path, o.device);
    status = sr1_search_open_dense(out, path, encoder, &o);
    sr1_embedder_free(encoder);
    return status;
}

/* path: where the documents are. */
static sr1_status open_faiss_file(sr1_search **out, const struct request *r,
                                  const char *path)
{
    sr1_embedder *encoder = NULL;
    sr1_faiss_options o;
    sr1_status status = open_query_encoder(&encoder, r, path);

    if (status != SR1_OK)
        return status;
    sr1_faiss_options_init(&o);
    o.nprobe = (int32_t)r->nprobe;
    o.ef_search = (int32_t)r->ef;
    status = sr1_search_open_faiss(out, r->faiss, path, encoder, &o);
    sr1_embedder_free(encoder);
    return status;
}

static sr1_status open_index_file(sr1_search **out, const struct request *r,
                                  const char *path)
{
    return is_dense(path) ? open_dense_file(out, r, path) : open_bm25_file(out, r, path);
}

/* ---- together ---- */

/* Put another engine beside *engine; takes both over. */
static sr1_status fuse_engines(sr1_search **engine, sr1_search *other,
                               const struct request *r)
{
    sr1_search *both[2] = {*engine, other};
    double weights[2] = {1.0, r->dense_weight};
    sr1_hybrid_options o;
    sr1_status status;

    sr1_hybrid_options_init(&o);
    o.rrf_k = r->rrf_k;
    *engine = NULL;
    status = sr1_search_open_hybrid(engine, both, weights, 2, &o);
    sr1_search_free(both[0]);
    sr1_search_free(both[1]);
    return status;
}

static sr1_status wrap_in_reranker(sr1_search **engine, sr1_reranker *reranker,
                                   const struct request *r)
{
    sr1_search *inner = *engine;
    sr1_rerank_options o;
    sr1_status status;

    sr1_rerank_options_init(&o);
    o.depth = (int32_t)r->rerank_depth;
    *engine = NULL;
    status = sr1_search_open_rerank(engine, inner, reranker, &o);
    sr1_search_free(inner);
    return status;
}

/* ---- services ---- */

static sr1_status open_remote_service(sr1_search **out, const struct request *r,
                                      const sr1_search_http_options *h)
{
    return sr1_search_open_remote(out, r->remote, h);
}

static sr1_status open_opensearch_service(sr1_search **out, const struct request *r,
                                          const sr1_search_http_options *h)
{
    return sr1_search_open_opensearch(out, r->opensearch, h);
}

static sr1_status open_qdrant_service(sr1_search **out, const struct request *r,
                                      const sr1_search_http_options *h)
{
    sr1_embedder *encoder = NULL;
    sr1_status status;

    if (r->encoder == NULL)
        return sr1_set_error(SR1_E_INVALID,
                             "--qdrant needs the model that made the vectors of the "
                             "collection: --encoder MODEL");
    status = open_request_encoder(&encoder, r, r->encoder);
    if (status == SR1_OK)
        status = sr1_search_open_qdrant(out, r->qdrant, encoder, h);
    sr1_embedder_free(encoder);
    return status;
}

static sr1_status open_web_service(sr1_search **out, const struct request *r,
                                   const sr1_search_http_options *h)
{
    return sr1_search_open_web(out, r->web, h);
}

static sr1_status open_configured_engine(sr1_search **out, const struct request *r,
                                         const sr1_search_http_options *h)
{
    (void)h; /* its keys say all */
    return open_config_engine(out, r);
}

static const struct service {
    const char *option, *value;
    size_t of; /* where a request has it */
    sr1_status (*open)(sr1_search **out, const struct request *r,
                       const sr1_search_http_options *h);
} services[] = {
    {"--remote", "URL", offsetof(struct request, remote), open_remote_service},
    {"--opensearch", "URL", offsetof(struct request, opensearch),
     open_opensearch_service},
    {"--qdrant", "URL", offsetof(struct request, qdrant), open_qdrant_service},
    {"--web", "PROVIDER", offsetof(struct request, web), open_web_service},
    {"--config", "FILE", offsetof(struct request, config), open_configured_engine},
};
#define SERVICES (sizeof(services) / sizeof(services[0]))

/* The first one that is asked, from the k-th on. */
static const struct service *find_service(const struct request *r, size_t k)
{
    for (; k < SERVICES; k++)
        if (*(const char *const *)((const char *)r + services[k].of) != NULL)
            return &services[k];
    return NULL;
}

int has_index(const struct request *r)
{
    return find_service(r, 0) == NULL;
}

const char *service_option(const struct request *r)
{
    const struct service *s = find_service(r, 0);

    return s != NULL ? s->option : NULL;
}

const char *service_value(const struct request *r)
{
    const struct service *s = find_service(r, 0);

    return s != NULL ? s->value : NULL;
}

static sr1_status open_service(sr1_search **out, const struct request *r)
{
    sr1_search_http_options h;

    sr1_search_http_options_init(&h);
    h.timeout_s = r->timeout;
    h.key_env = r->key_env;
    h.url = r->web_url;
    h.engine_id = r->google_cx;
    h.fields = r->fields;
    h.vector = r->vector;
    h.id_field = r->id_field;
    h.probe = r->probe;
    return find_service(r, 0)->open(out, r, &h);
}

/* ---- which options go together ---- */

/* Options that say more about what one of others names. */
static const struct {
    const char *option, *names[SERVICES + 1];
} details[] = {
    {"--nprobe", {"--faiss"}},
    {"--ef", {"--faiss"}},
    {"--dense-weight", {"--dense-index"}},
    {"--rrf-k", {"--dense-index"}},
    {"--rerank-depth", {"--reranker"}},
    {"--web-url", {"--web"}},
    {"--google-cx", {"--web"}},
    {"--fields", {"--opensearch", "--qdrant"}},
    {"--vector", {"--qdrant"}},
    {"--id-field", {"--qdrant"}},
    {"--key-env", {"--web", "--remote", "--opensearch", "--qdrant"}},
    {"--timeout", {"--web", "--remote", "--opensearch", "--qdrant"}},
};

/* -1, or the exit code where a detail is given of something that is not. */
static int check_detail(const struct args *a, const char *option,
                        const char *const *names)
{
    char list[80] = "";

    for (size_t k = 0; names[k] != NULL; k++) {
        if (args_is_given(a, names[k]))
            return -1;
        snprintf(list + strlen(list), sizeof(list) - strlen(list), "%s%s",
                 k == 0                 ? ""
                 : names[k + 1] != NULL ? ", "
                                        : " and ",
                 names[k]);
    }
    return args_wrong(a, "%s belongs to %s", option, list);
}

/* A configuration says by keys what these say. */
static int check_config_options(const struct args *a, const struct request *r)
{
    static const struct {
        const char *option, *key;
    } said[] = {{"--dense-index", "search_hybrid"},
                {"--reranker", "search_reranker"},
                {"--encoder", "search_encoder"},
                {"--device", "search_device"},
                {"--index-device", "search_index_device"},
                {"--other-weights", "search_other_weights"}};

    for (size_t i = 0; r->config && i < sizeof(said) / sizeof(said[0]); i++)
        if (args_is_given(a, said[i].option))
            return args_wrong(a, "%s beside --config: set the key %s=... instead",
                              said[i].option, said[i].key);
    return -1;
}

int check_engine_options(const struct args *a, const struct request *r)
{
    static const char *const of_indexes[] = {"--faiss", "--k1", "--b"};
    const struct service *first = find_service(r, 0);
    const struct service *second =
        first != NULL ? find_service(r, (size_t)(first - services) + 1) : NULL;

    if (second != NULL)
        return args_wrong(a, "%s and %s: give one of them", first->option,
                          second->option);
    for (size_t i = 0; i < sizeof(of_indexes) / sizeof(of_indexes[0]); i++)
        if (first != NULL && args_is_given(a, of_indexes[i]))
            return args_wrong(a, "%s and %s: give one of them", first->option,
                              of_indexes[i]);
    for (size_t i = 0; i < sizeof(details) / sizeof(details[0]); i++) {
        int code = args_is_given(a, details[i].option)
                       ? check_detail(a, details[i].option, details[i].names)
                       : -1;

        if (code >= 0)
            return code;
    }
    return check_config_options(a, r);
}

static sr1_status open_first(sr1_search **out, const struct request *r, const char *path)
{
    if (!has_index(r))
        return open_service(out, r);
    return r->faiss != NULL ? open_faiss_file(out, r, path)
                            : open_index_file(out, r, path);
}

sr1_status open_engine(sr1_search **out, const struct request *r, sr1_reranker *reranker,
                       const char *path)
{
    sr1_search *engine = NULL;
    sr1_search *other = NULL;
    sr1_status status = open_first(&engine, r, path);

    if (status == SR1_OK && r->dense_index != NULL) {
        status = open_index_file(&other, r, r->dense_index);
        if (status == SR1_OK)
            status = fuse_engines(&engine, other, r);
    }
    if (status == SR1_OK && reranker != NULL)
        status = wrap_in_reranker(&engine, reranker, r);
    if (status == SR1_OK)
        *out = engine;
    else
        sr1_search_free(engine);
    return status;
}
