/* environment/env/tool_env.h - the environment that answers actions by calling tools. */
#ifndef SR1__ENV_TOOL_ENV_H
#define SR1__ENV_TOOL_ENV_H

#include "base/json.h"
#include "environment/env/document_formats.h"

#include <searchr1/env.h>

struct sr1__protocol;
struct sr1__tool;
struct sr1__tool_env;

/* A new one without tools, with ops to call it by. Freed by ops->destroy. protocol: how
 * calls and descriptions of tools are written. */
sr1_status sr1__tool_env_new(struct sr1__tool_env **out,
                             const struct sr1__protocol *protocol, sr1_env_ops *ops);

/* As sr1_env_add_tool; shown as for sr1__tool_new. */
sr1_status sr1__tool_env_add(struct sr1__tool_env *e, const sr1_tool_ops *ops,
                             const json_t *shown, void *self);

/* SR1_ENV_* for the tools it has now. */
int32_t sr1__tool_env_flags(const struct sr1__tool_env *e);

/* Their names, a new reference; NULL without memory. */
json_t *sr1__tool_env_names(const struct sr1__tool_env *e);

/* As sr1_env_tools. */
const char *sr1__tool_env_text(const struct sr1__tool_env *e);

/* Is this the self of ops? Else NULL. */
struct sr1__tool_env *sr1__tool_env_of(const sr1_env_ops *ops, void *self);

/* The built-in tool wiki_search on an engine, which is retained. format writes its hits;
 * top_k is their number unless the call sets it. */
sr1_status sr1__tool_env_add_search(struct sr1__tool_env *e, sr1_search *search,
                                    const struct sr1__document_format *format,
                                    int32_t top_k);

/* The tool that was added last. */
struct sr1__tool *sr1__tool_env_last(struct sr1__tool_env *e);

/* Is the action a call that is better made together with others of its tool? */
int32_t sr1__tool_env_can_batch(const struct sr1__tool_env *e, const char *text,
                                size_t len);

#endif
