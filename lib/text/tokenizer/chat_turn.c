/* text/tokenizer/chat_turn.c - the text between messages is taken from a conversation
 * that the template renders once:
 *
 *     ... policy's message |close| user's message |open| policy's message ...
 *
 * so a conversation only grows at its end, and sampled text is never rendered again. */
#include "text/tokenizer/chat_turn.h"

#include "base/mem.h"

#include <string.h>

void sr1__turn_delimiters_free(struct sr1__turn_delimiters *b)
{
    sr1__free(b->close);
    sr1__free(b->open);
    sr1__ids_free(&b->close_ids);
    sr1__ids_free(&b->open_ids);
    memset(b, 0, sizeof *b);
}

/* Contents that no template has in it. */
static const char *const marks[3] = {"mark-of-the-question", "mark-of-the-policy",
                                     "mark-of-the-user"};

static sr1_status split_rendered_turn(struct sr1__turn_delimiters *b, const char *text)
{
    const char *policy = strstr(text, marks[1]);
    const char *user = policy ? strstr(policy, marks[2]) : NULL;

    if (!user)
        return sr1__fail(SR1_E_UNSUPPORTED, "chat: the template leaves messages out; a "
                                            "conversation cannot go on in it");
    policy += strlen(marks[1]);
    b->close = sr1__strndup(policy, (size_t)(user - policy));
    b->open = sr1__strdup(user + strlen(marks[2]));
    return b->close && b->open ? SR1_OK : sr1__fail_nomem("chat border");
}

static void find_end(struct sr1__turn_delimiters *b, const sr1_tokenizer *t)
{
    static const char end[] = "<|im_end|>";
    int32_t id = sr1_tokenizer_special_id(t, SR1_TOKEN_IM_END);

    if (b->close_ids.n == 0 || b->close_ids.v[0] != id ||
        strncmp(b->close, end, sizeof end - 1) != 0)
        return;
    b->n_end = 1;
    b->end_len = sizeof end - 1;
}

static sr1_status encode_turn_text(const sr1_tokenizer *t, const char *text,
                                   struct sr1__ids *ids)
{
    return sr1__tokenizer_encode(t, text, strlen(text), SR1_ENCODE_ALL_ADDED, ids);
}

sr1_status sr1__turn_delimiters_make(struct sr1__turn_delimiters *out,
                                     const sr1_tokenizer *t, int no_thinking)
{
    static const char *const roles[3] = {"user", "assistant", "user"};
    sr1_chat_options o = {
        .struct_size = sizeof o, .add_generation_prompt = 1, .no_thinking = no_thinking};
    struct sr1__turn_delimiters b = {0};
    char *text = NULL;
    sr1_status st;

    SR1__TRY(sr1_tokenizer_chat(t, roles, marks, NULL, 3, &o, &text, NULL, NULL, NULL));
    st = split_rendered_turn(&b, text);
    sr1_free(text);
    if (st == SR1_OK)
        st = encode_turn_text(t, b.close, &b.close_ids);
    if (st == SR1_OK)
        st = encode_turn_text(t, b.open, &b.open_ids);
    if (st != SR1_OK) {
        sr1__turn_delimiters_free(&b);
        return st;
    }
    find_end(&b, t);
    *out = b;
    return SR1_OK;
}
