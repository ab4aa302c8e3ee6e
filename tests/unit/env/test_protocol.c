/* The tag automaton: cases by hand, and equality with a parse of the whole text for every
 * way to cut random texts. */
#include "base/mem.h"
#include "base/rng.h"
#include "environment/env/protocol.h"
#include "base/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static const struct sr1__protocol *protocol(void)
{
    return sr1__protocol_find(NULL);
}

struct event_case {
    const char *text;
    int32_t event;
    const char *content;
    const char *rest; /* what was not taken */
};

static const struct event_case event_cases[] = {
    {"", SR1__EVENT_NONE, "", ""},
    {"no tags at all < > </ <search", SR1__EVENT_NONE, "", ""},
    {"<search> q one </search>", SR1__EVENT_ACTION, "q one", ""},
    {"<search></search>tail", SR1__EVENT_ACTION, "", "tail"},
    {"<answer> Paris </answer>\n", SR1__EVENT_ANSWER, "Paris", "\n"},
    {"<think>x</think><search>q</search><information>", SR1__EVENT_ACTION, "q",
     "<information>"},
    /* inside an open think block too */
    {"<think> I will <search>q</search> more", SR1__EVENT_ACTION, "q", " more"},
    {"<think> <answer>a</answer> </think>", SR1__EVENT_ANSWER, "a", " </think>"},
    /* a closing tag without an opening one is text */
    {"</search> </answer> <search>q</search>", SR1__EVENT_ACTION, "q", ""},
    {"</answer><answer", SR1__EVENT_NONE, "", ""},
    /* a pair reaches from the first opening tag of its kind */
    {"<search>a<search>b</search>", SR1__EVENT_ACTION, "a<search>b", ""},
    /* the first pair closed wins, whichever was opened first */
    {"<search> x <answer> y </answer> </search>", SR1__EVENT_ANSWER, "y", " </search>"},
    {"<answer> x <search> y </search> </answer>", SR1__EVENT_ACTION, "y", " </answer>"},
    /* other tags inside are content, broken ones too */
    {"<search>a <information>b</information> <sear </searc> c</search>",
     SR1__EVENT_ACTION, "a <information>b</information> <sear </searc> c", ""},
    {"<<search>q<</search>", SR1__EVENT_ACTION, "q<", ""},
    {"<search>q</se</search>", SR1__EVENT_ACTION, "q</se", ""},
    {"<Search>q</Search>", SR1__EVENT_NONE, "", ""},
    {"<search >q</search >", SR1__EVENT_NONE, "", ""},
    /* stripped of all white space that Python strips */
    {"<search>\n\t\xc2\xa0\xe3\x80\x80 \xe5\x8c\x97\xe4\xba\xac \xe2\x80\xa8</search>",
     SR1__EVENT_ACTION, "\xe5\x8c\x97\xe4\xba\xac", ""},
    {"<search> \xc0\xaf\xff </search>", SR1__EVENT_ACTION, "\xc0\xaf\xff", ""},
};

static void check_event(const struct event_case *c, size_t piece)
{
    struct sr1__scanner s;
    size_t len = strlen(c->text), at = 0, n;
    int32_t event = SR1__EVENT_NONE;
    const char *found;

    sr1__scanner_init(&s, protocol(), 0);
    while (at < len && event == SR1__EVENT_NONE) {
        size_t take = len - at < piece ? len - at : piece;
        size_t used;

        assert_int_equal(sr1__scanner_feed(&s, c->text + at, take, &used, &event),
                         SR1_OK);
        at += used;
    }
    found = sr1__scanner_text(&s, &n);
    assert_int_equal(event, c->event);
    assert_int_equal(n, strlen(c->content));
    assert_memory_equal(found, c->content, n);
    assert_string_equal(c->text + at, c->rest);
    sr1__scanner_free(&s);
}

static void events_by_hand(void **state)
{
    size_t i, piece;

    (void)state;
    for (i = 0; i < sizeof event_cases / sizeof event_cases[0]; i++)
        for (piece = 1; piece < 80; piece++)
            check_event(&event_cases[i], piece);
}

/* Position of needle in hay[0..len) from `from`, or len. */
static size_t find(const char *hay, size_t len, size_t from, const char *needle)
{
    size_t n = strlen(needle), i;

    for (i = from; i + n <= len; i++)
        if (memcmp(hay + i, needle, n) == 0)
            return i;
    return len;
}

/* The rule in its shortest form: of each kind the first opening tag and the first closing
 * tag after it; the pair closed first is the event. */
static int32_t plain_parse(const char *text, size_t len, size_t *begin, size_t *end)
{
    static const char *const open[2] = {"<search>", "<answer>"};
    static const char *const close[2] = {"</search>", "</answer>"};
    size_t b[2], e[2];
    int k;

    for (k = 0; k < 2; k++) {
        b[k] = find(text, len, 0, open[k]);
        e[k] = b[k] < len ? find(text, len, b[k] + strlen(open[k]), close[k]) : len;
    }
    if (e[0] == len && e[1] == len)
        return SR1__EVENT_NONE;
    k = e[1] < e[0];
    *begin = b[k] + strlen(open[k]);
    *end = e[k];
    return k == 0 ? SR1__EVENT_ACTION : SR1__EVENT_ANSWER;
}

static size_t random_text(struct sr1__rng *r, char *text, size_t cap)
{
    static const char *const words[] = {
        "<search>",  "</search>", "<answer>",      "</answer>", "<think>",  "</think>",
        "</informa", "tion>",     "<information>", "<",         ">",        "/",
        "<sear",     "ch>",       "</ans",         "wer>",      "a",        " ",
        "\n",        "<answer",   "</search",      "x y",       "\xe4\xbd", "\xa0",
    };
    size_t n = sr1__rng_below(r, 14), len = 0;

    while (n-- > 0) {
        const char *w = words[sr1__rng_below(r, sizeof words / sizeof words[0])];

        if (len + strlen(w) < cap) {
            memcpy(text + len, w, strlen(w));
            len += strlen(w);
        }
    }
    return len;
}

/* The scanner over text cut at `cut` and then at random. */
static void check_cut(const char *text, size_t len, size_t cut, struct sr1__rng *r)
{
    struct sr1__scanner s;
    struct sr1__text_range part = {0, 0};
    size_t begin = 0, end = 0, at = 0, n;
    int32_t expect = plain_parse(text, len, &begin, &end);
    int32_t event = SR1__EVENT_NONE;
    const char *found;

    sr1__scanner_init(&s, protocol(), 0);
    while (at < len && event == SR1__EVENT_NONE) {
        size_t take = at < cut ? cut - at : 1 + sr1__rng_below(r, len - at);
        size_t used;

        assert_int_equal(sr1__scanner_feed(&s, text + at, take, &used, &event), SR1_OK);
        at += used;
    }
    assert_int_equal(event, expect);
    assert_int_equal(sr1__protocol_first_event(protocol(), text, len, 0, NULL, NULL),
                     expect);
    found = sr1__scanner_text(&s, &n);
    if (event != SR1__EVENT_NONE) {
        assert_int_equal(at, end + strlen("</search>"));
        end -= begin;
        sr1__strip(text, &begin, &end);
        assert_int_equal(n, end);
        assert_memory_equal(found, text + begin, n);
    } else {
        found = sr1__scanner_partial_answer(&s, &n);
        sr1__protocol_partial_answer(protocol(), text, len, &part);
        assert_int_equal(n, part.len);
        assert_memory_equal(found, text + part.begin, n);
    }
    sr1__scanner_free(&s);
}

static void any_split_equals_the_whole(void **state)
{
    struct sr1__rng r;
    char text[256];
    int round, events[3] = {0, 0, 0};

    (void)state;
    sr1__rng_seed(&r, 7, 1);
    for (round = 0; round < 4000; round++) {
        size_t len = random_text(&r, text, sizeof text);
        size_t cut, b, e;

        events[plain_parse(text, len, &b, &e)]++;
        for (cut = 0; cut <= len; cut++)
            check_cut(text, len, cut, &r);
    }
    assert_true(events[0] > 100 && events[1] > 100 && events[2] > 100);
}

struct partial_case {
    const char *text;
    int open;
    const char *answer;
};

static void partial_answers(void **state)
{
    static const struct partial_case cases[] = {
        {"<think>x</think>", 0, ""},          {"<answer>", 1, ""},
        {"<answer> New York", 1, "New York"}, {"<answer> Paris </ans", 1, "Paris"},
        {"<answer> Paris <", 1, "Paris"},     {"<answer> Paris </answer", 1, "Paris"},
        {"<answer> a < b", 1, "a < b"},       {"<answer> a <answer> b ", 1, "b"},
        {"<think> <answer> b", 1, "b"},       {"<answer", 0, ""},
    };
    size_t i;

    (void)state;
    for (i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *text = cases[i].text;
        struct sr1__text_range got = {0, 0};
        struct sr1__scanner s;
        size_t used, n;
        int32_t event;
        const char *answer;

        assert_int_equal(
            sr1__protocol_partial_answer(protocol(), text, strlen(text), &got),
            cases[i].open);
        assert_int_equal(got.len, strlen(cases[i].answer));
        assert_memory_equal(text + got.begin, cases[i].answer, got.len);
        sr1__scanner_init(&s, protocol(), 0);
        assert_int_equal(sr1__scanner_feed(&s, text, strlen(text), &used, &event),
                         SR1_OK);
        answer = sr1__scanner_partial_answer(&s, &n);
        assert_int_equal(n, strlen(cases[i].answer));
        assert_memory_equal(answer, cases[i].answer, n);
        sr1__scanner_free(&s);
    }
}

static int32_t scan(struct sr1__scanner *s, const char *text, size_t *n)
{
    int32_t event;
    size_t used;

    assert_int_equal(sr1__scanner_feed(s, text, strlen(text), &used, &event), SR1_OK);
    sr1__scanner_text(s, n);
    return event;
}

/* Of an action that is too long the beginning is kept, whole characters of it; a message
 * of several has others beside it. */
static void an_action_that_is_too_long_is_known_as_such(void **state)
{
    static const struct {
        const char *protocol, *text;
        const char *calls[3]; /* '!' before one that is too long */
    } rows[] = {
        {"search-r1", "<search>1234</search>", {"1234"}},
        {"search-r1", "<search>12345</search>", {"!1234"}},
        {"search-r1", "<search>1 2\xc3\xa9</search>", {"!1 2"}},
        {"search-r1", "<search>   12345</search>", {"!1"}},
        {"hermes",
         "<tool_call>12345</tool_call><tool_call>1</tool_call>\n<tool_call>1234567"
         "</tool_call>",
         {"!1234", "1", "!1234"}},
        {"llama3", "<|python_tag|>{\"a\"}", {"!{\"a\""}},
        {"llama3", "{\"a\": 1}", {"!{\"a\""}},
        {"llama3", "{}; {}", {"!{};"}},
    };
    size_t n, used;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct sr1__protocol *p = sr1__protocol_find(rows[i].protocol);
        const char *text = rows[i].text;
        struct sr1__text_range first = {0, 0};
        struct sr1__scanner s;
        int32_t event, k;

        sr1__scanner_init(&s, p, 4);
        s.max_calls = 3;
        assert_int_equal(sr1__scanner_feed(&s, text, strlen(text), &used, &event),
                         SR1_OK);
        assert_int_equal(sr1__scanner_end(&s), SR1__EVENT_ACTION);
        for (k = 0; k < 3 && rows[i].calls[k]; k++) {
            const char *found = sr1__scanner_call(&s, k, &n), *call = rows[i].calls[k];

            assert_int_equal(sr1__scanner_too_long(&s, k), *call == '!');
            call += *call == '!';
            assert_int_equal(n, strlen(call));
            assert_memory_equal(found, call, n);
        }
        assert_int_equal(s.n_calls, k);
        assert_int_equal(
            sr1__protocol_first_event(p, text, strlen(text), 4, &first, NULL),
            SR1__EVENT_ACTION);
        (void)sr1__scanner_call(&s, 0, &n);
        assert_int_equal(first.len, n);
        sr1__scanner_reset(&s);
        assert_false(sr1__scanner_too_long(&s, 0));
        sr1__scanner_free(&s);
    }
}

/* A report is an answer; what no message may hold is none, and takes no memory. */
static void answers_are_as_long_as_messages(void **state)
{
    static const char tag[] = "<answer>", end[] = "</answer>";
    static char text[sizeof tag + SR1__MESSAGE_MAX + sizeof end];
    struct sr1__scanner s;
    size_t n, used;
    int32_t event;

    (void)state;
    sr1__scanner_init(&s, protocol(), 0);
    for (size_t len = SR1__MESSAGE_MAX; len <= SR1__MESSAGE_MAX + 1; len++) {
        int32_t want = len <= SR1__MESSAGE_MAX ? SR1__EVENT_ANSWER : SR1__EVENT_NONE;

        sr1__scanner_reset(&s);
        memset(text, 'a', sizeof text);
        memcpy(text, tag, strlen(tag));
        assert_int_equal(sr1__scanner_feed(&s, text, strlen(tag) + len, &used, &event),
                         SR1_OK);
        sr1__scanner_partial_answer(&s, &n);
        assert_int_equal(n, want == SR1__EVENT_ANSWER ? len : 0);
        memcpy(text + strlen(tag) + len, end, strlen(end));
        assert_int_equal(scan(&s, end, &n), want);
        assert_int_equal(n, want == SR1__EVENT_ANSWER ? len : 0);
        assert_int_equal(sr1__protocol_first_event(protocol(), text,
                                                   strlen(tag) + len + strlen(end),
                                                   SR1__ACTION_MAX, NULL, NULL),
                         want);
    }
    assert_true(s.content[1].cap < 4 * SR1__MESSAGE_MAX);
    sr1__scanner_free(&s);
    sr1__scanner_init(&s, protocol(), 4);
    assert_int_equal(scan(&s, "<search>", &n), SR1__EVENT_NONE);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(scan(&s, "12345", &n), SR1__EVENT_NONE);
    assert_true(s.content[0].cap < 128);
    sr1__scanner_free(&s);
}

static void a_turn_forgets_the_one_before(void **state)
{
    struct sr1__scanner s;
    size_t n;

    (void)state;
    sr1__scanner_init(&s, protocol(), 0);
    assert_int_equal(scan(&s, "<answer> a <search>q</search>", &n), SR1__EVENT_ACTION);
    /* nothing is taken until reset */
    assert_int_equal(scan(&s, "</answer>", &n), SR1__EVENT_ACTION);
    assert_int_equal(n, 1);
    sr1__scanner_reset(&s);
    assert_int_equal(scan(&s, "b </answer> <sea", &n), SR1__EVENT_NONE);
    sr1__scanner_reset(&s);
    assert_int_equal(scan(&s, "rch>x</search>", &n), SR1__EVENT_NONE);
    sr1__scanner_free(&s);
}

static void out_of_memory_is_a_status(void **state)
{
    struct sr1__scanner s;
    int32_t event;
    size_t used;

    (void)state;
    sr1__scanner_init(&s, protocol(), 0);
    sr1__mem_fail_at(1);
    assert_int_equal(sr1__scanner_feed(&s, "<search>q</search>", 18, &used, &event),
                     SR1_E_NOMEM);
    sr1__mem_fail_at(0);
    sr1__scanner_reset(&s);
    assert_int_equal(sr1__scanner_feed(&s, "<search>q</search>", 18, &used, &event),
                     SR1_OK);
    assert_int_equal(event, SR1__EVENT_ACTION);
    sr1__scanner_free(&s);
}

static void blocks_split(void **state)
{
    const char *text =
        "\n\n<information>a <information> b </information> c</information>\n";
    size_t begin, n;

    (void)state;
    assert_int_equal(sr1__observation_split(protocol(), text, strlen(text), &begin, &n),
                     SR1_OK);
    assert_int_equal(n, strlen("a <information> b </information> c"));
    assert_int_equal(begin, strlen("\n\n<information>"));
    assert_int_equal(
        sr1__observation_split(protocol(), "</information><information>", 27, &begin, &n),
        SR1_E_PARSE);
}

static void protocols_by_name(void **state)
{
    (void)state;
    assert_string_equal(sr1__protocol_find("search-r1")->name, "search-r1");
    assert_string_equal(sr1__protocol_name(0), "search-r1");
    assert_null(sr1__protocol_find("nope"));
    assert_non_null(strstr(sr1_last_error(), "search-r1"));
}

/* In the protocol ctrl a message is its action, whatever stands in it. */
static void a_whole_message_is_an_action(void **state)
{
    static const char text[] = " <answer>no</answer> <search>x</search>\n";
    const struct sr1__protocol *p = sr1__protocol_find("ctrl");
    struct sr1__scanner s;
    struct sr1__text_range content;
    size_t used, n;
    int32_t event;

    (void)state;
    assert_int_equal(sr1__protocol_first_event(p, text, strlen(text), 0, &content, NULL),
                     SR1__EVENT_NONE);
    sr1__scanner_init(&s, p, 4);
    for (size_t i = 0; i < strlen(text); i++) { /* in pieces */
        assert_int_equal(sr1__scanner_feed(&s, text + i, 1, &used, &event), SR1_OK);
        assert_int_equal(used, 1);
        assert_int_equal(event, SR1__EVENT_NONE);
    }
    (void)sr1__scanner_text(&s, &n);
    assert_int_equal(n, 0); /* it has not ended */
    assert_int_equal(sr1__scanner_end(&s), SR1__EVENT_ACTION);
    assert_memory_equal(sr1__scanner_text(&s, &n), text + 1, strlen(text) - 2);
    assert_int_equal(n, strlen(text) - 2);
    sr1__scanner_reset(&s);
    assert_int_equal(sr1__scanner_feed(&s, "next", 4, &used, &event), SR1_OK);
    assert_int_equal(sr1__scanner_end(&s), SR1__EVENT_ACTION);
    assert_memory_equal(sr1__scanner_text(&s, &n), "next", 4);
    sr1__scanner_free(&s);
    sr1__scanner_init(&s, protocol(), 0); /* others have tags */
    assert_int_equal(sr1__scanner_end(&s), SR1__EVENT_NONE);
    sr1__scanner_free(&s);
}

/* In the protocol chat a message is the answer, without its thoughts. */
static void a_whole_message_is_an_answer(void **state)
{
    static const struct {
        const char *text, *answer;
    } rows[] = {
        {" <search>x</search> 42.\n", "<search>x</search> 42."},
        {"<think> 6 * 7 </think>\n\n42", "42"},
        {"6 * 7 </think> 42", "42"}, /* the prompt opened it */
        {"<think> a </think> b <think> c </think> d", "d"},
        {"<think> 6 * 7", ""},
        {"I <think> so", "I <think> so"},
        {"  ", ""},
        {"", ""},
    };
    const struct sr1__protocol *p = sr1__protocol_find("chat");
    struct sr1__scanner s;
    size_t used, n;
    int32_t event;

    (void)state;
    sr1__scanner_init(&s, p, 0);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *text = rows[i].text, *answer = rows[i].answer;

        sr1__scanner_reset(&s);
        assert_int_equal(sr1__scanner_feed(&s, text, strlen(text), &used, &event),
                         SR1_OK);
        assert_int_equal(event, SR1__EVENT_NONE);
        for (int whole = 0; whole < 2; whole++) { /* the same for one that is cut */
            const char *got =
                whole ? sr1__scanner_text(&s, &n) : sr1__scanner_partial_answer(&s, &n);

            assert_int_equal(n, strlen(answer));
            assert_memory_equal(got, answer, n);
            assert_int_equal(sr1__scanner_end(&s), SR1__EVENT_ANSWER);
        }
    }
    sr1__scanner_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_by_hand),
        cmocka_unit_test(any_split_equals_the_whole),
        cmocka_unit_test(partial_answers),
        cmocka_unit_test(an_action_that_is_too_long_is_known_as_such),
        cmocka_unit_test(answers_are_as_long_as_messages),
        cmocka_unit_test(a_turn_forgets_the_one_before),
        cmocka_unit_test(out_of_memory_is_a_status),
        cmocka_unit_test(blocks_split),
        cmocka_unit_test(protocols_by_name),
        cmocka_unit_test(a_whole_message_is_an_action),
        cmocka_unit_test(a_whole_message_is_an_answer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
