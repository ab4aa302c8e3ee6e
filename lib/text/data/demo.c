/* text/data/demo.c - the three forms of demonstration rows, read strictly. */
#include "text/data/demo.h"

#include "base/mem.h"
#include "text/data/row_files.h"

#include <string.h>

struct sr1__demos {
    struct sr1__row_files *files;
    int64_t *rows; /* [count] of files; NULL: all */
    int64_t count;
};

/* Role names, and whether the loss counts their text; the table ends with NULL. */
struct speaker {
    const char *word;
    int is_policy;
};

static const struct speaker sources[] = {{"policy", 1}, {"environment", 0}, {NULL, 0}};
static const struct speaker roles[] = {{"assistant", 1}, {"user", 0},      {"system", 0},
                                       {"tool", 0},      {"developer", 0}, {NULL, 0}};

/* How one form is written. */
struct demo_form {
    const char *list_key;
    const char *who_key;
    const char *text_key;
    const char *allowed;
    const struct speaker *speakers;
};

static const struct demo_form segments_form = {"segments", "source", "text",
                                               "policy or environment", sources};
static const struct demo_form messages_form = {
    "messages", "role", "content", "system, developer, user, assistant or tool", roles};

static sr1_status get_text(const json_t *o, const char *key, const char **out)
{
    const char *s;

    SR1__TRY(sr1__json_get_str(o, key, &s));
    if (strlen(s) != json_string_length(json_object_get(o, key)))
        return sr1__fail(SR1_E_PARSE, "'%s' holds a NUL character", key);
    *out = s;
    return SR1_OK;
}

/* "weight": 0 makes a message of the assistant context, as in other trainers. */
static sr1_status take_weight(const json_t *o, int *is_policy)
{
    const json_t *weight = json_object_get(o, "weight");

    if (!weight)
        return SR1_OK;
    if (!json_is_integer(weight) || json_integer_value(weight) < 0 ||
        json_integer_value(weight) > 1)
        return sr1__fail(SR1_E_PARSE, "'weight' must be 0 or 1");
    *is_policy = *is_policy && json_integer_value(weight);
    return SR1_OK;
}

/* ---- members beside the text of a message ---- */

static int has_other_parts(const json_t *o)
{
    return json_array_size(json_object_get(o, "tool_calls")) ||
           json_string_length(json_object_get(o, "reasoning_content"));
}

/* Arguments are an object, or the text of one (OpenAI's form), which becomes it. */
static sr1_status read_call_arguments(json_t *call)
{
    json_t *function = json_object_get(call, "function"), *args, *object = NULL;
    sr1_status status;

    function = function ? function : call;
    args = json_object_get(function, "arguments");
    if (json_is_string(json_object_get(function, "name")) && json_is_object(args))
        return SR1_OK;
    if (!json_is_string(json_object_get(function, "name")) || !json_is_string(args))
        return sr1__fail(SR1_E_PARSE, "a tool call needs 'name' and 'arguments'");
    status = sr1__json_parse(&object, json_string_value(args), json_string_length(args),
                             "'arguments' of a tool call");
    if (status == SR1_OK && !json_is_object(object)) {
        json_decref(object);
        return sr1__fail(SR1_E_PARSE, "'arguments' of a tool call are no JSON object");
    }
    if (status == SR1_OK && json_object_set_new(function, "arguments", object) != 0)
        return sr1__fail_nomem("demonstration");
    return status;
}

static sr1_status read_tool_calls(const json_t *o)
{
    const json_t *calls = json_object_get(o, "tool_calls");

    for (size_t i = 0; i < json_array_size(calls); i++)
        SR1__TRY(sr1__context(read_call_arguments(json_array_get(calls, i)),
                              "tool_calls[%zu]", i));
    return SR1_OK;
}

static sr1_status take_text(const struct demo_form *form, const json_t *o,
                            struct sr1__demo_segment *segment)
{
    segment->text = "";
    if (form == &segments_form && has_other_parts(o))
        return sr1__fail(SR1_E_PARSE, "'tool_calls' and 'reasoning_content' are members "
                                      "of 'messages'; a segment has them in its text");
    if (form == &segments_form)
        return get_text(o, form->text_key, &segment->text);
    segment->message = o;
    SR1__TRY(read_tool_calls(o));
    return has_other_parts(o) && !sr1__json_given(o, form->text_key)
               ? SR1_OK
               : get_text(o, form->text_key, &segment->text);
}

static sr1_status take_segment(const struct demo_form *form, const json_t *o,
                               struct sr1__demo_segment *segment)
{
    const struct speaker *speaker = form->speakers;
    const char *who;

    SR1__TRY(get_text(o, form->who_key, &who));
    SR1__TRY(take_text(form, o, segment));
    while (speaker->word && strcmp(speaker->word, who) != 0)
        speaker++;
    if (!speaker->word)
        return sr1__fail(SR1_E_PARSE, "'%s' is '%.40s', not %s", form->who_key, who,
                         form->allowed);
    segment->is_policy = speaker->is_policy;
    segment->role = form == &messages_form ? speaker->word : NULL;
    return take_weight(o, &segment->is_policy);
}

/* Elements of a list, named `key`, into segments [size of the list]. */
static sr1_status fill_segments(const struct demo_form *form, const char *key,
                                const json_t *list, struct sr1__demo_segment *segments)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        SR1__TRY(sr1__context(take_segment(form, json_array_get(list, i), &segments[i]),
                              "%s[%zu]", key, i));
    return SR1_OK;
}

static sr1_status check_learned(const struct sr1__demo *demo, const char *key)
{
    for (size_t i = 0; i < demo->n_segments; i++)
        if (demo->segments[i].is_policy && (demo->segments[i].text[0] != '\0' ||
                                            has_other_parts(demo->segments[i].message)))
            return SR1_OK;
    return sr1__fail(SR1_E_PARSE, "nothing to learn: '%s' holds no text by the policy",
                     key);
}

static sr1_status take_segments(const struct demo_form *form, const json_t *list,
                                struct sr1__demo *demo)
{
    size_t n = json_array_size(list);

    if (n == 0)
        return sr1__fail(SR1_E_PARSE, "'%s' must be a list that is not empty",
                         form->list_key);
    SR1__CALLOC(demo->segments, n, "demonstration");
    demo->n_segments = n;
    SR1__TRY(fill_segments(form, form->list_key, list, demo->segments));
    return check_learned(demo, form->list_key);
}

/* The two sides of the form prompt and completion. */
static const struct side {
    const char *key;
    const char *role; /* of a side that is a text */
    int is_policy;
} sides[] = {{"prompt", "user", 0}, {"completion", "assistant", 1}};

/* Append a side: messages, or a text as one message of the side's role. The loss counts
 * no message of a prompt. */
static sr1_status take_side(const struct side *side, struct sr1__demo *demo)
{
    const json_t *value = json_object_get(demo->json, side->key);
    struct sr1__demo_segment *to = demo->segments + demo->n_segments;
    size_t n = json_is_string(value) ? 1 : json_array_size(value);

    if (n == 0)
        return sr1__fail(SR1_E_PARSE,
                         "'%s' must be text, or a list of messages that is not empty",
                         side->key);
    if (json_is_string(value)) {
        *to =
            (struct sr1__demo_segment){.role = side->role, .is_policy = side->is_policy};
        SR1__TRY(get_text(demo->json, side->key, &to->text));
    } else {
        SR1__TRY(fill_segments(&messages_form, side->key, value, to));
    }
    for (size_t i = 0; i < n; i++)
        to[i].is_policy = to[i].is_policy && side->is_policy;
    demo->n_segments += n;
    return SR1_OK;
}

/* {"prompt": ..., "completion": ...} is the conversation of both. */
static sr1_status take_sides(struct sr1__demo *demo)
{
    size_t room = 2 + json_array_size(json_object_get(demo->json, "prompt")) +
                  json_array_size(json_object_get(demo->json, "completion"));

    SR1__CALLOC(demo->segments, room, "demonstration");
    for (size_t i = 0; i < sizeof sides / sizeof *sides; i++)
        SR1__TRY(take_side(&sides[i], demo));
    return check_learned(demo, "completion");
}

static sr1_status first_user(struct sr1__demo *demo)
{
    for (size_t i = 0; i < demo->n_segments; i++) {
        if (strcmp(demo->segments[i].role, "user") == 0) {
            demo->question = demo->segments[i].text;
            return SR1_OK;
        }
    }
    return sr1__fail(SR1_E_PARSE, "the conversation has no message of the user");
}

static sr1_status read_demo_history(struct sr1__demo *demo)
{
    const json_t *list = sr1__json_given(demo->json, "history");

    if (!list)
        return SR1_OK;
    if (!json_is_array(list))
        return sr1__fail(SR1_E_PARSE, "'history' is no list");
    return sr1__messages_read(&demo->history, list, json_array_size(list), "history");
}

/* A list, or the text of one, as sets that are kept in tables have it. */
static sr1_status read_demo_tools(struct sr1__demo *demo)
{
    const json_t *tools = json_object_get(demo->json, "tools");
    const char *written = NULL;
    struct sr1__buf text;

    if (!json_array_size(tools) && !json_string_length(tools))
        return SR1_OK;
    if (json_is_string(tools))
        SR1__TRY(get_text(demo->json, "tools", &written));
    sr1__buf_init(&text, 0);
    if (written)
        sr1__buf_str(&text, written);
    else if (sr1__json_dump(tools, 0, &text) != SR1_OK)
        text.status = SR1_E_NOMEM;
    return sr1__buf_finish(&text, "'tools'", &demo->tools);
}

static sr1_status fill_demo(struct sr1__demo *demo)
{
    const json_t *segments = json_object_get(demo->json, "segments");
    const json_t *messages = json_object_get(demo->json, "messages");
    const json_t *completion = json_object_get(demo->json, "completion");

    if (!!segments + !!messages + !!completion != 1)
        return sr1__fail(SR1_E_PARSE,
                         "a demonstration has either 'question' with 'segments', "
                         "'messages', or 'prompt' with 'completion'");
    if (segments) {
        SR1__TRY(get_text(demo->json, "question", &demo->question));
        SR1__TRY(read_demo_history(demo));
        return take_segments(&segments_form, segments, demo);
    }
    demo->is_chat = 1;
    SR1__TRY(read_demo_tools(demo));
    SR1__TRY(messages ? take_segments(&messages_form, messages, demo) : take_sides(demo));
    return first_user(demo);
}

static int64_t find_row(const struct sr1__demos *d, int64_t i)
{
    return d->rows ? d->rows[i] : i;
}

sr1_status sr1__demos_context(const struct sr1__demos *d, int64_t i, sr1_status status)
{
    return sr1__row_files_context(d->files, find_row(d, i), status);
}

sr1_status sr1__demos_read(const struct sr1__demos *d, int64_t i, struct sr1__demo *out)
{
    struct sr1__demo demo = {0};
    json_t *json = NULL;
    sr1_status status;

    SR1__TRY(sr1__row_files_read(d->files, find_row(d, i), &json));
    demo.json = json;
    status = sr1__demos_context(d, i, fill_demo(&demo));
    if (status != SR1_OK) {
        sr1__demo_clear(&demo);
        return status;
    }
    *out = demo;
    return SR1_OK;
}

void sr1__demo_clear(struct sr1__demo *demo)
{
    sr1__free(demo->segments);
    sr1__free(demo->tools);
    sr1__messages_free(&demo->history);
    json_decref(demo->json);
    memset(demo, 0, sizeof *demo);
}

static sr1_status check_demo_rows(const struct sr1__demos *d)
{
    struct sr1__demo demo;

    for (int64_t i = 0; i < d->count; i++) {
        SR1__TRY(sr1__demos_read(d, i, &demo));
        sr1__demo_clear(&demo);
    }
    return SR1_OK;
}

sr1_status sr1__demos_open(struct sr1__demos **out, const char *path)
{
    struct sr1__demos *d = sr1__calloc(1, sizeof *d);
    sr1_status status;

    SR1__CHECK_ALLOC(d, "demonstrations");
    status = sr1__row_files_open(&d->files, &path, 1);
    if (status == SR1_OK) {
        d->count = sr1__row_files_count(d->files);
        status = check_demo_rows(d);
    }
    SR1__RETURN_NEW(out, d, status, sr1__demos_free);
}

void sr1__demos_free(struct sr1__demos *d)
{
    if (!d)
        return;
    sr1__row_files_free(d->files);
    sr1__free(d->rows);
    sr1__free(d);
}

int64_t sr1__demos_count(const struct sr1__demos *d)
{
    return d->count;
}

sr1_status sr1__demos_keep(struct sr1__demos *d, const int64_t *rows, int64_t n)
{
    int64_t *kept = sr1__calloc((size_t)n + 1, sizeof *kept);

    SR1__CHECK_ALLOC(kept, "demonstrations");
    for (int64_t i = 0; i < n; i++)
        kept[i] = find_row(d, rows[i]);
    sr1__free(d->rows);
    d->rows = kept;
    d->count = n;
    return SR1_OK;
}

sr1_status sr1__demos_hash(const struct sr1__demos *d, uint64_t *out)
{
    uint64_t hash = 0;

    for (int64_t i = 0; i < d->count; i++)
        SR1__TRY(sr1__row_files_hash(d->files, find_row(d, i), &hash));
    *out = hash;
    return SR1_OK;
}
