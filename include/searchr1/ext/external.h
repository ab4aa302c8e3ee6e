/* searchr1/ext/external.h - a program of yours, in any language, as reward, environment
 * or search engine: it reads requests and writes answers, a line of JSON each, over its
 * standard streams (docs/formats.md#programs-of-your-own has the messages).
 *
 * The program is started with the first request, with the rights of this process
 * (docs/security.md), and ended, with the programs that it has started itself, when what
 * it serves is freed or this process dies. When it is late, ends, or writes nonsense,
 * that is an outage, never a score or an observation: the trajectory is left out as after
 * a failed search, and the next request starts the program anew. (One that is late but
 * wrote a line during that request, an answer to another for example, is only busy, and
 * is not started anew.) After three outages in a row it is left alone for ten seconds.
 * The time of a request includes what the program needs to start and to read it.
 *
 * A path that ends in .py and may not be executed is run by python3.
 *
 * A path that ends in .so is no program: a shared object is loaded into this process, and
 * stays. It exports a table of functions, `const sr1_search_ops search_engine`,
 * `const sr1_env_ops environment` or `const sr1_reward_ops NAME`, that is used as
 * sr1_search_new, sr1_env_new and sr1_reward_set_add use one, with self NULL; what is
 * said above of time and outages does not apply. SR1_E_IO: it cannot be loaded;
 * SR1_E_NOT_FOUND: it exports no such table.
 *
 * Ownership, errors and threads as in the headers of what it serves.
 *
 * An extension: usable and tested, but its names may still change before 1.0
 * (docs/api.md). */
#ifndef SEARCHR1_EXT_EXTERNAL_H
#define SEARCHR1_EXT_EXTERNAL_H

#include <searchr1/env.h>
#include <searchr1/reward.h>
#include <searchr1/search.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sr1_external_options {
    size_t struct_size; /* set by sr1_external_options_init */
    double timeout_s;   /* of one request; 0: 600 */
} sr1_external_options;

/* Set struct_size, and every other field to its default. NULL is fine. */
SR1_API void sr1_external_options_init(sr1_external_options *options);

/* Open a search engine whose queries a program answers, all of a call in one request.
 * options may be NULL. SR1_E_IO: there is no such file. Caller frees with
 * sr1_search_free. */
SR1_API sr1_status sr1_search_open_external(sr1_search **out, const char *path,
                                            const sr1_external_options *options);

/* Open an environment whose actions a program answers, all that wait in one request; it
 * is told of trajectories that begin and finish. One that was started anew is not asked
 * about trajectories that began before: their actions are outages. options and
 * env_options may be NULL. SR1_E_IO: there is no such file. Caller frees with
 * sr1_env_free. */
SR1_API sr1_status sr1_env_open_external(sr1_env **out, const char *path,
                                         const sr1_env_options *env_options,
                                         const sr1_external_options *options);

/* Add a reward that a program computes, all trajectories of a call in one request, times
 * weight. name: what the set and the program call it. A trajectory that it does not score
 * is left out. options may be NULL. SR1_E_IO: there is no such file; else as
 * sr1_reward_set_add. */
SR1_API sr1_status sr1_reward_set_add_external(sr1_reward_set *set, const char *path,
                                               const char *name, double weight,
                                               const sr1_external_options *options);

#ifdef __cplusplus
}
#endif
#endif
