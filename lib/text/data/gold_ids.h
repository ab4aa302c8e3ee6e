/* text/data/gold_ids.h - the ids of the documents that answer a row's question. */
#ifndef SR1__DATA_GOLD_IDS_H
#define SR1__DATA_GOLD_IDS_H

#include "base/json.h"

#define SR1__GOLD_IDS_FIELD "gold_ids"
#define SR1__GOLD_IDS_MAX 4096 /* of a row */

/* A zeroed one is empty. */
struct sr1__gold_ids {
    char **ids; /* [n] each once, sorted by strcmp */
    size_t n;
};

/* Read the member of a row at `field`, a name or a path with dots, into *out, which is
 * empty. The member is an id (text or a number), a list of ids, a list of lists that
 * begin with an id (HotpotQA's and 2WikiMultihopQA's supporting_facts), a list of objects
 * with id, _id, docid, passage_id, psg_id or title (DPR's positive_ctxs), or an object
 * whose title is a list of ids (HotpotQA on the hub). A missing or null member, a blank
 * text and an empty list have no id. Caller frees with sr1__gold_ids_free, also after a
 * failure. SR1_E_PARSE names the field; SR1_E_LIMIT: more than SR1__GOLD_IDS_MAX ids. */
sr1_status sr1__gold_ids_read(struct sr1__gold_ids *out, const json_t *row,
                              const char *field);

/* Where id is among them; n: it is none of them. */
size_t sr1__gold_ids_find(const struct sr1__gold_ids *g, const char *id);

void sr1__gold_ids_free(struct sr1__gold_ids *g); /* leaves it empty */

#endif
