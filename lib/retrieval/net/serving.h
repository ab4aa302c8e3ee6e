/* retrieval/net/serving.h - new weights for generation servers.
 *
 * An engine is a table of the steps by which one kind of server takes weights:
 *
 *     vllm    /pause, /collective_rpc (reload_weights), /reset_prefix_cache, /resume;
 *             needs VLLM_SERVER_DEV_MODE=1. By NCCL /init_weight_transfer_engine once,
 *             then /start_weight_update, /update_weights, /finish_weight_update
 *     sglang  /pause_generation, /update_weights_from_disk, /flush_cache,
 *             /continue_generation
 *     url     one POST of {"model_path": FOLDER} to an address (openai_sync_url)
 *
 * Routes as vllm/entrypoints/serve/dev and sglang/srt/entrypoints/http_server.py have
 * them. A push runs on all servers side by side, each within weight_sync_timeout. */
#ifndef SR1__NET_SERVING_H
#define SR1__NET_SERVING_H

#include "base/json.h"
#include "retrieval/net/http_client.h"
#include "retrieval/net/server_pool.h"

#include <stdatomic.h>

/* One tensor of those that a link sends, in torch's words. Borrowed. */
struct sr1__serving_tensor {
    const char *name, *dtype; /* "bfloat16", ... */
    const int64_t *shape;     /* [n_dims] */
    int32_t n_dims;
};

/* How a link's calls are ended: they return by the deadline (sr1__now()), or soon after
 * the flag is set. */
struct sr1__serving_wait {
    double deadline;
    const atomic_int *given_up;
};

#define SR1__SERVING_ID_BYTES 128

/* A way beside the requests: this process and the workers of each server are a group, by
 * which tensors are sent (train/weight_link.h). Threads call it for different servers at
 * once. */
struct sr1__serving_link {
    void *self;
    const struct sr1__serving_tensor *tensors; /* [n], in the order of sending */
    size_t n;
    /* Of the weights that this group had last; -1: there is no group. */
    int64_t (*version)(const void *self, size_t server);
    /* What the server is told, by which its workers find the group. */
    sr1_status (*make_id)(void *self, uint8_t id[SR1__SERVING_ID_BYTES]);
    /* Join the group of this process and `workers` others, as rank 0. */
    sr1_status (*open)(void *self, size_t server, const uint8_t *id, int32_t workers,
                       const struct sr1__serving_wait *wait);
    sr1_status (*send)(void *self, size_t server, const struct sr1__serving_wait *wait);
    void (*close)(void *self, size_t server); /* no group is fine */
};

/* What the servers are to take. Texts are borrowed. */
struct sr1__serving_weights {
    const char *folder;                   /* whole path; NULL with a link */
    const struct sr1__serving_link *link; /* NULL: they load the folder */
    int64_t version;                      /* steps that they have seen */
    const char *adapter;     /* name of a LoRA adapter; NULL: a whole model */
    const char *old_adapter; /* is unloaded then; NULL: none */
};

/* One server in one push. */
struct sr1__serving_call {
    const struct sr1__serving_ops *ops;
    const struct sr1__serving_weights *weights;
    struct sr1__http *http;
    const char *key;           /* NULL: none */
    const char *authorization; /* header; NULL: none */
    const char *pause_mode;    /* "wait", "keep", "abort" */
    const char *sync_url;      /* of the engine url */
    const char *origin;        /* for messages */
    size_t server;             /* its number */
    char *root;                /* address without /v1 */
    double deadline;           /* sr1__now() */
    int32_t code;              /* HTTP's, of the last answer; 0: none */
    struct sr1__error error;   /* why the push failed */
};

/* Each step fails with a text of its own. Optional slots may be NULL. */
struct sr1__serving_ops {
    const char *name;
    const char *remedy; /* when no server took the weights */
    /* The server answers and has the routes of the other steps. */
    sr1_status (*probe)(struct sr1__serving_call *c);
    sr1_status (*pause)(struct sr1__serving_call *c);
    /* Load weights->folder in place of the present weights. */
    sr1_status (*update)(struct sr1__serving_call *c);
    /* Before the pause: weights->link has a group with the server's workers. */
    sr1_status (*join)(struct sr1__serving_call *c);
    /* Take what weights->link sends in place of the present weights. */
    sr1_status (*receive)(struct sr1__serving_call *c);
    /* Forget the prefix cache, which is of the old weights. */
    sr1_status (*flush)(struct sr1__serving_call *c);
    /* The server says that it has weights->version, if it says any. */
    sr1_status (*version)(struct sr1__serving_call *c);
    sr1_status (*resume)(struct sr1__serving_call *c);
    /* Load weights->folder as the adapter weights->adapter, unload the old one. */
    sr1_status (*adapt)(struct sr1__serving_call *c);
    /* The name by which requests then ask for it; base: the server's model. */
    sr1_status (*name_adapter)(struct sr1__buf *name, const char *base,
                               const char *adapter);
};

extern const struct sr1__serving_ops sr1__serving_vllm;
extern const struct sr1__serving_ops sr1__serving_sglang;
extern const struct sr1__serving_ops sr1__serving_url;

/* GET root + path; *answer: its JSON, or NULL. Free with json_decref. SR1_E_NETWORK also
 * for {"success": false}. */
sr1_status sr1__serving_get(struct sr1__serving_call *c, const char *path,
                            json_t **answer);
/* POST to root + path, or to the whole URL `path`; takes over body, NULL: none. */
sr1_status sr1__serving_post(struct sr1__serving_call *c, const char *path, json_t *body);
/* The same, and meanwhile work(c, wait, arg) here, which the request's failure gives up.
 * The status is work's, unless it was given up. */
typedef sr1_status (*sr1__serving_work)(struct sr1__serving_call *c,
                                        const struct sr1__serving_wait *wait, void *arg);
sr1_status sr1__serving_post_beside(struct sr1__serving_call *c, const char *path,
                                    json_t *body, sr1__serving_work work, void *arg);
/* The member `weight_version` of an answer is that of the push; without it nothing is
 * said. */
sr1_status sr1__serving_check_version(const struct sr1__serving_call *c,
                                      const json_t *answer);

/* Give the weights to all servers of the pool (size n). Those that took them generate,
 * taken[i] = 1; the others are left out until they have. SR1_OK if one took them; else
 * the error names every server. Messages begin with the engine. */
sr1_status sr1__serving_push(struct sr1__server_pool *pool, const sr1_config *c,
                             const struct sr1__serving_weights *weights, uint8_t *taken);

#endif
