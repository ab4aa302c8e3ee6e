/* text/data/records.c - questions as the records that Search-R1's published code trains
 * on (its nq_search):
 *
 *     {"data_source": "nq", "prompt": [{"role": "user", "content": "..."}],
 *      "ability": "fact-reasoning",
 *      "reward_model": {"style": "rule", "ground_truth": {"target": ["..."]}},
 *      "extra_info": {"split": "train", "index": 0}} */
#include "text/data/records.h"

#include "base/file.h"
#include "base/struct.h"
#include "base/utf8.h"
#include "text/data/dataset.h"
#include "text/data/question.h"

#include <searchr1/data.h>
#include <searchr1/ext/data_files.h>

#include <string.h>

const json_t *sr1__record_target(const json_t *row)
{
    const json_t *truth =
        json_object_get(json_object_get(row, "reward_model"), "ground_truth");

    return json_is_object(truth) ? json_object_get(truth, "target") : truth;
}

/* ---- writing ---- */

struct record_writer {
    const sr1_dataset *dataset;
    sr1_record_options options;
    struct sr1__prompt_template *prompt;
    struct sr1__buf content;
};

static json_t *targets_of(const sr1_row *row)
{
    json_t *list = json_array();

    for (size_t i = 0; list && i < sr1_row_answer_count(row); i++)
        if (json_array_append_new(list, json_string(sr1_row_answer(row, i))) != 0) {
            json_decref(list);
            return NULL;
        }
    return list;
}

/* The history, then the question's message; NULL without memory. */
static json_t *build_prompt_messages(const sr1_row *row, const char *content)
{
    size_t n = sr1_row_history_count(row);
    json_t *list = json_array();

    for (size_t i = 0; list && i <= n; i++) {
        const char *role = "user";
        const char *text = i < n ? sr1_row_history(row, i, &role) : content;

        if (json_array_append_new(
                list, json_pack("{s:s, s:s}", "role", role, "content", text)) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

static sr1_status make_record(struct record_writer *w, const sr1_row *row, int64_t index,
                              json_t **out)
{
    const char *question = sr1_row_question(row);
    const char *source = w->options.data_source;
    json_t *targets, *prompt;

    sr1__buf_clear(&w->content);
    SR1__TRY(
        sr1__question_render(w->prompt, question, strlen(question), &w->content, NULL));
    targets = targets_of(row);
    prompt = targets ? build_prompt_messages(row, sr1__buf_cstr(&w->content)) : NULL;
    if (!prompt)
        json_decref(targets);
    /* "o" takes the reference, also on failure */
    *out = prompt ? json_pack("{s:s, s:o, s:s, s:{s:s, s:{s:o}}, s:{s:s, s:I}}",
                              "data_source", source ? source : sr1_row_data_source(row),
                              "prompt", prompt, "ability", "fact-reasoning",
                              "reward_model", "style", "rule", "ground_truth", "target",
                              targets, "extra_info", "split",
                              w->options.split ? w->options.split : "train", "index",
                              (json_int_t)index)
                  : NULL;
    return *out ? SR1_OK : sr1__fail_nomem("record");
}

static sr1_status write_record_lines(struct record_writer *w, struct sr1__file_writer *to)
{
    sr1_status status = SR1_OK;

    for (int64_t i = 0; i < sr1_dataset_count(w->dataset) && status == SR1_OK; i++) {
        sr1_row *row = NULL;
        json_t *record = NULL;

        SR1__TRY(sr1_dataset_read(w->dataset, i, &row));
        status = make_record(w, row, i, &record);
        if (status == SR1_OK)
            status = sr1__json_write_line(to, record);
        sr1_row_free(row);
    }
    return status;
}

/* A file that appears whole. */
static sr1_status replace_records_file(struct record_writer *w, const char *path)
{
    struct sr1__file_writer *to = NULL;
    sr1_status status;

    SR1__TRY(sr1__dataset_distinct(w->dataset, path));
    SR1__TRY(sr1__file_clean(path)); /* of a run that was killed */
    SR1__TRY(sr1__file_writer_open(&to, path));
    status = write_record_lines(w, to);
    if (status == SR1_OK)
        return sr1__file_writer_commit(to);
    sr1__file_writer_abort(to);
    return status;
}

static sr1_status check_record_text(const char *name, const char *text)
{
    if (text && !sr1__utf8_valid(text, strlen(text)))
        return sr1__fail(SR1_E_INVALID, "record options: %s is not UTF-8", name);
    return SR1_OK;
}

void sr1_record_options_init(sr1_record_options *options)
{
    static const sr1_record_options defaults;

    sr1__struct_init(options, &defaults, sizeof(defaults));
}

sr1_status sr1_dataset_write_records(const sr1_dataset *dataset, const char *path,
                                     const sr1_record_options *options)
{
    struct record_writer w = {.dataset = dataset};
    sr1_status status;

    if (!dataset || !path)
        return sr1__fail(SR1_E_INVALID, "records: dataset and path are required");
    SR1__TRY(sr1__struct_take(&w.options, sizeof w.options, options,
                              SR1__STRUCT_END(sr1_record_options, struct_size),
                              "record options"));
    SR1__TRY(check_record_text("data_source", w.options.data_source));
    SR1__TRY(check_record_text("split", w.options.split));
    SR1__TRY(sr1__question_template(&w.prompt, SR1__QUESTION_SEARCH_R1));
    sr1__buf_init(&w.content, 0);
    status = replace_records_file(&w, path);
    sr1__buf_free(&w.content);
    sr1__prompt_template_free(w.prompt);
    return status;
}
