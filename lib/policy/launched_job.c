/* policy/launched_job.c - see launched_job.h. */
#include "policy/launched_job.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/rng.h"
#include "config/config.h"
#include "dist/nccl_bridge.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- what all ranks have to have in common ---- */

/* Append " learning_rate is 0.001 on rank 0 and 0.0001 on rank 1". */
static void add_difference(const char *key, const json_t *first, const json_t *other,
                           int32_t rank, struct sr1__buf *text)
{
    struct sr1__buf a, b;

    sr1__buf_init(&a, 0);
    sr1__buf_init(&b, 0);
    (void)sr1__json_dump(first, 0, &a);
    (void)sr1__json_dump(other, 0, &b);
    sr1__buf_fmt(text, "%s %s is %.80s on rank 0 and %.80s on rank %" PRId32,
                 text->len ? ";" : "", key, sr1__buf_cstr(&a), sr1__buf_cstr(&b), rank);
    sr1__buf_free(&a);
    sr1__buf_free(&b);
}

/* Each member that differs, of objects in them likewise. */
static void list_differences(json_t *first, json_t *other, int32_t rank,
                             struct sr1__buf *text)
{
    const char *key;
    json_t *value;

    json_object_foreach(first, key, value)
    {
        json_t *theirs = json_object_get(other, key);

        if (json_equal(value, theirs) || text->len > 600)
            continue;
        if (json_is_object(value) && json_is_object(theirs))
            list_differences(value, theirs, rank, text);
        else
            add_difference(key, value, theirs, rank, text);
    }
    json_object_foreach(other, key, value)
    {
        if (!json_object_get(first, key) && text->len <= 600)
            add_difference(key, NULL, value, rank, text);
    }
}

static json_t *parse_gathered(const struct sr1__gathered *g, int32_t rank)
{
    size_t n;
    const char *bytes = sr1__gathered_of(g, rank, &n);
    json_t *object = NULL;

    (void)sr1__json_parse(&object, bytes, n, "what a rank has");
    return object;
}

/* Which members differ, of the objects of all ranks. */
static sr1_status compare_gathered(const char *what, const struct sr1__gathered *g,
                                   int32_t size)
{
    json_t *first = parse_gathered(g, 0);
    struct sr1__buf text;
    sr1_status st = SR1_OK;

    sr1__buf_init(&text, 0);
    for (int32_t rank = 1; rank < size; rank++) {
        json_t *other = parse_gathered(g, rank);

        list_differences(first, other, rank, &text);
        json_decref(other);
    }
    if (text.len)
        st = sr1__fail(SR1_E_STATE, "%s differs:%.900s", what, sr1__buf_cstr(&text));
    sr1__buf_free(&text);
    json_decref(first);
    return st;
}

sr1_status sr1__job_compare(struct sr1__dist *d, const char *what, sr1_status st,
                            const char *json)
{
    struct sr1__gathered g = {0};

    if (!d)
        return st;
    st = sr1__dist_gather(d, what, st, json, st == SR1_OK ? strlen(json) : 0, &g);
    if (st == SR1_OK)
        st = compare_gathered(what, &g, sr1__dist_size(d));
    sr1__gathered_free(&g);
    return st;
}

static sr1_status compare_config(struct sr1__dist *d, const sr1_config *c)
{
    const char *version = sr1_version();
    char *text = NULL;
    sr1_status st;

    SR1__TRY(sr1__dist_same(d, "the library's version",
                            sr1__hash64(version, strlen(version), 0)));
    st = sr1_config_to_json(c, &text);
    st = sr1__job_compare(d, "the configuration", st, text);
    sr1_free(text);
    return st;
}

/* Processes of one machine divide its processors, unless the key says otherwise. */
static sr1_status divide_threads(const struct sr1__launch *l, sr1_config *c)
{
    long all = sysconf(_SC_NPROCESSORS_ONLN), each = all / l->local_world_size;
    char text[24];

    if (sr1__config_int(c, "threads") != 0)
        return SR1_OK;
    snprintf(text, sizeof(text), "%ld", each > 0 ? each : 1);
    return sr1_config_set(c, "threads", text);
}

/* GPUs that CUDA_VISIBLE_DEVICES names; 0: it is not set. A launcher that binds each
 * process to its own GPU names one. */
static int32_t count_visible_gpus(void)
{
    const char *list = getenv("CUDA_VISIBLE_DEVICES");
    int32_t n = 1;

    if (!list || !*list)
        return 0;
    for (; *list; list++)
        n += *list == ',';
    return n;
}

/* Each process of a machine has a GPU of its own, unless the key names one. */
static sr1_status choose_gpu(const struct sr1__launch *l, sr1_config *c)
{
    sr1__device device = SR1__CUDA;
    char text[24];

    if (sr1__config_is(c, "device", "auto"))
        SR1__TRY(sr1__device_resolve("auto", &device));
    else if (!sr1__config_is(c, "device", "cuda"))
        return SR1_OK;
    if (device < SR1__CUDA || device >= SR1__NAMED)
        return SR1_OK;
    snprintf(text, sizeof(text), "cuda:%" PRId32,
             count_visible_gpus() == 1 ? 0 : l->local_rank);
    return sr1_config_set(c, "device", text);
}

sr1_status sr1__job_config(const struct sr1__launch *l, const sr1_config *c,
                           sr1_config **out)
{
    sr1_config *own = NULL;
    sr1_status st = sr1_config_copy(&own, c);

    if (st == SR1_OK && l->local_world_size > 1)
        st = divide_threads(l, own);
    if (st == SR1_OK && l->world_size > 1)
        st = choose_gpu(l, own);
    if (st == SR1_OK)
        *out = own;
    else
        sr1_config_free(own);
    return st;
}

/* ---- the meeting ---- */

sr1_status sr1__job_read(struct sr1__launch *out, const sr1_config *c)
{
    *out = (struct sr1__launch){.world_size = 1, .local_world_size = 1, .launcher = ""};
    if (sr1__config_is(c, "distributed_backend", "none"))
        return SR1_OK;
    return sr1__launch_read(out, NULL, NULL);
}

/* Tensors go from GPU to GPU, if there is what that needs. */
static sr1_status choose_nccl(const struct sr1__launch *l, const sr1_config *c,
                              struct sr1__dist_options *o)
{
    sr1_config *own = NULL;
    sr1_status st;

    if (!sr1__config_is(c, "distributed_backend", "nccl"))
        return SR1_OK;
    SR1__TRY(sr1__nccl_check());
    SR1__TRY(sr1__job_config(l, c, &own));
    st = sr1__device_resolve(sr1__config_str(own, "device"), &o->device);
    sr1_config_free(own);
    o->backend = "nccl";
    o->reduces = !sr1__config_bool(c, "full_determinism");
    return st;
}

sr1_status sr1__job_meet(struct sr1__dist **out, const struct sr1__launch *l,
                         const sr1_config *c, int trains)
{
    struct sr1__dist_options o = {
        .backend = "gloo",
        .limit = sr1__config_real(c, "distributed_timeout"),
        .patience = sr1__config_real(c, "rollout_timeout"),
        .debug = sr1__config_bool(c, "distributed_debug"),
    };

    if (trains)
        SR1__TRY(choose_nccl(l, c, &o));
    SR1__TRY(sr1__dist_open(out, l, &o));
    return compare_config(*out, c);
}

/* ---- the handle ---- */

static sr1_status fill_ranks(sr1_ranks *r, const sr1_config *config)
{
    SR1__TRY(sr1_config_copy(&r->config, config));
    SR1__TRY(sr1__job_read(&r->launch, config));
    if (r->launch.world_size == 1)
        return SR1_OK;
    return sr1__job_meet(&r->dist, &r->launch, config, 0);
}

sr1_status sr1_ranks_open(sr1_ranks **out, const sr1_config *config)
{
    sr1_ranks *r;

    SR1__REQUIRE(out && config, "ranks: out and config");
    SR1__CALLOC(r, 1, "ranks");
    SR1__RETURN_NEW(out, r, fill_ranks(r, config), sr1_ranks_free);
}

void sr1_ranks_free(sr1_ranks *r)
{
    if (!r)
        return;
    sr1__dist_free(r->dist);
    sr1_config_free(r->config);
    sr1__free(r);
}

int32_t sr1_ranks_rank(const sr1_ranks *r)
{
    return sr1__dist_rank(sr1__ranks_dist(r));
}

int32_t sr1_ranks_size(const sr1_ranks *r)
{
    return sr1__dist_size(sr1__ranks_dist(r));
}

sr1_status sr1_ranks_config(const sr1_ranks *r, sr1_config **out)
{
    SR1__REQUIRE(r && out, "ranks: ranks and out");
    return sr1__job_config(&r->launch, r->config, out);
}

sr1_status sr1_ranks_agree(sr1_ranks *r, sr1_status status)
{
    SR1__REQUIRE(r, "ranks");
    if (status > 0)
        return sr1__fail(SR1_E_INVALID, "ranks: %d is no status", (int)status);
    if (status != SR1_OK && sr1_last_error()[0] == '\0')
        (void)sr1__fail(status, "a call of the program failed without a text");
    return sr1__dist_agree(r->dist, "opening", status);
}
