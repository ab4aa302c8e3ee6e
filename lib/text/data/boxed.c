/* text/data/boxed.c - find the last \boxed{...} of a solution, its braces balanced. */
#include "text/data/boxed.h"

static const char *find_last_text(struct sr1__str text, const char *wanted)
{
    const char *at = text.s, *last = NULL;

    while ((at = memmem(at, (size_t)(text.s + text.n - at), wanted, strlen(wanted)))) {
        last = at;
        at += strlen(wanted);
    }
    return last;
}

/* The brace that closes the first one in [at, end). */
static const char *find_closing_brace(const char *at, const char *end)
{
    size_t open = 0;

    for (; at < end; at++) {
        open += *at == '{';
        if (*at == '}' && --open == 0)
            return at;
    }
    return NULL;
}

int sr1__boxed_in_braces(struct sr1__str text, struct sr1__str *content)
{
    static const char opening[] = "\\boxed{";
    const char *box = find_last_text(text, opening), *close;

    close = box ? find_closing_brace(box, text.s + text.n) : NULL;
    if (!close)
        return 0;
    content->s = box + strlen(opening);
    content->n = (size_t)(close - content->s);
    return 1;
}

int sr1__boxed(struct sr1__str text, struct sr1__str *content)
{
    static const char opening[] = "\\boxed ";
    const char *box = find_last_text(text, opening), *dollar;

    if (!box)
        return find_last_text(text, "\\boxed") == find_last_text(text, "\\boxed{") &&
               sr1__boxed_in_braces(text, content);
    content->s = box + strlen(opening);
    content->n = (size_t)(text.s + text.n - content->s);
    dollar = memchr(content->s, '$', content->n);
    if (dollar)
        content->n = (size_t)(dollar - content->s);
    return 1;
}
