/* retrieval/server/wire_write.c - answers as Search-R1's servers give them. A row is
 * emitted as it is stored: it is JSON text already. */
#include "retrieval/server/wire.h"

#include "base/num.h"
#include "retrieval/search/search_engine.h"

#include <math.h>
#include <string.h>

#define ECHO_MAX 1024 /* bytes of a wrong value that are shown again */

/* Length of text[0..n) up to the first character that JSON escapes. */
static size_t plain_run(const char *text, size_t n)
{
    size_t i = 0;

    while (i < n && (unsigned char)text[i] >= 0x20 && text[i] != '"' && text[i] != '\\')
        i++;
    return i;
}

static void add_escape(struct sr1__buf *b, char c)
{
    static const char from[] = "\"\\\b\f\n\r\t";
    static const char to[] = "\"\\bfnrt";
    const char *at = c != '\0' ? strchr(from, c) : NULL;

    if (at != NULL) {
        char pair[2] = {'\\', to[at - from]};

        sr1__buf_add(b, pair, 2);
    } else {
        sr1__buf_fmt(b, "\\u%04x", (unsigned)(unsigned char)c);
    }
}

/* Without the quotes around. */
static void append_escaped(struct sr1__buf *b, const char *text, size_t n)
{
    while (n > 0) {
        size_t run = plain_run(text, n);

        sr1__buf_add(b, text, run);
        if (run < n)
            add_escape(b, text[run++]);
        text += run;
        n -= run;
    }
}

void sr1__wire_text(struct sr1__buf *b, const char *text, size_t n)
{
    sr1__buf_char(b, '"');
    append_escaped(b, text, n);
    sr1__buf_char(b, '"');
}

/* Ten decimals where they are exact: both numbers of the division are, so it rounds as
 * reading does. Else the shortest digits, which take a microsecond. */
void sr1__wire_number(struct sr1__buf *b, double v)
{
    double size = fabs(v);
    char text[32];
    char *p = text + sizeof(text);
    uint64_t units = size < 1e5 ? (uint64_t)(size * 1e10 + 0.5) : 0;
    int decimals = 10;

    if ((double)units / 1e10 != size) {
        sr1__format_real(v, text);
        sr1__buf_str(b, text);
        return;
    }
    for (; decimals > 1 && units % 10 == 0; decimals--)
        units /= 10;
    for (int i = 0; i < decimals; i++, units /= 10)
        *--p = (char)('0' + units % 10);
    *--p = '.';
    do {
        *--p = (char)('0' + units % 10);
        units /= 10;
    } while (units > 0);
    if (v < 0)
        *--p = '-';
    sr1__buf_add(b, p, (size_t)(text + sizeof(text) - p));
}

/* An engine of the caller's may give anything. */
static sr1_status check_hit_row(const sr1_search_hit *hit, size_t n)
{
    struct sr1__pull s;

    sr1__pull_init(&s, (char *)hit->row); /* skipping changes nothing */
    if (sr1__pull_peek(&s) == SR1__PULL_OBJECT) {
        sr1__pull_skip(&s, NULL);
        sr1__pull_end(&s, hit->row + n);
        if (s.error == NULL)
            return SR1_OK;
    }
    return sr1__fail(SR1_E_CALLBACK, "the row of hit '%.100s' is no JSON object",
                     hit->id);
}

/* named: the hit has an id. */
static sr1_status append_hit_row(struct sr1__buf *b, const sr1_search_hit *hit, int named)
{
    if (hit->row != NULL) {
        size_t n = strlen(hit->row);

        SR1__TRY(check_hit_row(hit, n));
        sr1__buf_add(b, hit->row, n);
        return SR1_OK;
    }
    sr1__buf_char(b, '{');
    if (named) {
        sr1__buf_str(b, "\"id\":");
        sr1__wire_text(b, hit->id, strlen(hit->id));
        sr1__buf_char(b, ',');
    }
    sr1__buf_str(b, "\"contents\":");
    sr1__wire_text(b, hit->contents, strlen(hit->contents));
    sr1__buf_char(b, '}');
    return SR1_OK;
}

sr1_status sr1__wire_hits(struct sr1__buf *b, const sr1_search_results *found,
                          size_t query, int scores)
{
    int32_t n = sr1_search_results_hit_count(found, query);
    sr1_search_hit hit = {sizeof(hit)};

    sr1__buf_char(b, '[');
    for (int32_t k = 0; k < n && sr1_search_results_hit(found, query, k, &hit) == SR1_OK;
         k++) {
        if (k > 0)
            sr1__buf_char(b, ',');
        if (scores)
            sr1__buf_str(b, "{\"document\":");
        SR1__TRY(append_hit_row(b, &hit, !sr1__search_hit_unnamed(found, query, k)));
        if (scores) {
            sr1__buf_str(b, ",\"score\":");
            sr1__wire_number(b, hit.score);
            sr1__buf_char(b, '}');
        }
    }
    sr1__buf_char(b, ']');
    return SR1_OK;
}

void sr1__wire_nothing(const struct sr1__retrieve_request *r, struct sr1__buf *answer)
{
    const struct sr1__dialect *d = r->dialect;
    int apart = r->scores && d->apart != NULL;

    sr1__buf_str(answer, apart ? "[" : "");
    sr1__buf_str(answer, d->begin);
    sr1__buf_str(answer, apart ? d->apart : "");
    sr1__buf_str(answer, d->end);
    sr1__buf_str(answer, apart ? "]" : "");
}

void sr1__wire_scores(struct sr1__buf *b, const sr1_search_results *found, size_t query)
{
    sr1_search_hit hit = {sizeof(hit)};

    sr1__buf_char(b, '[');
    for (int32_t k = 0; sr1_search_results_hit(found, query, k, &hit) == SR1_OK; k++) {
        if (k > 0)
            sr1__buf_char(b, ',');
        sr1__wire_number(b, hit.score);
    }
    sr1__buf_char(b, ']');
}

void sr1__wire_problem(struct sr1__buf *b, const struct sr1__wire_problem *p)
{
    sr1__buf_fmt(b, "{\"detail\":[{\"type\":\"%s\",\"loc\":[\"body\"", p->type);
    if (p->field != NULL)
        sr1__buf_fmt(b, ",\"%s\"", p->field);
    if (p->index >= 0)
        sr1__buf_fmt(b, ",%lld", (long long)p->index);
    if (p->inner >= 0)
        sr1__buf_fmt(b, ",%lld", (long long)p->inner);
    if (p->member != NULL)
        sr1__buf_fmt(b, ",\"%s\"", p->member);
    sr1__buf_fmt(b, "],\"msg\":\"%s\",\"input\":", p->text);
    if (p->input != NULL && p->input_size <= ECHO_MAX)
        sr1__buf_add(b, p->input, p->input_size);
    else
        sr1__buf_str(b, "null");
    if (p->context != NULL)
        sr1__buf_fmt(b, ",\"ctx\":%s", p->context);
    sr1__buf_str(b, "}]}");
}

void sr1__wire_detail(struct sr1__buf *b, const char *text)
{
    struct sr1__buf mended;

    sr1__buf_init(&mended, 0);
    sr1__buf_utf8(&mended, text, strlen(text));
    sr1__buf_str(b, "{\"detail\":\"");
    append_escaped(b, sr1__buf_cstr(&mended), mended.len);
    sr1__buf_str(b, "\"}");
    if (b->status == SR1_OK)
        b->status = mended.status;
    sr1__buf_free(&mended);
}
