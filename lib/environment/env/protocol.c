/* environment/env/protocol.c - the tags of each protocol, and the automaton that finds
 * them.
 *
 * Tags begin with characters that they do not contain otherwise, such as '<', so a
 * matcher only has to remember which tags agree with the bytes since the last such
 * character. */
#include "environment/env/protocol.h"

#include "base/text.h"
#include "base/utf8.h"
#include "environment/env/call_form.h"
#include "environment/env/protocol_file.h"

#include <string.h>

#define PAIR(tag) "<" tag ">", "</" tag ">"

/* The table: name, the tags of thinking, acting, results, answering, then what differs
 * from text that runs on. */
static const struct sr1__protocol protocols[] = {
    {.name = "search-r1",
     .tags = {PAIR("think"), PAIR("search"), PAIR("information"), PAIR("answer")}},
    {.name = "search-r1-compat",
     .tags = {PAIR("think"), PAIR("search"), PAIR("information"), PAIR("answer")},
     .search_r1_compat = 1,
     .prompt = "search-r1",
     .notice =
         "My previous action is invalid. If I want to search, I should put the query "
         "between <search> and </search>. If I want to give the final answer, I should "
         "put the answer between <answer> and </answer>. Let me try again."},
    {.name = "mt-grpo",
     .tags = {PAIR("reasoning"), PAIR("tool"), PAIR("result"), PAIR("answer")},
     .chat = 1,
     .around = "",
     .inside = "\n",
     .notice =
         "Error: there is neither a tool call nor an answer in this message. Call a "
         "tool between <tool> and </tool>, or answer between <answer> and "
         "</answer>."},
    {.name = "hermes",
     .tags = {PAIR("think"), PAIR("tool_call"), PAIR("tool_response"), PAIR("answer")},
     .chat = 1,
     .around = "",
     .inside = "\n",
     .several = 1,
     .between = "\n",
     .arguments = "arguments",
     .tools_json = 1,
     .notice = "Error: there is neither a tool call nor an answer in this message. Call "
               "a function between <tool_call> and </tool_call>, or answer between "
               "<answer> and </answer>."},
    {.name = "qwen3-coder",
     .tags = {PAIR("think"), PAIR("tool_call"), PAIR("tool_response"), PAIR("answer")},
     .chat = 1,
     .around = "",
     .inside = "\n",
     .several = 1,
     .between = "\n",
     .form = "xml",
     .tools_json = 1,
     .notice = "Error: there is neither a function call nor an answer in this message. "
               "Call a function between <tool_call> and </tool_call>, or answer between "
               "<answer> and </answer>."},
    {.name = "llama3",
     .tags = {PAIR("think"), "<|python_tag|>", "", PAIR("tool_response"), PAIR("answer")},
     .chat = 1,
     .around = "",
     .inside = "\n",
     .several = 1,
     .between = "\n",
     .ipython = 1,
     .bare = 1,
     .arguments = "parameters",
     .tools_json = 1,
     .notice = "Error: there is neither a function call nor an answer in this message. "
               "Write nothing but the JSON object of a call, or answer between <answer> "
               "and </answer>."},
    {.name = "rlvcr",
     .tags = {PAIR("think"), PAIR("action"), PAIR("observation"), PAIR("answer")},
     .chat = 1,
     .levels = 1,
     .around = "",
     .inside = "\n",
     .notice = "Nothing happens. Write <level>n</level>, your thoughts between <think> "
               "and </think>, and one action between <action> and </action>."},
    {.name = "ctrl", /* its tags are never looked for */
     .tags = {PAIR("think"), PAIR("critique"), PAIR("revision"), PAIR("answer")},
     .chat = 1,
     .message = 1,
     .around = "",
     .inside = "",
     .prompt = ""},
    {.name = "chat", /* of its tags only that behind thoughts is looked for */
     .tags = {PAIR("think"), PAIR("action"), PAIR("observation"), PAIR("answer")},
     .chat = 1,
     .message = 1,
     .answers = 1,
     .around = "",
     .inside = "",
     .prompt = ""},
};

#define N_PROTOCOLS (sizeof protocols / sizeof protocols[0])

const char *sr1__protocol_name(size_t i)
{
    return i < N_PROTOCOLS ? protocols[i].name : NULL;
}

const struct sr1__protocol *sr1__protocol_of_levels(void)
{
    const struct sr1__protocol *p = protocols;

    while (!p->levels)
        p++;
    return p;
}

const struct sr1__protocol *sr1__protocol_find(const char *name)
{
    size_t i;

    if (name == NULL)
        return &protocols[0];
    if (sr1__protocol_is_file(name))
        return sr1__protocol_from_file(name);
    for (i = 0; i < N_PROTOCOLS; i++)
        if (strcmp(protocols[i].name, name) == 0)
            return &protocols[i];
    sr1__fail_unknown("protocol", name, sr1__protocol_name);
    return NULL;
}

/* Begin with the tags that begin with this byte; 0: none do. */
static int begin_tags(struct sr1__tag_matcher *m, const struct sr1__protocol *p, char c)
{
    uint32_t alive = 0;
    int t;

    for (t = 0; t < SR1__TAG_COUNT; t++)
        if (p->tags[t][0] == c)
            alive |= 1u << t;
    if (alive == 0 || c == '\0')
        return 0;
    m->alive = alive;
    m->depth = 1;
    return 1;
}

/* Take one byte; the tag that it completes, or -1. */
static int feed_tag_matcher(struct sr1__tag_matcher *m, const struct sr1__protocol *p,
                            char c)
{
    int t;

    if (p->message || begin_tags(m, p, c))
        return -1;
    if (m->alive == 0)
        return -1;
    for (t = 0; t < SR1__TAG_COUNT; t++) {
        if ((m->alive >> t & 1) == 0)
            continue;
        if (p->tags[t][m->depth] != c) {
            m->alive &= ~(1u << t);
        } else if (p->tags[t][m->depth + 1] == '\0') {
            m->alive = 0;
            return t;
        }
    }
    m->depth++;
    return -1;
}

int sr1__protocol_next_tag(const struct sr1__protocol *p, const char *text, size_t len,
                           size_t from, struct sr1__tag *out)
{
    struct sr1__tag_matcher m = {0};
    size_t i;

    for (i = from; i < len; i++) {
        int tag = feed_tag_matcher(&m, p, text[i]);

        if (tag >= 0) {
            out->tag = tag;
            out->begin = i + 1 - strlen(p->tags[tag]);
            out->end = i + 1;
            return 1;
        }
    }
    return 0;
}

/* The two kinds of pairs that make events: index 0 actions, 1 answers. */
static const int event_role[2] = {SR1__ROLE_ACTION, SR1__ROLE_ANSWER};
static const int32_t event_code[2] = {SR1__EVENT_ACTION, SR1__EVENT_ANSWER};

/* Which kind an opening (closing = 0) or closing (1) tag is of, -1 for none. */
static int event_kind(int tag, int closing)
{
    int k;

    for (k = 0; k < 2; k++)
        if (tag == SR1__TAG_OPEN(event_role[k]) + closing)
            return k;
    return -1;
}

/* Have actions no closing tag? */
static int reaches_end(const struct sr1__protocol *p)
{
    return p->tags[SR1__TAG_CLOSE(SR1__ROLE_ACTION)][0] == '\0';
}

static int begins_json(char c)
{
    return c == '{' || c == '[';
}

/* Does JSON begin at text[*at], after blanks, which are skipped? */
static int begins_bare_action(const char *text, size_t len, size_t *at)
{
    while (*at < len && sr1__is_json_space(text[*at]))
        ++*at;
    return *at < len && begins_json(text[*at]);
}

/* How many of the n bytes of an action are kept: whole characters. */
static size_t limit_action(const char *text, size_t n, size_t max)
{
    return max > 0 && n > max ? sr1__utf8_complete(text, max) : n;
}

/* The action that reaches from begin to the end of the message: its first call, or its
 * beginning where it is too long. */
static int32_t end_open_action(const char *text, size_t len, size_t begin, size_t max,
                               struct sr1__text_range *content, size_t *end)
{
    size_t n = limit_action(text + begin, len - begin, max), first = 0;
    int whole = n == len - begin;

    sr1__strip(text, &begin, &n);
    if (whole)
        first = sr1__json_values_split(text + begin, n, 0, &n);
    if (content != NULL)
        *content = (struct sr1__text_range){begin + first, n};
    if (end != NULL)
        *end = len;
    return SR1__EVENT_ACTION;
}

int sr1__protocol_first_event(const struct sr1__protocol *p, const char *text, size_t len,
                              size_t max, struct sr1__text_range *content, size_t *end)
{
    int32_t open[2] = {0, 0};
    size_t begin[2] = {0, 0};
    struct sr1__tag t;
    size_t at, n;

    if (p->search_r1_compat)
        return sr1__search_r1_event(p, text, sr1__search_r1_truncate(p, text, len),
                                    content, end);
    t = (struct sr1__tag){SR1__TAG_CLOSE(SR1__ROLE_THINK), 0, 0}; /* as behind thoughts */
    for (at = 0;; at = t.end) {
        int opens, closes;

        if (p->bare && !open[0] && t.tag == SR1__TAG_CLOSE(SR1__ROLE_THINK) &&
            begins_bare_action(text, len, &at))
            return end_open_action(text, len, at, max, content, end);
        if (!sr1__protocol_next_tag(p, text, len, at, &t))
            break;
        opens = event_kind(t.tag, 0);
        closes = event_kind(t.tag, 1);

        if (opens >= 0 && !open[opens]) {
            open[opens] = 1;
            begin[opens] = t.end;
            if (opens == 0 && reaches_end(p))
                return end_open_action(text, len, t.end, max, content, end);
        }
        if (closes < 0 || !open[closes])
            continue;
        open[closes] = 0;
        n = t.begin - begin[closes];
        if (closes == 1 && max > 0 && n > SR1__MESSAGE_MAX)
            continue;
        if (content != NULL) {
            content->begin = begin[closes];
            content->len = closes == 0 ? limit_action(text + begin[0], n, max) : n;
            sr1__strip(text, &content->begin, &content->len);
        }
        if (end != NULL)
            *end = t.end;
        return event_code[closes];
    }
    return SR1__EVENT_NONE;
}

/* Length of s[0..n) without the longest proper beginning of tag that it ends with. */
static size_t length_without_partial_tag(const char *s, size_t n, const char *tag)
{
    size_t k = strlen(tag) - 1;

    for (; k > 0; k--)
        if (k <= n && memcmp(s + n - k, tag, k) == 0)
            return n - k;
    return n;
}

/* As sr1__protocol_partial_answer, for text in which an answer is open from the start. */
static int find_partial_answer(const struct sr1__protocol *p, const char *text,
                               size_t len, int is_open, struct sr1__text_range *content)
{
    const char *closing = p->tags[SR1__TAG_CLOSE(SR1__ROLE_ANSWER)];
    struct sr1__text_range found = {0, 0};
    struct sr1__tag t;
    size_t at;

    for (at = 0; sr1__protocol_next_tag(p, text, len, at, &t); at = t.end) {
        if (t.tag == SR1__TAG_OPEN(SR1__ROLE_ANSWER)) {
            is_open = 1;
            found.begin = t.end;
        } else if (t.tag == SR1__TAG_CLOSE(SR1__ROLE_ANSWER)) {
            is_open = 0;
        }
    }
    if (!is_open)
        return 0;
    found.len =
        length_without_partial_tag(text + found.begin, len - found.begin, closing);
    sr1__strip(text, &found.begin, &found.len);
    *content = found;
    return 1;
}

int sr1__protocol_partial_answer(const struct sr1__protocol *p, const char *text,
                                 size_t len, struct sr1__text_range *content)
{
    return find_partial_answer(p, text, len, 0, content);
}

int sr1__protocol_message_answer(const struct sr1__protocol *p, const char *text,
                                 size_t len, struct sr1__text_range *answer)
{
    const char *opening = p->tags[SR1__TAG_OPEN(SR1__ROLE_THINK)];
    const char *closing = p->tags[SR1__TAG_CLOSE(SR1__ROLE_THINK)];
    size_t n = strlen(closing), begin = len;

    while (begin >= n && memcmp(text + begin - n, closing, n) != 0)
        begin--;
    if (begin < n) /* no thoughts, or open ones */
        begin = len >= strlen(opening) && memcmp(text, opening, strlen(opening)) == 0
                    ? len
                    : 0;
    *answer = (struct sr1__text_range){begin, len - begin};
    sr1__strip(text, &answer->begin, &answer->len);
    return answer->len > 0;
}

sr1_status sr1__observation_split(const struct sr1__protocol *p, const char *text,
                                  size_t len, size_t *body_begin, size_t *body_len)
{
    size_t begin = 0, end = 0, at;
    int opened = 0, closed = 0;
    struct sr1__tag t;

    for (at = 0; sr1__protocol_next_tag(p, text, len, at, &t); at = t.end) {
        if (t.tag == SR1__TAG_OPEN(SR1__ROLE_RESULT) && !opened) {
            opened = 1;
            begin = t.end;
        } else if (t.tag == SR1__TAG_CLOSE(SR1__ROLE_RESULT) && opened) {
            closed = 1;
            end = t.begin;
        }
    }
    if (!closed)
        return sr1__fail(SR1_E_PARSE, "inserted block: no %s...%s in it; keep both tags",
                         p->tags[SR1__TAG_OPEN(SR1__ROLE_RESULT)],
                         p->tags[SR1__TAG_CLOSE(SR1__ROLE_RESULT)]);
    *body_begin = begin;
    *body_len = end - begin;
    return SR1_OK;
}

/* ---- text in pieces ---- */

void sr1__scanner_init(struct sr1__scanner *s, const struct sr1__protocol *p, size_t max)
{
    memset(s, 0, sizeof *s);
    s->protocol = p;
    s->max = max > 0 ? max : SR1__ACTION_MAX;
    s->max_calls = 1;
    sr1__buf_init(&s->content[0], 0);
    sr1__buf_init(&s->content[1], 0);
}

void sr1__scanner_free(struct sr1__scanner *s)
{
    sr1__buf_free(&s->content[0]);
    sr1__buf_free(&s->content[1]);
    sr1__scanner_reset(s);
}

void sr1__scanner_reset(struct sr1__scanner *s)
{
    int k;

    memset(&s->matcher, 0, sizeof s->matcher);
    s->event = SR1__EVENT_NONE;
    s->answers = 0;
    s->begin = 0;
    s->n_calls = 0;
    s->too_long = 0;
    s->led = 0;
    s->to_end = 0;
    s->found = (struct sr1__text_range){0, 0};
    for (k = 0; k < 2; k++) {
        s->open[k] = 0;
        s->seen[k] = 0;
        sr1__buf_clear(&s->content[k]);
    }
}

/* Keep c if its pair is open and may yet be within the limit. */
static void append_tag_content(struct sr1__scanner *s, int kind, char c)
{
    size_t closing = strlen(s->protocol->tags[SR1__TAG_CLOSE(event_role[kind])]);
    size_t most = kind == 0 ? s->max : SR1__MESSAGE_MAX;

    if (!s->open[kind])
        return;
    s->seen[kind]++;
    if (s->seen[kind] <= most + closing)
        sr1__buf_char(&s->content[kind], c);
}

/* An action or an answer begins; of earlier actions the contents are kept. */
static void open_pair(struct sr1__scanner *s, int kind)
{
    struct sr1__buf *content = &s->content[kind];
    size_t kept = kind == 0 && s->n_calls > 0 ? s->begin : 0;

    s->open[kind] = 1;
    s->seen[kind] = 0;
    if (kept > 0)
        content->len = kept;
    else
        sr1__buf_clear(content);
}

/* One more action is complete: len bytes from s->begin, of which max are kept. */
static void close_action(struct sr1__scanner *s, size_t len)
{
    struct sr1__buf *content = &s->content[0];
    struct sr1__text_range *call = &s->calls[s->n_calls];
    size_t kept;

    if (content->status != SR1_OK) /* bytes are missing: the feeding call fails */
        return;
    kept = limit_action(sr1__buf_cstr(content) + s->begin, len, s->max);
    content->len = s->begin + kept;
    s->too_long |= (uint32_t)(kept < len) << s->n_calls++;
    *call = (struct sr1__text_range){s->begin, kept};
    sr1__strip(sr1__buf_cstr(content), &call->begin, &call->len);
    s->begin += kept;
    if (s->n_calls >= s->max_calls || !s->protocol->several)
        s->event = SR1__EVENT_ACTION;
}

/* A whole tag has just been collected. */
static void scan_tag(struct sr1__scanner *s, int tag)
{
    int opens = event_kind(tag, 0);
    int closes = event_kind(tag, 1);
    size_t len;

    if (opens >= 0 && !s->open[opens])
        open_pair(s, opens);
    if (opens == 0 && reaches_end(s->protocol))
        s->to_end = 1;
    if (closes < 0 || !s->open[closes])
        return;
    s->open[closes] = 0;
    len = s->seen[closes] - strlen(s->protocol->tags[tag]);
    if (closes == 0) {
        close_action(s, len);
    } else if (len <= SR1__MESSAGE_MAX && s->n_calls == 0 && !s->to_end) {
        s->content[1].len = len;
        s->event = SR1__EVENT_ANSWER;
    }
}

/* Examine the whole turn at each position where the published code may cut it. */
static void scan_search_r1_byte(struct sr1__scanner *s, char c, int tag)
{
    int searched = tag == SR1__TAG_CLOSE(SR1__ROLE_ACTION);
    int answered = tag == SR1__TAG_CLOSE(SR1__ROLE_ANSWER) && s->answers++ == 0;

    sr1__buf_char(&s->content[0], c);
    if (!searched && !answered)
        return;
    s->event = sr1__search_r1_event(s->protocol, sr1__buf_cstr(&s->content[0]),
                                    s->content[0].len, &s->found, NULL);
    if (searched && s->event == SR1__EVENT_NONE)
        s->event = SR1__EVENT_VOID;
}

/* Where the message is kept: with the actions, or with the answers. */
static struct sr1__buf *message_content(struct sr1__scanner *s)
{
    return &s->content[s->protocol->answers];
}

/* The message so far, as far as it is kept. */
static sr1_status append_message_bytes(struct sr1__scanner *s, const char *bytes,
                                       size_t n)
{
    struct sr1__buf *content = message_content(s);
    size_t room = SR1__MESSAGE_MAX - content->len;

    sr1__buf_add(content, bytes, n < room ? n : room);
    return sr1__buf_status(content, "a message");
}

/* A message that begins with JSON is an action. Thoughts are no beginning. */
static void scan_bare_byte(struct sr1__scanner *s, char c, int tag)
{
    if (tag == SR1__TAG_CLOSE(SR1__ROLE_THINK)) {
        s->led = 0;
    } else if (!s->led && begins_json(c) && !s->open[0]) {
        open_pair(s, 0);
        s->to_end = 1;
        s->led = 1;
    } else if (!sr1__is_json_space(c)) {
        s->led = 1;
    }
}

int sr1__scanner_reaches_end(const struct sr1__scanner *s)
{
    return s->to_end && s->open[0];
}

/* The JSON values of the action that the message's end completes, or all of it. */
static void close_open_action(struct sr1__scanner *s)
{
    const char *text = sr1__buf_cstr(&s->content[0]) + s->begin;
    size_t begin = 0, len = s->content[0].len - s->begin, n;

    s->open[0] = 0;
    if (s->seen[0] > s->max) {
        close_action(s, s->seen[0]);
        return;
    }
    sr1__strip(text, &begin, &len);
    for (size_t i = 0; s->event == SR1__EVENT_NONE; i++) {
        size_t at = sr1__json_values_split(text + begin, len, i, &n);

        if (i > 0 && n == 0)
            break;
        s->calls[s->n_calls++] = (struct sr1__text_range){s->begin + begin + at, n};
        if (s->n_calls >= s->max_calls)
            break;
    }
}

int32_t sr1__scanner_end(struct sr1__scanner *s)
{
    if (s->event == SR1__EVENT_NONE && sr1__scanner_reaches_end(s))
        close_open_action(s);
    if (s->protocol->message || (s->n_calls > 0 && s->event == SR1__EVENT_NONE))
        s->event = s->protocol->answers ? SR1__EVENT_ANSWER : SR1__EVENT_ACTION;
    return s->event;
}

sr1_status sr1__scanner_feed(struct sr1__scanner *s, const char *bytes, size_t n,
                             size_t *used, int32_t *event)
{
    size_t i;
    int k;

    if (s->protocol->message && s->event == SR1__EVENT_NONE) {
        SR1__TRY(append_message_bytes(s, bytes, n));
        *used = n;
        *event = SR1__EVENT_NONE;
        return SR1_OK;
    }
    for (i = 0; i < n && s->event == SR1__EVENT_NONE; i++) {
        int tag = feed_tag_matcher(&s->matcher, s->protocol, bytes[i]);

        if (s->protocol->search_r1_compat) {
            scan_search_r1_byte(s, bytes[i], tag);
            continue;
        }
        if (s->protocol->bare)
            scan_bare_byte(s, bytes[i], tag);
        append_tag_content(s, 0, bytes[i]);
        append_tag_content(s, 1, bytes[i]);
        if (tag >= 0)
            scan_tag(s, tag);
    }
    for (k = 0; k < 2; k++)
        SR1__TRY(sr1__buf_status(&s->content[k], "content of a tag"));
    *used = i;
    *event = s->event;
    return SR1_OK;
}

/* The answer in the message so far. */
static const char *get_message_answer(const struct sr1__scanner *s, size_t *len)
{
    const char *text = sr1__buf_cstr(&s->content[1]);
    struct sr1__text_range answer;

    (void)sr1__protocol_message_answer(s->protocol, text, s->content[1].len, &answer);
    *len = answer.len;
    return text + answer.begin;
}

const char *sr1__scanner_text(const struct sr1__scanner *s, size_t *len)
{
    const struct sr1__buf *content = &s->content[s->event == SR1__EVENT_ANSWER];
    size_t begin = 0;

    if (s->protocol->search_r1_compat) {
        *len = s->found.len;
        return sr1__buf_cstr(&s->content[0]) + s->found.begin;
    }
    if (s->protocol->answers && s->event == SR1__EVENT_ANSWER)
        return get_message_answer(s, len);
    if (s->event == SR1__EVENT_ACTION && s->n_calls > 0)
        return sr1__scanner_call(s, 0, len);
    *len = s->event == SR1__EVENT_NONE ? 0 : content->len;
    sr1__strip(sr1__buf_cstr(content), &begin, len);
    return sr1__buf_cstr(content) + begin;
}

const char *sr1__scanner_call(const struct sr1__scanner *s, int32_t i, size_t *len)
{
    if (s->n_calls == 0)
        return sr1__scanner_text(s, len);
    *len = s->calls[i].len;
    return sr1__buf_cstr(&s->content[0]) + s->calls[i].begin;
}

int sr1__scanner_too_long(const struct sr1__scanner *s, int32_t i)
{
    return (int)(s->too_long >> i & 1);
}

const char *sr1__scanner_partial_answer(const struct sr1__scanner *s, size_t *len)
{
    const struct sr1__buf *content = &s->content[1];
    struct sr1__text_range found = {0, 0};

    *len = 0;
    if (s->event == SR1__EVENT_NONE && s->protocol->answers)
        return get_message_answer(s, len);
    if (s->event != SR1__EVENT_NONE || !s->open[1] || s->seen[1] > SR1__MESSAGE_MAX)
        return "";
    find_partial_answer(s->protocol, sr1__buf_cstr(content), content->len, 1, &found);
    *len = found.len;
    return sr1__buf_cstr(content) + found.begin;
}
