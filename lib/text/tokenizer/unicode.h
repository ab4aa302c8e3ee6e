/* text/tokenizer/unicode.h - character classes and lower case as in the reference. */
#ifndef SR1__TOKENIZER_UNICODE_H
#define SR1__TOKENIZER_UNICODE_H

#include "base/buf.h"

int sr1__char_is_space(uint32_t cp); /* Unicode's White_Space */
int sr1__char_is_han(uint32_t cp);   /* the blocks BERT puts spaces around */
int sr1__char_is_word(uint32_t cp);  /* \w */
/* What BERT's cleaning removes; tab, newline and carriage return are not among them. */
int sr1__char_is_bert_removed(uint32_t cp);
int sr1__char_is_bert_mark(uint32_t cp);
int sr1__char_is_bert_punctuation(uint32_t cp);
int sr1__char_is_accent(uint32_t cp); /* what StripAccents removes */
/* Characters that the reference's forms NFD, NFKC and NFKD leave unchanged. */
int sr1__char_is_older_form(uint32_t cp);

/* Append a character, as it is or in lower case. */
void sr1__put_char(struct sr1__buf *out, uint32_t cp);
void sr1__put_lower(struct sr1__buf *out, uint32_t cp);

/* Bytes of the first grapheme cluster of text[0..n), n > 0. */
size_t sr1__grapheme_length(const char *text, size_t n);

/* Bytes of white space at the beginning and at the end of text. */
size_t sr1__space_before(const char *text, size_t n); /* that text ends with */
size_t sr1__space_after(const char *text, size_t n);  /* that text begins with */

#endif
