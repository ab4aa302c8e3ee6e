/* text/data/dataset_row.c - turn one row into a question: fields by name, answers,
 * history, id. */
#include "text/data/dataset_row.h"

#include "base/mem.h"
#include "base/num.h"
#include "base/rng.h"
#include "base/text.h"
#include "text/data/boxed.h"
#include "text/data/dataset.h"
#include "text/data/python_list.h"
#include "text/data/question.h"
#include "text/data/records.h"
#include "text/data/row_files.h"

#include <searchr1/ext/data_files.h>

#include <stdio.h>
#include <string.h>

struct sr1_row {
    json_t *json;
    char *id;
    char *data_source;
    const char *question; /* in json, or */
    char *inner;          /* cut out of it */
    char **answers;
    size_t n_answers;
    struct sr1__messages history; /* of json, or of */
    json_t *history_list;         /* read from a cell */
};

void sr1_row_free(sr1_row *row)
{
    if (!row)
        return;
    for (size_t i = 0; i < row->n_answers; i++)
        sr1__free(row->answers[i]);
    sr1__free(row->answers);
    sr1__free(row->id);
    sr1__free(row->data_source);
    sr1__free(row->inner);
    sr1__messages_free(&row->history);
    json_decref(row->history_list);
    json_decref(row->json);
    sr1__free(row);
}

const char *sr1_row_id(const sr1_row *row)
{
    return row ? row->id : "";
}

const char *sr1_row_question(const sr1_row *row)
{
    return row ? row->question : "";
}

const char *sr1_row_data_source(const sr1_row *row)
{
    return row ? row->data_source : "";
}

size_t sr1_row_answer_count(const sr1_row *row)
{
    return row ? row->n_answers : 0;
}

const char *sr1_row_answer(const sr1_row *row, size_t index)
{
    return row && index < row->n_answers ? row->answers[index] : NULL;
}

size_t sr1_row_history_count(const sr1_row *row)
{
    return row ? row->history.n : 0;
}

const char *sr1_row_history(const sr1_row *row, size_t index, const char **role)
{
    if (!row || index >= row->history.n)
        return NULL;
    if (role)
        *role = row->history.roles[index];
    return row->history.texts[index];
}

const struct sr1__messages *sr1__row_history(const sr1_row *row)
{
    return &row->history;
}

const json_t *sr1__dataset_row_json(const sr1_row *row)
{
    return row->json;
}

sr1_status sr1_row_json(const sr1_row *row, char **out)
{
    struct sr1__buf b;
    sr1_status status;

    SR1__REQUIRE(row && out, "row: row and out");
    sr1__buf_init(&b, 0);
    status = sr1__json_dump(row->json, 0, &b);
    if (status == SR1_OK)
        *out = sr1__buf_take(&b);
    sr1__buf_free(&b);
    return status;
}

/* "no field 'question'; fields are a, b; set question_field" */
static sr1_status no_field(const json_t *json, const char *field, const char *remedy)
{
    struct sr1__buf b;
    const char *name;
    json_t *v;
    sr1_status status;

    sr1__buf_init(&b, 512); /* a longer list is cut */
    json_object_foreach((json_t *)(uintptr_t)json, name, v)
        sr1__buf_fmt(&b, "%s%.64s", b.len ? ", " : "", name);
    status = sr1__fail(SR1_E_PARSE, "no field '%s'; fields are %s; set %s", field,
                       b.len ? sr1__buf_cstr(&b) : "none", remedy);
    sr1__buf_free(&b);
    return status;
}

static sr1_status refuse_value(const json_t *v, const char *field)
{
    static const char *const kinds[] = {"an object", "a list", "a text", "a number",
                                        "a number",  "true",   "false",  "null"};

    return sr1__fail(
        SR1_E_PARSE, "field '%s' is not text: it has %s%s", field, kinds[json_typeof(v)],
        json_is_boolean(v) ? "; write the text that is meant, as \"yes\"" : "");
}

/* The text of a member, which must be a string without NUL bytes. */
static sr1_status read_text_field(const json_t *v, const char *field, const char **out)
{
    if (!json_is_string(v))
        return refuse_value(v, field);
    if (strlen(json_string_value(v)) != json_string_length(v))
        return sr1__fail(SR1_E_PARSE, "field '%s' holds a NUL character", field);
    *out = json_string_value(v);
    return SR1_OK;
}

/* The same, or a number as its text: in number[32]. Tables of pandas have 7.0 where a
 * column of 7 has a gap; both are "7". */
static sr1_status read_scalar_field(const json_t *v, const char *field, char *number,
                                    const char **out)
{
    if (json_is_integer(v))
        snprintf(number, 32, "%lld", (long long)json_integer_value(v));
    else if (json_is_real(v))
        sr1__format_real(json_real_value(v), number);
    else
        return read_text_field(v, field, out);
    *out = number;
    return SR1_OK;
}

/* A list of messages that ends with the question: "prompt", as in a record, or
 * "messages"; a prompt may be the question itself, as text. NULL where there is none. */
static const json_t *find_messages(const json_t *row, const char **field)
{
    const json_t *prompt = json_object_get(row, "prompt");
    int taken = json_is_array(prompt) || json_is_string(prompt);

    *field = taken ? "prompt" : "messages";
    return taken ? prompt : json_object_get(row, "messages");
}

/* Messages of a demonstration go on behind its question, and are no part of it; a prompt
 * would be cut. */
static sr1_status check_prompt_end(const json_t *list, size_t last)
{
    return last + 1 == json_array_size(list)
               ? SR1_OK
               : sr1__fail(SR1_E_PARSE,
                           "field 'prompt' goes on behind the last message of the user, "
                           "and nothing here continues another's message; leave it out");
}

/* The user's last message is the question, those before it are the history. A prompt's
 * may be that of a record, with the question in it. */
static sr1_status take_messages(sr1_row *row, const json_t *list, const char *field)
{
    size_t last;

    SR1__TRY(sr1__messages_question(list, field, &last));
    SR1__TRY(read_text_field(json_object_get(json_array_get(list, last), "content"),
                             field, &row->question));
    if (strcmp(field, "prompt") == 0) {
        SR1__TRY(check_prompt_end(list, last));
        row->inner = sr1__question_within(row->question);
        SR1__CHECK_ALLOC(row->inner, "question");
        row->question = row->inner;
    }
    return sr1__messages_read(&row->history, list, last, field);
}

/* What other public sets call it: Bamboogle; MATH; the queries of BEIR. */
static const json_t *find_named_question(const json_t *row, const char **field)
{
    const json_t *v = json_object_get(row, *field = "Question");

    v = v ? v : json_object_get(row, *field = "problem");
    return v || !json_object_get(row, "_id") ? v : json_object_get(row, *field = "text");
}

static int is_blank(const char *text)
{
    return text[strspn(text, " \t\r\n")] == '\0';
}

static sr1_status take_question(const struct sr1__fields *f, sr1_row *row)
{
    const json_t *v = json_object_get(row->json, f->question);
    const char *field = f->question;
    const json_t *list = NULL;

    if (json_is_object(json_array_get(v, 0))) { /* a column of messages */
        list = v;
        v = NULL;
    } else if (!v && strcmp(f->question, SR1__DEFAULT_QUESTION) == 0) {
        list = find_messages(row->json, &field);
        if (json_is_string(list)) {
            v = list; /* a prompt in one text */
            list = NULL;
        }
        if (!v && !list)
            v = find_named_question(row->json, &field);
    }
    if (!v && !list)
        return no_field(row->json, f->question, "question_field");
    SR1__TRY(v ? read_text_field(v, field, &row->question)
               : take_messages(row, list, field));
    if (is_blank(row->question))
        return sr1__fail(SR1_E_PARSE, "field '%s' is empty", field);
    return SR1_OK;
}

static int is_known(const sr1_row *row, const char *text)
{
    for (size_t i = 0; i < row->n_answers; i++)
        if (strcmp(row->answers[i], text) == 0)
            return 1;
    return 0;
}

/* What follows the #### of a last line; NULL: there is none. */
static const char *find_marked_answer(const char *text)
{
    size_t n = strlen(text);

    while (n && strchr(" \t\r\n", text[n - 1]))
        n--;
    while (n && text[n - 1] != '\n')
        n--;
    return n && strncmp(text + n, "#### ", 5) == 0 && !is_blank(text + n + 5)
               ? text + n + 5
               : NULL;
}

/* What is right in an answer that is a worked solution: of GSM8K it stands behind the
 * #### of the last line, of MATH in the last \boxed{...}. */
static struct sr1__str find_result(const char *text)
{
    const char *marked = find_marked_answer(text);
    struct sr1__str result = sr1__str_of(text);
    size_t begin = 0;

    if (marked || !sr1__boxed(result, &result))
        return sr1__str_of(marked ? marked : text);
    sr1__strip(result.s, &begin, &result.n);
    result.s += begin;
    return result.n > 0 ? result : sr1__str_of(text);
}

/* One answer: text, or a number as its text. A blank one, as the gap of a CSV
 * file, is none: it would be the right answer to nothing, or to all. */
static sr1_status add_ground_truth(const struct sr1__fields *f, sr1_row *row,
                                   const json_t *v)
{
    char number[32];
    const char *text;
    char **answers;
    struct sr1__str result;

    SR1__TRY(read_scalar_field(v, f->answer, number, &text));
    if (is_blank(text))
        return SR1_OK;
    result = find_result(text);
    answers = sr1__realloc(row->answers, row->n_answers + 1, sizeof *answers);
    SR1__CHECK_ALLOC(answers, "answers");
    row->answers = answers;
    answers[row->n_answers] = sr1__strndup(result.s, result.n);
    SR1__CHECK_ALLOC(answers[row->n_answers], "answers");
    row->n_answers++;
    return SR1_OK;
}

/* Members of an answer object that hold answers: TriviaQA's, SQuAD's. */
static const char *const answer_members[] = {"value", "aliases", "normalized_aliases",
                                             "Value", "Aliases", "NormalizedAliases",
                                             "text"};
#define MAX_ALIASES 4096 /* each is compared with those before it */
#define ANSWER_MEMBERS (sizeof answer_members / sizeof answer_members[0])

/* Those of its answers that are not empty, each once. */
static sr1_status add_answer_object(const struct sr1__fields *f, sr1_row *row,
                                    const json_t *v)
{
    size_t found = 0;

    for (size_t m = 0; m < ANSWER_MEMBERS; m++) {
        const json_t *list = json_object_get(v, answer_members[m]);
        size_t n = json_is_array(list) ? json_array_size(list) : list != NULL;

        found += list != NULL;
        for (size_t i = 0; i < n; i++) {
            const json_t *one = json_is_array(list) ? json_array_get(list, i) : list;
            const char *text = json_string_value(one);

            if (text && is_known(row, text))
                continue;
            if (row->n_answers == MAX_ALIASES)
                return sr1__fail(SR1_E_LIMIT, "field '%s' has more than %d answers",
                                 f->answer, MAX_ALIASES);
            SR1__TRY(add_ground_truth(f, row, one));
        }
    }
    if (found == 0)
        return sr1__fail(SR1_E_PARSE,
                         "field '%s' is an object without value, aliases, "
                         "normalized_aliases or text",
                         f->answer);
    return SR1_OK;
}

/* A text, a number, or an object as above. */
static sr1_status add_answer(const struct sr1__fields *f, sr1_row *row, const json_t *v)
{
    return json_is_object(v) ? add_answer_object(f, row, v) : add_ground_truth(f, row, v);
}

/* One answer, or a list of them. */
static sr1_status add_answers(const struct sr1__fields *f, sr1_row *row, const json_t *v)
{
    if (!json_is_array(v))
        return add_answer(f, row, v);
    for (size_t i = 0; i < json_array_size(v); i++)
        SR1__TRY(add_answer(f, row, json_array_get(v, i)));
    return SR1_OK;
}

/* The names of the answers in public data sets: NQ-open, TriviaQA, HotpotQA,
 * 2WikiMultihopQA, MuSiQue and TRL's rows; lists of several; PopQA; Bamboogle. */
#define POPQA "possible_answers"
#define MUSIQUE "answer_aliases"
static const char *const answer_names[] = {"answer", "answers", POPQA, "Answer"};

/* MATH's rows have a solution alone, in which the answer is boxed. */
static const json_t *find_boxed_answer(const json_t *row)
{
    const json_t *v = json_object_get(row, "solution");
    struct sr1__str text = sr1__str_of(json_string_value(v));

    return sr1__boxed(text, &text) ? v : NULL;
}

static const json_t *find_named_answers(const json_t *row)
{
    const json_t *v = sr1__record_target(row);

    for (size_t i = 0; !v && i < sizeof answer_names / sizeof answer_names[0]; i++)
        v = json_object_get(row, answer_names[i]);
    return v ? v : find_boxed_answer(row);
}

/* The answer field: a member of that name, or else by its path, "answer.aliases". Where
 * the default is asked for and missing, the target of a record will do, or a member that
 * public sets have in its place. */
static const json_t *find_answers(const struct sr1__fields *f, const json_t *row)
{
    const json_t *v = json_object_get(row, f->answer);
    const char *at = f->answer;

    if (v)
        return v;
    if (strcmp(f->answer, SR1__DEFAULT_ANSWERS) == 0)
        return find_named_answers(row);
    for (v = row; v && at; at = at[strcspn(at, ".")] ? at + strcspn(at, ".") + 1 : NULL)
        v = json_object_getn(v, at, strcspn(at, "."));
    return v;
}

/* A CSV cell may hold a list as JSON, ["a", "b"], or as Python prints one; so does
 * PopQA's text. *list stays NULL when this is not one, or the row is of a file that has
 * lists of its own. */
static sr1_status list_in_cell(const json_t *v, int is_cell, json_t **list)
{
    const char *s = json_string_value(v);
    sr1_status status = SR1_OK;

    if (s && s[0] == '[' && is_cell)
        status = sr1__json_parse(list, s, json_string_length(v), "list");
    if (status == SR1_E_PARSE)
        status = sr1__python_list_read(s, json_string_length(v), list);
    return status == SR1_E_NOMEM ? status : SR1_OK;
}

/* MuSiQue's further answers, beside the first, each once. */
static sr1_status add_aliases(const struct sr1__fields *f, sr1_row *row)
{
    const json_t *list = json_object_get(row->json, MUSIQUE);

    for (size_t i = 0; json_is_array(list) && i < json_array_size(list); i++) {
        const json_t *one = json_array_get(list, i);

        if (row->n_answers == MAX_ALIASES)
            return sr1__fail(SR1_E_LIMIT, "field '" MUSIQUE "' has more than %d answers",
                             MAX_ALIASES);
        if (!json_is_string(one) || !is_known(row, json_string_value(one)))
            SR1__TRY(add_ground_truth(f, row, one));
    }
    return SR1_OK;
}

/* The member that has the answers; the field asked for where they lie deeper. */
static const char *name_answer_field(const struct sr1__fields *f, json_t *row,
                                     const json_t *answers)
{
    const char *name;
    json_t *member;

    json_object_foreach(row, name, member)
    {
        if (member == answers)
            return name;
    }
    return f->answer;
}

static sr1_status read_ground_truths(const struct sr1__fields *f, sr1_row *row,
                                     const char *path)
{
    const json_t *v = find_answers(f, row->json);
    int is_default = strcmp(f->answer, SR1__DEFAULT_ANSWERS) == 0;
    int is_cell =
        sr1__row_files_has_cells(path) || (v && v == json_object_get(row->json, POPQA));
    json_t *list = NULL;
    sr1_status status = list_in_cell(v, is_cell, &list);

    if (status == SR1_OK && v && !json_is_null(v))
        status = add_answers(f, row, list ? list : v);
    if (status == SR1_OK && v && is_default && v == json_object_get(row->json, "answer"))
        status = add_aliases(f, row);
    if (status == SR1_OK && !v && !f->answers_optional)
        status = no_field(row->json, f->answer,
                          "answer_field, or answers_optional where no reward needs one");
    json_decref(list);
    if (status == SR1_OK && row->n_answers == 0 && !f->answers_optional)
        status = sr1__fail(SR1_E_PARSE,
                           "field '%s' has no answer in it; give one, or set "
                           "answers_optional where no reward needs one",
                           name_answer_field(f, row->json, v));
    return status;
}

/* The messages of the history field, which may be a cell of a CSV file. */
static sr1_status read_row_history(const struct sr1__fields *f, sr1_row *row,
                                   const char *path)
{
    const json_t *v = sr1__json_given(row->json, f->history);

    if (!v || (json_is_string(v) && json_string_length(v) == 0))
        return SR1_OK;
    if (row->history.n)
        return sr1__fail(SR1_E_PARSE, "both '%s' and messages before the question",
                         f->history);
    SR1__TRY(list_in_cell(v, sr1__row_files_has_cells(path), &row->history_list));
    v = row->history_list ? row->history_list : v;
    if (!json_is_array(v))
        return sr1__fail(SR1_E_PARSE, "field '%s' is not a list of messages", f->history);
    sr1__messages_free(&row->history);
    return sr1__messages_read(&row->history, v, json_array_size(v), f->history);
}

/* The same question with the same history and answers has the same id in every file. */
static char *content_id(const sr1_row *row)
{
    char id[32];
    uint64_t h = sr1__hash64(row->question, strlen(row->question), 0);

    for (size_t i = 0; i < row->n_answers; i++)
        h = sr1__hash64(row->answers[i], strlen(row->answers[i]), h);
    for (size_t i = 0; i < row->history.n; i++) {
        h = sr1__hash64(row->history.roles[i], strlen(row->history.roles[i]), h);
        h = sr1__hash64(row->history.texts[i], strlen(row->history.texts[i]), h);
    }
    snprintf(id, sizeof id, "%016llx", (unsigned long long)h);
    return sr1__strdup(id);
}

/* HotpotQA, 2WikiMultihopQA and BEIR; TriviaQA, in rows and in its own file. */
static const json_t *find_named_id(const json_t *row)
{
    static const char *const names[] = {"_id", "question_id", "QuestionId"};
    const json_t *v = NULL;

    for (size_t i = 0; !v && i < sizeof names / sizeof names[0]; i++)
        v = json_object_get(row, names[i]);
    return v;
}

static sr1_status take_row_id(const struct sr1__fields *f, sr1_row *row)
{
    const json_t *v = json_object_get(row->json, f->id);
    char number[32];
    const char *text = "";

    if (!v && strcmp(f->id, "id") == 0)
        v = find_named_id(row->json);
    if (v && !json_is_null(v))
        SR1__TRY(read_scalar_field(v, f->id, number, &text));
    row->id = text[0] ? sr1__strdup(text) : content_id(row);
    return row->id ? SR1_OK : sr1__fail_nomem("row id");
}

/* A file's name may be no UTF-8; names of metrics are made of it. */
static sr1_status take_data_source(const struct sr1__fields *f, sr1_row *row,
                                   const char *path)
{
    const json_t *v = sr1__json_given(row->json, f->source);
    const char *slash = strrchr(path, '/');
    const char *text = slash ? slash + 1 : path;
    size_t n = sr1__row_files_stem(text);
    char number[32];
    struct sr1__buf b;

    if (v) {
        SR1__TRY(read_scalar_field(v, f->source, number, &text));
        n = strlen(text);
    }
    sr1__buf_init(&b, 0);
    sr1__buf_utf8(&b, text, n);
    row->data_source = sr1__buf_take(&b);
    sr1__buf_free(&b);
    return row->data_source ? SR1_OK : sr1__fail_nomem("data source");
}

static sr1_status fill_dataset_row(const struct sr1__fields *f, sr1_row *row,
                                   const char *path)
{
    SR1__TRY(take_question(f, row));
    SR1__TRY(read_row_history(f, row, path));
    SR1__TRY(read_ground_truths(f, row, path));
    SR1__TRY(take_row_id(f, row));
    return take_data_source(f, row, path);
}

sr1_status sr1__row_make(sr1_row **out, json_t *json, const struct sr1__fields *f,
                         const char *path)
{
    sr1_row *row = sr1__calloc(1, sizeof *row);

    if (!row) {
        json_decref(json);
        return sr1__fail_nomem("row");
    }
    row->json = json;
    SR1__RETURN_NEW(out, row, fill_dataset_row(f, row, path), sr1_row_free);
}
