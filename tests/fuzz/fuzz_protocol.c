/* fuzz_protocol.c - the scanner fed in any pieces finds what a parse of the whole text
 * finds.
 *
 * The first byte seeds the cuts, the second bounds the content; the rest is the text. */
#include "environment/env/protocol.h"

#include <stdlib.h>
#include <string.h>

static void check(int ok)
{
    if (!ok)
        abort();
}

static size_t next_cut(uint32_t *seed, size_t left)
{
    size_t n;

    *seed = *seed * 1664525u + 1013904223u;
    n = 1 + (*seed >> 24) % 7;
    return n < left ? n : left;
}

/* Feed text in pieces; returns the event and how many bytes were taken. */
static int32_t feed(struct sr1__scanner *s, const char *text, size_t len, uint32_t seed,
                    size_t *taken)
{
    int32_t event = SR1__EVENT_NONE;
    size_t used;

    for (*taken = 0; *taken < len && event == SR1__EVENT_NONE; *taken += used) {
        size_t n = next_cut(&seed, len - *taken);

        check(sr1__scanner_feed(s, text + *taken, n, &used, &event) == SR1_OK);
        check(used == n || event != SR1__EVENT_NONE);
    }
    return event;
}

/* What of a message without an event is an answer already. */
static int find_partial(const struct sr1__protocol *p, const char *text, size_t len,
                        struct sr1__text_range *answer)
{
    return p->answers ? sr1__protocol_message_answer(p, text, len, answer)
                      : sr1__protocol_partial_answer(p, text, len, answer);
}

static void check_partial(const struct sr1__protocol *p, const struct sr1__scanner *s,
                          const char *text, size_t len)
{
    struct sr1__text_range whole = {0, 0};
    size_t n;
    const char *answer = sr1__scanner_partial_answer(s, &n);

    if (!find_partial(p, text, len, &whole) || s->seen[1] > SR1__MESSAGE_MAX)
        check(n == 0);
    else
        check(n == whole.len && memcmp(answer, text + whole.begin, n) == 0);
}

static void check_split(const struct sr1__protocol *p, const char *text, size_t len)
{
    size_t begin, n;

    if (sr1__observation_split(p, text, len, &begin, &n) == SR1_OK)
        check(begin <= len && n <= len - begin);
}

static void check_protocol(const struct sr1__protocol *p, const uint8_t *data,
                           size_t size)
{
    struct sr1__text_range content = {0, 0};
    struct sr1__scanner s;
    const char *text = (const char *)data + 2;
    size_t max, len, taken, end = 0, n;
    const char *found;
    int32_t event;

    len = size - 2;
    max = 1 + data[1];
    sr1__scanner_init(&s, p, max);
    event = feed(&s, text, len, data[0], &taken);
    if (event == SR1__EVENT_NONE && !p->message)
        event = sr1__scanner_end(&s);
    check(event == sr1__protocol_first_event(p, text, len, max, &content, &end));
    found = sr1__scanner_text(&s, &n);
    if (event == SR1__EVENT_NONE)
        check_partial(p, &s, text, len);
    else
        check(taken == end && n == content.len &&
              memcmp(found, text + content.begin, n) == 0);
    check_split(p, text, len);
    sr1__scanner_free(&s);
}

/* A message of several actions holds the same ones, however it is cut. */
static void check_several(const struct sr1__protocol *p, const uint8_t *data, size_t size)
{
    struct sr1__scanner pieces, whole;
    const char *text = (const char *)data + 2;
    size_t taken[2];
    int32_t event;

    sr1__scanner_init(&pieces, p, 1 + data[1]);
    sr1__scanner_init(&whole, p, 1 + data[1]);
    pieces.max_calls = whole.max_calls = 1 + data[0] % SR1__MAX_CALLS;
    (void)feed(&pieces, text, size - 2, data[0], &taken[0]);
    check(sr1__scanner_feed(&whole, text, size - 2, &taken[1], &event) == SR1_OK);
    check(taken[0] == taken[1]);
    check(sr1__scanner_end(&pieces) == sr1__scanner_end(&whole));
    check(pieces.n_calls == whole.n_calls && pieces.n_calls <= pieces.max_calls);
    for (int32_t i = 0; i < pieces.n_calls; i++) {
        size_t n[2];
        const char *a = sr1__scanner_call(&pieces, i, &n[0]);
        const char *b = sr1__scanner_call(&whole, i, &n[1]);

        check(n[0] == n[1] && n[0] <= pieces.max && memcmp(a, b, n[0]) == 0);
    }
    sr1__scanner_free(&pieces);
    sr1__scanner_free(&whole);
}

/* The published rules: a turn ends where its cut lies, and is then parsed whole. */
static void check_search_r1_compat(const struct sr1__protocol *p, const uint8_t *data,
                                   size_t size)
{
    struct sr1__text_range content = {0, 0};
    struct sr1__scanner s;
    const char *text = (const char *)data + 2;
    size_t taken, n;
    const char *found;
    int32_t event, whole;

    sr1__scanner_init(&s, p, 0);
    event = feed(&s, text, size - 2, data[0], &taken);
    whole = sr1__protocol_first_event(p, text, taken, 0, &content, NULL);
    found = sr1__scanner_text(&s, &n);
    check(event == whole || (event == SR1__EVENT_VOID && whole == SR1__EVENT_NONE));
    if (event == whole && event != SR1__EVENT_NONE)
        check(n == content.len && memcmp(found, text + content.begin, n) == 0);
    check_split(p, text, size - 2);
    sr1__scanner_free(&s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    for (size_t i = 0; size >= 2 && sr1__protocol_name(i) != NULL; i++) {
        const struct sr1__protocol *p = sr1__protocol_find(sr1__protocol_name(i));

        if (p->search_r1_compat)
            check_search_r1_compat(p, data, size);
        else
            check_protocol(p, data, size);
        if (p->several)
            check_several(p, data, size);
    }
    return 0;
}
