/* tokenizer/nfc.h - normal form C as the reference computes it. */
#ifndef SR1__TOKENIZER_NFC_H
#define SR1__TOKENIZER_NFC_H

#include "base/buf.h"

/* Whether text (valid UTF-8) is surely in normal form C; 0: maybe not. Fast. */
int sr1__nfc_quick(const char *text, size_t n);

/* The normal form of text (valid UTF-8), appended to out. Time n log n at most. */
sr1_status sr1__nfc(const char *text, size_t n, struct sr1__buf *out);

#endif
