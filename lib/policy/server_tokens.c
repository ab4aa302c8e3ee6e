/* policy/server_tokens.c - an answer of a server as tokens of our tokenizer.
 *
 * The server's ids are the ids. Where it gives its tokens' texts only, and each of them
 * is one token of ours, those are. Else the text is encoded anew: then the ids are
 * likely, not certain, and their log-probs are not known.
 *
 * An answer continues its prompt: nothing is put in front of it or taken off. But a
 * server that decodes it as a text of its own leaves out the space that tokenizers made
 * from SentencePiece have in front of a first word. */
#include "policy/server_engine.h"

#include "base/mem.h"
#include "base/text.h"

#include <string.h>

void sr1__server_tokens_free(struct sr1__server_tokens *t)
{
    sr1__ids_free(&t->ids);
    sr1__buf_free(&t->text);
}

/* Models have ids that no token belongs to; they add nothing to the text. */
static sr1_status copy_ids(struct sr1__server_tokens *out, const sr1_openai_result *a)
{
    SR1__TRY(sr1__ids_append(&out->ids, a->ids, a->n_tokens));
    out->log_probs = a->log_probs;
    return SR1_OK;
}

/* To encode the beginning of an answer: the tokenizer puts the space there that may be
 * missing in front of a word. */
static int32_t mode_of_beginning(int32_t mode, const char *text, size_t n)
{
    return n > 0 && sr1__is_json_space(text[0]) ? mode | SR1_ENCODE_CONTINUED : mode;
}

/* The one token of ours that is these bytes, encoded by mode and appended to ids; *is 0
 * when there is none. */
static sr1_status match_token_text(struct sr1__ids *ids, const sr1_tokenizer *t,
                                   const char *bytes, size_t n, int32_t mode, int *is)
{
    size_t before = ids->n, have = 0;
    const char *own;

    SR1__TRY(sr1__tokenizer_encode(t, bytes, n, mode, ids));
    *is = ids->n == before + 1;
    if (!*is)
        return SR1_OK;
    own = sr1__tokenizer_token_bytes(t, ids->v[before], &have);
    *is = own && have == n && memcmp(own, bytes, n) == 0;
    return SR1_OK;
}

/* Token texts as ids; *whole 0 when one of them is no token of ours, or together they are
 * not the text, in which special tokens do not show. */
static sr1_status match_token_texts(struct sr1__server_tokens *out,
                                    const sr1_tokenizer *t, const sr1_openai_result *a,
                                    int *whole)
{
    size_t at = 0;

    for (size_t i = 0; i < a->n_tokens; i++) {
        size_t n = a->token_sizes[i];
        int32_t mode = i > 0 ? SR1_ENCODE_ALL_ADDED | SR1_ENCODE_CONTINUED
                             : mode_of_beginning(SR1_ENCODE_ALL_ADDED, a->tokens[i], n);

        SR1__TRY(match_token_text(&out->ids, t, a->tokens[i], n, mode, whole));
        if (*whole && !sr1__tokenizer_is_special(t, out->ids.v[i])) {
            *whole = at + n <= a->text_len && memcmp(a->text + at, a->tokens[i], n) == 0;
            at += n;
        }
        if (!*whole)
            return SR1_OK;
    }
    *whole = at == a->text_len;
    return SR1_OK;
}

static sr1_status resolve_token_ids(struct sr1__server_tokens *out,
                                    const sr1_tokenizer *t, const sr1_openai_result *a)
{
    int whole = a->ids != NULL;

    out->source = SR1__SERVER_IDS;
    if (whole)
        return copy_ids(out, a);
    if (a->tokens && a->n_tokens) {
        out->source = SR1__SERVER_TOKEN_TEXTS;
        SR1__TRY(match_token_texts(out, t, a, &whole));
        out->log_probs = whole ? a->log_probs : NULL;
    }
    if (whole)
        return SR1_OK;
    out->source = SR1__SERVER_ENCODED;
    sr1__ids_free(&out->ids);
    return sr1__tokenizer_encode(
        t, a->text, a->text_len,
        mode_of_beginning(SR1_ENCODE_SPECIAL_AS_TEXT, a->text, a->text_len), &out->ids);
}

/* ---- drift ---- */

/* Would the text alone have given these ids? Special tokens are not in it. */
static sr1_status check_retokenization_drift(struct sr1__server_tokens *out,
                                             const sr1_tokenizer *t)
{
    struct sr1__ids again = {0};
    size_t k = 0;
    sr1_status st =
        sr1__tokenizer_encode(t, sr1__buf_cstr(&out->text), out->text.len,
                              SR1_ENCODE_SPECIAL_AS_TEXT | SR1_ENCODE_CONTINUED, &again);

    for (size_t i = 0; st == SR1_OK && i < out->ids.n; i++) {
        if (sr1__tokenizer_is_special(t, out->ids.v[i]))
            continue;
        out->drifted |= k >= again.n || again.v[k] != out->ids.v[i];
        k++;
    }
    out->drifted |= k != again.n;
    sr1__ids_free(&again);
    return st;
}

/* Of text that was encoded only the number of tokens can be compared. The server counts
 * the one that ended it too, and those of a stop text that it cut off. */
static int is_token_count_off(const struct sr1__server_tokens *out,
                              const sr1_openai_result *a)
{
    int64_t n = (int64_t)out->ids.n;
    int64_t more = a->finish == SR1_OPENAI_FINISH_STOP && !a->stop_text;

    if (a->completion_tokens < 0)
        return 0;
    if (a->stop_text && !a->stop_text_kept)
        return a->completion_tokens < n;
    return a->completion_tokens < n || a->completion_tokens > n + more;
}

/* ---- the same text? ---- */

static int is_marker(const char *s, size_t n)
{
    return n >= 3 && memcmp(s, "\xEF\xBF\xBD", 3) == 0;
}

/* The server's text and ours may differ in their ends only: in what a stop text cut off,
 * and from a character on that is not whole. */
static int texts_agree(const struct sr1__buf *ours, const sr1_openai_result *a)
{
    const char *text = sr1__buf_cstr(ours);
    size_t n = ours->len < a->text_len ? ours->len : a->text_len, i = 0;

    while (i < n && text[i] == a->text[i])
        i++;
    while (i > 0 && i < n && ((unsigned char)text[i] & 0xC0) == 0x80)
        i--;
    return i == n || is_marker(text + i, ours->len - i) ||
           is_marker(a->text + i, a->text_len - i);
}

/* A server may also decode an answer as a text that begins with it. */
static sr1_status check_answer_text(const struct sr1__server_tokens *out,
                                    const sr1_tokenizer *t, const sr1_openai_result *a)
{
    struct sr1__buf alone;
    sr1_status st;
    int agree;

    if (texts_agree(&out->text, a))
        return SR1_OK;
    sr1__buf_init(&alone, 0);
    st = sr1__tokenizer_decode(t, out->ids.v, out->ids.n, 1, &alone);
    agree = st == SR1_OK && texts_agree(&alone, a);
    sr1__buf_free(&alone);
    return st != SR1_OK || agree
               ? st
               : sr1__fail(SR1_E_INVALID,
                           "the server's token ids do not spell its text; set tokenizer "
                           "to that of the server's model");
}

sr1_status sr1__server_tokens_make(struct sr1__server_tokens *out, const sr1_tokenizer *t,
                                   const sr1_openai_result *answer, int check_text)
{
    sr1_status st;

    *out = (struct sr1__server_tokens){0};
    sr1__buf_init(&out->text, 0);
    st = resolve_token_ids(out, t, answer);
    if (st == SR1_OK)
        st = sr1__tokenizer_spell(t, out->ids.v, out->ids.n, 1, &out->text);
    if (st == SR1_OK && out->source == SR1__SERVER_ENCODED)
        out->drifted = is_token_count_off(out, answer);
    else if (st == SR1_OK)
        st = check_retokenization_drift(out, t);
    if (st == SR1_OK && check_text)
        st = check_answer_text(out, t, answer);
    if (st != SR1_OK)
        sr1__server_tokens_free(out);
    return st;
}
