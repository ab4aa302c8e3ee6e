/* responses.h - trajectories for tests, written as pieces of text. */
#ifndef TESTS_REWARD_RESPONSES_H
#define TESTS_REWARD_RESPONSES_H

#include "base/buf.h"
#include "environment/trajectory/builder.h"

#include <string.h>

#define MAX_PIECES 8

/* Pieces alternate: the policy's, an inserted body, the policy's, ... A body stands
 * between
 * "\n\n<information>" and "</information>\n\n". */
struct response {
    const char *pieces[MAX_PIECES]; /* up to the first NULL */
    const char *answer;             /* what the rollout extracted; NULL: nothing */
    const char *truths[3];          /* up to the first NULL */
};

static sr1_status add_block(struct sr1__trajectory_builder *b, const char *body,
                            int32_t turn)
{
    static const int32_t ids[2] = {5, 6};
    static const char head[] = "\n\n<information>", tail[] = "</information>\n\n";
    struct sr1__buf block;
    sr1_status status;

    sr1__buf_init(&block, 0);
    sr1__buf_str(&block, head);
    sr1__buf_str(&block, body);
    sr1__buf_str(&block, tail);
    status = sr1__buf_status(&block, "block");
    if (status == SR1_OK)
        status = sr1__trajectory_builder_environment(
            b, ids, 2, turn, block.data, block.len, strlen(head), strlen(body));
    sr1__buf_free(&block);
    return status;
}

static sr1_status add_pieces(struct sr1__trajectory_builder *b, const struct response *r)
{
    static const int32_t prompt[1] = {1};
    int32_t i;

    SR1__TRY(sr1__trajectory_builder_prompt(b, prompt, 1));
    for (i = 0; i < MAX_PIECES && r->pieces[i] != NULL; i++) {
        const char *s = r->pieces[i];

        if (i % 2 == 0)
            SR1__TRY(sr1__trajectory_builder_policy(b, 7, -1, i / 2, s, strlen(s)));
        else
            SR1__TRY(add_block(b, s, i / 2));
    }
    return SR1_OK;
}

/* in_thought: the prompt opened a thought. */
static sr1_status make_opened(const struct response *r, int in_thought,
                              sr1_trajectory **out)
{
    struct sr1__trajectory_context c = {1, 1, 0, 0, NULL, r->truths, NULL, 0, in_thought};
    struct sr1__trajectory_builder *b = NULL;
    const char *answer = r->answer != NULL ? r->answer : "";
    sr1_status status;

    while (c.n_ground_truths < 3 && r->truths[c.n_ground_truths] != NULL)
        c.n_ground_truths++;
    SR1__TRY(sr1__trajectory_builder_new(&b, "q", 1, NULL, 0));
    status = sr1__trajectory_builder_context(b, &c);
    if (status == SR1_OK)
        status = add_pieces(b, r);
    if (status != SR1_OK) {
        sr1__trajectory_builder_free(b);
        return status;
    }
    return sr1__trajectory_builder_finish(b, SR1_STOP_ANSWER, answer, strlen(answer),
                                          out);
}

static inline sr1_status make_trajectory(const struct response *r, sr1_trajectory **out)
{
    return make_opened(r, 0, out);
}

#endif
