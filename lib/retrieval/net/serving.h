/* retrieval/net/serving.h - new weights for generation servers.
 *
 * An engine is a table of the steps by which one kind of server takes weights:
 *
 *     vllm    /pause, /collective_rpc (reload_weights), /reset_prefix_cache, /resume;
 *             needs VLLM_SERVER_DEV_MODE=1
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

/* What the servers are to take. Texts are borrowed. */
struct sr1__serving_weights {
    const char *folder;      /* whole path */
    int64_t version;         /* steps that they have seen */
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
