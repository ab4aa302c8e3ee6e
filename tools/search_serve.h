/* search_serve.h - the command `sr1-search serve`. */
#ifndef SR1_TOOLS_SEARCH_SERVE_H
#define SR1_TOOLS_SEARCH_SERVE_H

#include <searchr1/server.h>

/* Serve an index until Ctrl-C or SIGTERM. engine is borrowed; path is shown. Returns the
 * exit code. */
int serve_engine(sr1_search *engine, const char *path, const sr1_server_options *options);

#endif
