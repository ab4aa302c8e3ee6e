/* text/tokenizer/added.h - added tokens found in text: leftmost, then longest. */
#ifndef SR1__TOKENIZER_ADDED_H
#define SR1__TOKENIZER_ADDED_H

#include "base/error.h"

#define SR1__ADDED_LEN_MAX 1024

/* How a token is found: it may be special, and take the white space beside it. */
enum { SR1__ADDED_SPECIAL = 1, SR1__ADDED_LSTRIP = 2, SR1__ADDED_RSTRIP = 4 };

/* A trie over bytes; node 0 is the root, 0 also means "none". */
struct sr1__added_node {
    uint32_t child;   /* first */
    uint32_t sibling; /* next */
    int32_t id;       /* of the token that ends here; -1 */
    unsigned char byte;
    unsigned char flags; /* SR1__ADDED_... of that token */
};

struct sr1__added {
    struct sr1__added_node *nodes;
    uint32_t n;
    uint32_t cap;
    unsigned char first[256]; /* bytes that begin a token */
    uint32_t longest;         /* bytes of the longest token */
};

void sr1__added_free(struct sr1__added *a);
/* text[0..n) not empty; the same text twice is refused. */
sr1_status sr1__added_insert(struct sr1__added *a, const char *text, size_t n, int32_t id,
                             int flags);
/* The token that is exactly text[0..n), or -1. */
int32_t sr1__added_exact(const struct sr1__added *a, const char *text, size_t n);

struct sr1__added_match {
    size_t at;
    size_t n;
    int32_t id;
    int flags;
};
/* The first match in text[from..n); 0 when there is none. */
int sr1__added_find(const struct sr1__added *a, const char *text, size_t n, size_t from,
                    struct sr1__added_match *m);

#endif
