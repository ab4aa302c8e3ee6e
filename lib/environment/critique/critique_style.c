/* environment/critique/critique_style.c - templates in place of the built-in prompts. */
#include "environment/critique/critique_style.h"

#include "base/mem.h"

static const char *const critique_places[SR1__CRITIQUE_PLACES] = {"problem", "answer",
                                                                  "hint"};
static const char *const solve_places[] = {"problem"};

/* A template that is built in stays NULL. */
static sr1_status load_style_template(struct sr1__prompt_template **out, const char *path,
                                      const char *const *places, size_t n)
{
    if (!path || !*path)
        return SR1_OK;
    SR1__TRY(sr1__prompt_template_load(out, path, places, n));
    return sr1__prompt_template_needs_place(*out, path, places[0]);
}

sr1_status sr1_critique_style_open(sr1_critique_style **out, const char *critique,
                                   const char *solve)
{
    struct sr1_critique_style *s;
    sr1_status st;

    if (!out)
        return sr1__fail(SR1_E_INVALID, "critique style: out is NULL");
    SR1__CALLOC(s, 1, "critique style");
    s->references = 1;
    st = load_style_template(&s->critique, critique, critique_places,
                             SR1__CRITIQUE_PLACES);
    if (st == SR1_OK)
        st = load_style_template(&s->solve, solve, solve_places, 1);
    SR1__RETURN_NEW(out, s, st, sr1_critique_style_free);
}

sr1_critique_style *sr1_critique_style_retain(sr1_critique_style *s)
{
    if (s)
        atomic_fetch_add(&s->references, 1);
    return s;
}

void sr1_critique_style_free(sr1_critique_style *s)
{
    if (!s || atomic_fetch_sub(&s->references, 1) > 1)
        return;
    sr1__prompt_template_free(s->critique);
    sr1__prompt_template_free(s->solve);
    sr1__free(s);
}
