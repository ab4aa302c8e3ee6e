/* environment/env/protocol.h - the tags of each protocol, as a table, and the automaton
 * that finds a policy's actions and answers in text that arrives in pieces.
 *
 * Tags are case-sensitive. The first character of a tag is in no tag of its protocol but
 * at the beginning. Use it on text of the policy only; text that the environment inserted
 * is inert. */
#ifndef SR1__ENV_PROTOCOL_H
#define SR1__ENV_PROTOCOL_H

#include "base/buf.h"

#include <searchr1/ext/protocol.h>

/* Roles of a tag name, and tags: 2 * role opens it, 2 * role + 1 closes it. */
enum {
    SR1__ROLE_THINK,
    SR1__ROLE_ACTION,
    SR1__ROLE_RESULT,
    SR1__ROLE_ANSWER,
    SR1__ROLE_COUNT,
    SR1__TAG_COUNT = 2 * SR1__ROLE_COUNT
};

#define SR1__TAG_OPEN(role) (2 * (role))
#define SR1__TAG_CLOSE(role) (2 * (role) + 1)

struct sr1__protocol {
    const char *name;
    /* "<think>", "</think>", "<search>", ...; "" as the closing tag of actions: one
     * reaches to the end of its message */
    const char *tags[SR1__TAG_COUNT];
    /* 1: an answer to an action is a message of the user, after which the policy begins a
     * new message of its own; 0: it is inserted into the running text */
    int32_t chat;
    /* 1: the policy says before its thoughts how much it thinks (thinking_turn.h) */
    int32_t levels;
    /* around: text before and after a result block; inside: text between the block's tags
     * and its body. NULL: as the document format says. */
    const char *around, *inside;
    /* chat: told to a policy that ended a message with neither an action nor an answer;
     * NULL: that ends the trajectory */
    const char *notice;
    /* 1: Search-R1's published rules (search_r1_compat.c): a turn ends with </search>,
     * whatever it closes; one without an action or answer is told so, and a block that is
     * too long loses its end, closing tag and all */
    int32_t search_r1_compat;
    /* chat: no tag means anything; the end of a message is the action, the message its
     * content, and a result stands without tags */
    int32_t message;
    int32_t answers; /* message: it is the answer, not an action; thoughts apart */
    /* chat: a message may hold several actions, which are carried out side by side once
     * it ends; their results stand in one message, `between` between two blocks */
    int32_t several;
    const char *between;
    int32_t ipython;  /* chat: results are messages of the role ipython, where the chat
                         template has it */
    int32_t bare;     /* a message that begins with a JSON object, or with a list, is an
                         action as a whole; thoughts may stand before it */
    const char *form; /* how a call is written: a row of call_form.h; NULL: "json" */
    const char *arguments; /* member of a tool call that has them; NULL: "args" */
    int32_t tools_json; /* 1: tools are told as JSON, a line each, as chat templates get
                           them; 0: as a list in words */
    const char *prompt; /* built-in system message; NULL: the one of this name, "": none
                         */
    const char *system; /* the system message itself; NULL: prompt says */
};

/* Row of that name (NULL: "search-r1"), or of the file with that path, which has a '/' or
 * ends with .yaml, .yml or .json (protocol_file.h). NULL, with the error set, if there is
 * none. Static. */
const struct sr1__protocol *sr1__protocol_find(const char *name);
/* The one whose policy says how much it thinks. */
const struct sr1__protocol *sr1__protocol_of_levels(void);
/* Name of row i, NULL past the end. */
const char *sr1__protocol_name(size_t i);

/* SR1_EVENT_* of searchr1/env.h. */
enum {
    SR1__EVENT_NONE = SR1_EVENT_NONE,
    SR1__EVENT_ACTION = SR1_EVENT_ACTION,
    SR1__EVENT_ANSWER = SR1_EVENT_ANSWER,
    SR1__EVENT_VOID /* search_r1_compat: the turn ended with neither */
};

/* ---- whole text ---- */

/* Recognises tags byte by byte. Zeroed is a fresh one. */
struct sr1__tag_matcher {
    uint32_t alive; /* bit t: the bytes since the last '<' begin tag t */
    size_t depth;   /* how many bytes those are */
};

struct sr1__tag {
    int tag;
    size_t begin, end;
};

/* The first whole tag at or after text[from]; 0 when there is none, else 1. */
int sr1__protocol_next_tag(const struct sr1__protocol *p, const char *text, size_t len,
                           size_t from, struct sr1__tag *out);

/* A piece of text: its place within the whole. */
struct sr1__text_range {
    size_t begin, len;
};

/* The first event in text, by the rules of struct sr1__scanner; *content is the stripped
 * content and *end where the closing tag ends (each may be NULL). max 0: no limits. */
int sr1__protocol_first_event(const struct sr1__protocol *p, const char *text, size_t len,
                              size_t max, struct sr1__text_range *content, size_t *end);

/* Search-R1's published cut of a whole turn: through the first </search>, else through
 * the first </answer>, else all. Bytes kept. */
size_t sr1__search_r1_truncate(const struct sr1__protocol *p, const char *text,
                               size_t len);
/* And its action: the first <search> or <answer> that is closed by a tag of its own kind.
 * An event, with its stripped content and where its closing tag ends. */
int sr1__search_r1_event(const struct sr1__protocol *p, const char *text, size_t len,
                         struct sr1__text_range *content, size_t *end);

/* The text after the last answer tag that is not closed, stripped, without an incomplete
 * closing tag at its end ("Paris</ans"). 0 when no answer is open, else 1. */
int sr1__protocol_partial_answer(const struct sr1__protocol *p, const char *text,
                                 size_t len, struct sr1__text_range *content);

/* answers: the answer in a message, stripped: all of it, or what follows the last
 * thought. 0 if there is none (a thought that the message begins with is open), else 1.
 */
int sr1__protocol_message_answer(const struct sr1__protocol *p, const char *text,
                                 size_t len, struct sr1__text_range *answer);

/* Where the body of an inserted block lies in its whole text: between the first opening
 * and the last closing result tag. SR1_E_PARSE when there are none. */
sr1_status sr1__observation_split(const struct sr1__protocol *p, const char *text,
                                  size_t len, size_t *body_begin, size_t *body_len);

/* ---- text in pieces ---- */

/* An action of more bytes is too long to be carried out. */
#define SR1__ACTION_MAX 4096
/* Actions of one message. */
#define SR1__MAX_CALLS 32
/* Of a message that is an action so many bytes are kept; an answer of more is text. */
#define SR1__MESSAGE_MAX ((size_t)1 << 20)

/* Protocol search_r1_compat: see sr1__search_r1_event, asked at each </search> and at the
 * first
 * </answer>; a </search> that makes no event is SR1__EVENT_VOID. Else:
 *
 * The first pair <search>...</search> or <answer>...</answer> that is closed within a
 * turn is its event, at any position (in an open think block too, as in Search-R1). A
 * pair reaches from the first opening tag of its kind in the turn; a closing tag without
 * one is text. Of an action of more than max bytes the first ones are kept, as whole
 * characters (sr1__scanner_too_long).
 *
 * In a protocol of several actions the turn goes on behind an action, until there are
 * max_calls or sr1__scanner_end is called; an answer behind an action is text. */
struct sr1__scanner {
    const struct sr1__protocol *protocol;
    size_t max;
    int32_t max_calls; /* 1 unless the caller sets another */
    struct sr1__tag_matcher matcher;
    int32_t event;
    size_t seen[2]; /* bytes since the opening tag of the action, the answer */
    int32_t open[2];
    /* The contents of actions that are closed, and of what is open at most max bytes and
     * the closing tag. */
    struct sr1__buf content[2];
    size_t begin;                                 /* of the open action, in content[0] */
    struct sr1__text_range calls[SR1__MAX_CALLS]; /* stripped, in content[0] */
    int32_t n_calls;
    uint32_t too_long; /* bit i: call i had more than max bytes */
    struct sr1__text_range
        found;       /* search_r1_compat: content[0] is the whole turn, this within */
    int32_t answers; /* search_r1_compat: </answer> so far */
    int32_t led;     /* bare: text that is no white space stands before */
    int32_t to_end;  /* the open action reaches to the end of the message */
};

/* max 0: SR1__ACTION_MAX. Takes no memory until a tag opens. */
void sr1__scanner_init(struct sr1__scanner *s, const struct sr1__protocol *p, size_t max);
void sr1__scanner_free(struct sr1__scanner *s);
/* A new turn begins: forget everything, keep memory. */
void sr1__scanner_reset(struct sr1__scanner *s);

/* Take bytes until an event is complete: *used of the n were taken (all, if *event is
 * SR1__EVENT_NONE). After an event nothing more is taken until reset. Fails only without
 * memory. */
sr1_status sr1__scanner_feed(struct sr1__scanner *s, const char *bytes, size_t n,
                             size_t *used, int32_t *event);

/* The message ends. In a protocol of whole messages it is an action then, or the answer,
 * and in one of several actions those that it holds are. The event. */
int32_t sr1__scanner_end(struct sr1__scanner *s);

/* After an event: the stripped query or answer. Borrowed until the next reset; not
 * NUL-terminated. "" without an event. */
const char *sr1__scanner_text(const struct sr1__scanner *s, size_t *len);

/* Is an action open that the end of the message completes? */
int sr1__scanner_reaches_end(const struct sr1__scanner *s);

/* Action i of the event's n_calls, as sr1__scanner_text gives the first. */
const char *sr1__scanner_call(const struct sr1__scanner *s, int32_t i, size_t *len);

/* Is action i only the beginning of one that is too long? */
int sr1__scanner_too_long(const struct sr1__scanner *s, int32_t i);

/* Without an event, at the end of the text: as sr1__protocol_partial_answer; "" when no
 * answer is open or it is longer than SR1__MESSAGE_MAX. Borrowed until the next reset. */
const char *sr1__scanner_partial_answer(const struct sr1__scanner *s, size_t *len);

#endif
