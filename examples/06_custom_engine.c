/* 06_custom_engine.c - a search engine of your own.
 *
 *     06_custom_engine
 *
 * An engine is a table of functions. It gets the batch of queries of one turn and gives
 * hits to a sink, which copies them. Give the handle to sr1_rollout_new or
 * sr1_trainer_new to train with it. This one answers sums. */
#include <searchr1/searchr1.h>

#include <stdio.h>

struct calculator {
    int64_t answered;
};

static sr1_status answer(void *self, const char *const *queries, size_t n, int32_t top_k,
                         sr1_search_sink *sink)
{
    struct calculator *c = self;

    (void)top_k;
    for (size_t i = 0; i < n; i++) {
        char text[64];
        long a, b;

        if (sscanf(queries[i], "%ld + %ld", &a, &b) != 2)
            continue; /* a query left alone has found nothing */
        snprintf(text, sizeof(text), "Sum\n%ld", a + b);
        if (sr1_search_sink_hit(sink, i, "sum", text, 1.0) != SR1_OK)
            return SR1_E_CALLBACK; /* the error text is set */
        c->answered++;
    }
    return SR1_OK;
}

int main(void)
{
    const sr1_search_ops ops = {
        .struct_size = sizeof(ops), .name = "calculator", .search = answer};
    const char *queries[] = {"2 + 40", "the meaning of life", "2 + 40"};
    struct calculator state = {0};
    sr1_search *engine = NULL;
    sr1_search_results *found = NULL;
    sr1_search_hit hit = {.struct_size = sizeof(hit)};
    sr1_status status = sr1_search_new(&engine, &ops, &state);

    if (status == SR1_OK)
        status = sr1_search_run(engine, queries, 3, 1, &found);
    for (size_t i = 0; status == SR1_OK && i < 3; i++)
        if (sr1_search_results_hit(found, i, 0, &hit) == SR1_OK)
            printf("%s: %s\n", queries[i], hit.contents + 4); /* behind its title */
        else
            printf("%s: %s\n", queries[i], sr1_search_results_message(found, i));
    if (status == SR1_OK)
        printf("the engine answered %d query; the repeated one was asked once\n",
               (int)state.answered);
    else
        fprintf(stderr, "%s\n", sr1_last_error());
    sr1_search_results_free(found);
    sr1_search_free(engine);
    return status == SR1_OK ? 0 : 1;
}
