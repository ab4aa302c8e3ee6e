/* text/tokenizer/nfc.h - normal forms as the reference computes them. */
#ifndef SR1__TOKENIZER_NFC_H
#define SR1__TOKENIZER_NFC_H

#include "base/buf.h"

enum sr1__form { SR1__NFC, SR1__NFD, SR1__NFKC, SR1__NFKD };

/* Whether text (valid UTF-8) is surely in normal form C; 0: maybe not. Fast. */
int sr1__nfc_quick(const char *text, size_t n);

/* A normal form of text (valid UTF-8), appended to out. Time n log n at most. */
sr1_status sr1__normal_form(enum sr1__form form, const char *text, size_t n,
                            struct sr1__buf *out);
sr1_status sr1__nfc(const char *text, size_t n, struct sr1__buf *out);

#endif
