/* retrieval/search/faiss_bridge.h - the bridge to FAISS, loaded when it is first asked
 * for. */
#ifndef SR1__SEARCH_FAISS_BRIDGE_H
#define SR1__SEARCH_FAISS_BRIDGE_H

#include "base/error.h"
#include "retrieval/faiss/bridge.h"

/* It stays loaded. SR1_E_UNSUPPORTED says what to install. From any thread. */
sr1_status sr1__faiss_bridge(const struct sr1__faiss_table **out);

/* The status of an entry of the table as ours; `doing` leads the text. */
sr1_status sr1__faiss_status(sr1_status status, const struct sr1__faiss_error *error,
                             const char *doing);

#endif
