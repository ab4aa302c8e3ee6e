/* text/tokenizer/chat_turn.c - the text between messages is taken from a conversation
 * that the template renders once:
 *
 *     ... policy's message |close| user's message |open| policy's message ...
 *
 * so a conversation only grows at its end, and sampled text is never rendered again. */
#include "text/tokenizer/chat_turn.h"

#include "base/mem.h"
#include "base/str.h"

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

/* The token that ends the policy's message, where close begins with it. */
static void find_end(struct sr1__turn_delimiters *b, const sr1_tokenizer *t)
{
    int32_t id = sr1__chat_end_id(t);
    size_t n = 0;
    const char *end = id >= 0 ? sr1__tokenizer_token_bytes(t, id, &n) : NULL;

    if (!end || b->close_ids.n == 0 || b->close_ids.v[0] != id ||
        strncmp(b->close, end, n) != 0)
        return;
    b->n_end = 1;
    b->end_len = n;
}

static sr1_status encode_turn_text(const sr1_tokenizer *t, const char *text,
                                   struct sr1__ids *ids)
{
    return sr1__tokenizer_encode(t, text, strlen(text),
                                 SR1_ENCODE_ALL_ADDED | SR1_ENCODE_CONTINUED, ids);
}

/* ---- does a conversation only grow at its end? ---- */

#define TURNS 6 /* system, then user and assistant by turns */

/* Render messages [from, n) of the six; without the system's from is 1. */
static sr1_status render_turns(const sr1_tokenizer *t, size_t from, size_t n,
                               int no_thinking, char **text)
{
    static const char *const roles[TURNS] = {"system", "user",      "assistant",
                                             "user",   "assistant", "user"};
    static const char *const contents[TURNS] = {
        "mark-of-the-system", "mark-of-the-question",      "mark-of-the-policy",
        "mark-of-the-user",   "mark-of-the-second-policy", "mark-of-the-second-user"};
    sr1_chat_options o = {
        .struct_size = sizeof o, .add_generation_prompt = 1, .no_thinking = no_thinking};

    return sr1_tokenizer_chat(t, roles + from, contents + from, NULL, n - from, &o, text,
                              NULL, NULL, NULL);
}

/* The conversation that goes on begins with the prompt: but for a thought that the prompt
 * opens, which histories leave out. */
static int is_turn_continued(const char *prompt, const char *longer, const char *answer)
{
    const char *end = strstr(longer, answer), *rest;
    size_t n = end ? (size_t)(end - longer) : 0, same = 0;

    while (same < n && prompt[same] == longer[same])
        same++;
    rest = prompt + same + strspn(prompt + same, " \n");
    return end && (prompt[same] == '\0' || strncmp(rest, "<think>", 7) == 0 ||
                   strncmp(rest, "</think>", 8) == 0);
}

static sr1_status check_growth(const sr1_tokenizer *t, size_t from, int no_thinking)
{
    char *prompt = NULL, *longer = NULL;
    sr1_status st = render_turns(t, from, 2, no_thinking, &prompt);

    if (st == SR1_OK)
        st = render_turns(t, from, 4, no_thinking, &longer);
    if (st == SR1_OK && !is_turn_continued(prompt, longer, marks[1]))
        st = sr1__fail(SR1_E_UNSUPPORTED,
                       "chat: the template writes the beginning of a conversation%s "
                       "otherwise once it goes on; take a protocol whose observations "
                       "continue the text, or another family with the key chat_template",
                       from ? "" : " with a system message");
    sr1_free(prompt);
    sr1_free(longer);
    return st;
}

/* Later turns stand between the same words as the first. */
static sr1_status check_later_turn(const struct sr1__turn_delimiters *b,
                                   const sr1_tokenizer *t, int no_thinking)
{
    struct sr1__buf want;
    char *text = NULL;
    sr1_status st = render_turns(t, 1, TURNS, no_thinking, &text);

    sr1__buf_init(&want, 0);
    sr1__buf_fmt(&want, "mark-of-the-second-policy%smark-of-the-second-user%s", b->close,
                 b->open);
    if (st == SR1_OK)
        st = sr1__buf_status(&want, "chat");
    if (st == SR1_OK && !sr1__str_ends_with(sr1__str_of(text), sr1__buf_cstr(&want)))
        st = sr1__fail(SR1_E_UNSUPPORTED,
                       "chat: the template writes other words between later turns; a "
                       "conversation cannot go on in it");
    sr1__buf_free(&want);
    sr1_free(text);
    return st;
}

/* A folder's own template must have what the families are known to have. A template that
 * refuses a system message has no conversation with one. */
static sr1_status check_program(const struct sr1__turn_delimiters *b,
                                const sr1_tokenizer *t, int no_thinking)
{
    char *text = NULL;

    SR1__TRY(check_growth(t, 1, no_thinking));
    SR1__TRY(check_later_turn(b, t, no_thinking));
    if (render_turns(t, 0, 2, no_thinking, &text) != SR1_OK)
        return SR1_OK;
    sr1_free(text);
    return check_growth(t, 0, no_thinking);
}

/* The words around the last of the three messages, which has this role. */
static sr1_status read_delimiters(struct sr1__turn_delimiters *b, const sr1_tokenizer *t,
                                  const char *role, int no_thinking)
{
    const char *const roles[3] = {"user", "assistant", role};
    sr1_chat_options o = {
        .struct_size = sizeof o, .add_generation_prompt = 1, .no_thinking = no_thinking};
    char *text = NULL;
    sr1_status st;

    SR1__TRY(sr1_tokenizer_chat(t, roles, marks, NULL, 3, &o, &text, NULL, NULL, NULL));
    st = split_rendered_turn(b, text);
    sr1_free(text);
    return st;
}

/* Takes b over; st is how it came to be. */
static sr1_status finish_delimiters(struct sr1__turn_delimiters *out,
                                    struct sr1__turn_delimiters *b,
                                    const sr1_tokenizer *t, sr1_status st)
{
    if (st == SR1_OK)
        st = encode_turn_text(t, b->close, &b->close_ids);
    if (st == SR1_OK)
        st = encode_turn_text(t, b->open, &b->open_ids);
    if (st != SR1_OK) {
        sr1__turn_delimiters_free(b);
        return st;
    }
    find_end(b, t);
    *out = *b;
    return SR1_OK;
}

sr1_status sr1__turn_delimiters_make(struct sr1__turn_delimiters *out,
                                     const sr1_tokenizer *t, int no_thinking)
{
    struct sr1__turn_delimiters b = {0};
    sr1_status st = read_delimiters(&b, t, "user", no_thinking);

    if (st == SR1_OK && strcmp(sr1_tokenizer_chat_family(t), "template") == 0)
        st = check_program(&b, t, no_thinking);
    return finish_delimiters(out, &b, t, st);
}

/* "..." as tojson writes a text: without the quotes. */
static void unquote_delimiters(struct sr1__turn_delimiters *b)
{
    size_t n = strlen(b->close);

    if (n == 0 || b->close[n - 1] != '"' || b->open[0] != '"')
        return;
    b->close[n - 1] = '\0';
    memmove(b->open, b->open + 1, strlen(b->open));
}

sr1_status sr1__ipython_delimiters_make(struct sr1__turn_delimiters *out,
                                        const sr1_tokenizer *t, int no_thinking)
{
    struct sr1__turn_delimiters b = {0};
    sr1_status st = read_delimiters(&b, t, "tool", no_thinking);

    memset(out, 0, sizeof *out);
    if (st == SR1_OK && strstr(b.close, "ipython")) {
        unquote_delimiters(&b);
        return finish_delimiters(out, &b, t, SR1_OK);
    }
    sr1__turn_delimiters_free(&b);
    return sr1__is_memory(st) ? st : SR1_OK;
}
