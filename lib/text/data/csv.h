/* text/data/csv.h - RFC 4180: commas, "quoted ""fields""", records that end in LF or
 * CRLF; and the same with tabs in place of commas. */
#ifndef SR1__DATA_CSV_H
#define SR1__DATA_CSV_H

#include "base/buf.h"

#define SR1__CSV_MAX_FIELD ((size_t)1 << 22)
#define SR1__CSV_MAX_FIELDS 1024

/* One record. Field i is text.data[ends[i-1], ends[i]) (from 0 for the first). */
struct sr1__csv_record {
    char comma; /* ',' unless it is set after init */
    struct sr1__buf text;
    size_t ends[SR1__CSV_MAX_FIELDS];
    size_t n;
    size_t n_quoted; /* fields that stood in quotes */
};

void sr1__csv_record_init(struct sr1__csv_record *r);
void sr1__csv_record_free(struct sr1__csv_record *r);
const char *sr1__csv_field(const struct sr1__csv_record *r, size_t i, size_t *len);

/* Read the record at s[0..n); *used is its length, the line end included. Errors call the
 * place name ("qa.csv:17"). */
sr1_status sr1__csv_parse(struct sr1__csv_record *r, const char *s, size_t n,
                          size_t *used, const char *name);

/* Append one field, quoted where it must be, after a comma unless it is the first. */
void sr1__csv_add(struct sr1__buf *b, const char *field, size_t n, int first);
/* End the record (CRLF, as the RFC has it). */
void sr1__csv_end(struct sr1__buf *b);

#endif
