/* Lines in frames of zstd: written, cut back, torn, damaged, read. */
#include "../../support/torture.h"
#include "../../support/files.h"

#include "base/file.h"
#include "base/mem.h"
#include "text/data/zlines.h"

#include <searchr1/ext/data_files.h>

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

static void ok(sr1_status st)
{
    if (st != SR1_OK)
        fail_msg("%s: %s", sr1_status_name(st), sr1_last_error());
}

static void refused(sr1_status st, sr1_status want, const char *part)
{
    if (st != want || !strstr(sr1_last_error(), part))
        fail_msg("%s: %s", sr1_status_name(st), sr1_last_error());
}

static void add(struct sr1__zlines *w, const char *line)
{
    ok(sr1__zlines_add(w, line, strlen(line)));
}

/* The lines of a file, each with its end, as one text; how reading ended in *st. */
static char *read_lines(const char *path, sr1_status *st)
{
    struct sr1__buf all;
    sr1_lines *l = NULL;
    const char *text = "";
    size_t n;

    sr1__buf_init(&all, 0);
    *st = sr1_lines_open(&l, path);
    while (*st == SR1_OK && text) {
        *st = sr1_lines_next(l, &text, &n);
        if (*st != SR1_OK || !text)
            break;
        assert_int_equal(text[n], 0);
        sr1__buf_add(&all, text, n);
        sr1__buf_char(&all, '\n');
    }
    sr1_lines_free(l);
    sr1__buf_str(&all, "");
    return all.data ? sr1__buf_take(&all) : sr1__strdup("");
}

static void holds(const char *path, const char *want)
{
    sr1_status st;
    char *got = read_lines(path, &st);

    ok(st);
    assert_string_equal(got, want);
    sr1__free(got);
}

/* By zstd's own one-call function: frame after frame. */
static char *unpack(const char *path)
{
    struct sr1__buf in, out;
    size_t at = 0;

    ok(sr1__file_read(path, 0, &in));
    sr1__buf_init(&out, 0);
    while (at < in.len) {
        size_t frame = ZSTD_findFrameCompressedSize(in.data + at, in.len - at);
        char text[4096];
        size_t n = ZSTD_decompress(text, sizeof text, in.data + at, frame);

        assert_false(ZSTD_isError(frame) || ZSTD_isError(n));
        sr1__buf_add(&out, text, n);
        at += frame;
    }
    sr1__buf_free(&in);
    return sr1__buf_take(&out);
}

static void lines_come_back(void **state)
{
    const char *path = scratch_path("a.jsonl.zst");
    struct sr1__zlines *w = NULL;
    uint64_t first, second;
    char *text;

    (void)state;
    ok(sr1__zlines_open(&w, path));
    ok(sr1__zlines_flush(w)); /* nothing is nothing */
    assert_int_equal(sr1__zlines_size(w), 0);
    add(w, "one");
    add(w, "");
    ok(sr1__zlines_flush(w));
    first = sr1__zlines_size(w);
    add(w, "two");
    ok(sr1__zlines_flush(w));
    second = sr1__zlines_size(w);
    add(w, "dropped: not flushed");
    sr1__zlines_close(w);
    holds(path, "one\n\ntwo\n");
    text = unpack(path);
    assert_string_equal(text, "one\n\ntwo\n");
    sr1__free(text);
    w = NULL; /* back to the first frame, and on */
    ok(sr1__zlines_open(&w, path));
    assert_int_equal(sr1__zlines_size(w), second);
    refused(sr1__zlines_truncate(w, second + 1), SR1_E_CORRUPT, "once had");
    ok(sr1__zlines_truncate(w, first));
    add(w, "two");
    ok(sr1__zlines_flush(w));
    assert_int_equal(sr1__zlines_size(w), second); /* the same bytes again */
    sr1__zlines_close(w);
    holds(path, "one\n\ntwo\n");
}

/* What a loss of power left: any length of the last frame, or of the first. */
static void a_torn_frame_can_be_cut_off(void **state)
{
    const char *path = scratch_path("torn.jsonl.zst");
    uint64_t first, second;

    (void)state;
    for (uint64_t cut = 0;; cut++) {
        struct sr1__zlines *w = NULL;

        (void)remove(path);
        ok(sr1__zlines_open(&w, path));
        add(w, "one");
        ok(sr1__zlines_flush(w));
        first = sr1__zlines_size(w);
        add(w, "two");
        ok(sr1__zlines_flush(w));
        second = sr1__zlines_size(w);
        sr1__zlines_close(w);
        if (cut > second)
            break;
        assert_int_equal(truncate(path, (off_t)cut), 0);
        w = NULL;
        ok(sr1__zlines_open(&w, path));
        ok(sr1__zlines_mend(w));
        assert_int_equal(sr1__zlines_size(w), cut < first    ? 0
                                              : cut < second ? first
                                                             : second);
        add(w, "next");
        ok(sr1__zlines_flush(w));
        sr1__zlines_close(w);
        holds(path, cut < first    ? "next\n"
                    : cut < second ? "one\nnext\n"
                                   : "one\ntwo\nnext\n");
    }
}

static void a_torn_end_is_not_given(void **state)
{
    const char *path = scratch_path("a.jsonl.zst");
    struct sr1__buf b;
    size_t first;

    (void)state;
    ok(sr1__file_read(path, 0, &b));
    first = ZSTD_findFrameCompressedSize(b.data, b.len);
    for (size_t n = 0; n < b.len; n++) {
        const char *torn = scratch_path("torn.zst");
        sr1_status st;
        char *got;

        ok(sr1__file_replace(torn, b.data, n));
        got = read_lines(torn, &st);
        ok(st);
        /* whole lines only, all of those in whole frames */
        assert_memory_equal(got, "one\n\ntwo\n", strlen(got));
        assert_true(*got == '\0' || got[strlen(got) - 1] == '\n');
        assert_true(n < first || strncmp(got, "one\n\n", 5) == 0);
        sr1__free(got);
    }
    sr1__buf_free(&b);
    holds(scratch_file("plain.jsonl", "one\n\ntwo\nthr", 0), "one\n\ntwo\n");
    holds(scratch_file("empty.jsonl", "", 0), "");
}

/* A bit may be wrong anywhere: what is read is right as far as it goes, or an error. */
static void damage_is_noticed(void **state)
{
    const char *path = scratch_path("a.jsonl.zst");
    struct sr1__buf b;
    int noticed = 0;

    (void)state;
    ok(sr1__file_read(path, 0, &b));
    for (size_t bit = 0; bit < 8 * b.len; bit++) {
        const char *bad = scratch_path("bad.zst");
        sr1_status st;
        char *got;

        b.data[bit / 8] = (char)(b.data[bit / 8] ^ (1 << bit % 8));
        ok(sr1__file_replace(bad, b.data, b.len));
        b.data[bit / 8] = (char)(b.data[bit / 8] ^ (1 << bit % 8));
        got = read_lines(bad, &st);
        if (st != SR1_OK) {
            refused(st, SR1_E_CORRUPT, "bad.zst");
            noticed++;
        }
        sr1__free(got);
    }
    assert_true(noticed > (int)(4 * b.len)); /* others make a longer frame: a torn end */
    sr1__buf_free(&b);
    {
        sr1_lines *l = NULL;

        refused(sr1_lines_open(&l, scratch_path("gone.zst")), SR1_E_IO, "gone.zst");
        refused(sr1_lines_open(&l, scratch_dir), SR1_E_IO, "");
        refused(sr1_lines_open(NULL, path), SR1_E_INVALID, "required");
        refused(sr1_lines_next(NULL, NULL, NULL), SR1_E_INVALID, "required");
    }
}

/* Some kilobytes that would become a line of 80 MiB. */
static void a_bomb_is_a_line_too_long(void **state)
{
    size_t n = (size_t)80 << 20, room = ZSTD_compressBound(n), size;
    char *zeros = calloc(1, n), *packed = malloc(room);
    sr1_status st;
    char *got;

    (void)state;
    size = ZSTD_compress(packed, room, zeros, n, 1);
    assert_true(size < 100000);
    got = read_lines(scratch_file("bomb.zst", packed, size), &st);
    refused(st, SR1_E_LIMIT, "64 MiB");
    assert_string_equal(got, "");
    sr1__free(got);
    free(zeros);
    free(packed);
}

static void long_lines_and_many_frames(void **state)
{
    const char *path = scratch_path("many.zst");
    struct sr1__zlines *w = NULL;
    sr1_lines *l = NULL;
    char *line = malloc(300000);
    const char *text = NULL;
    size_t n = 0;

    (void)state;
    for (size_t i = 0; i < 300000; i++)
        line[i] = (char)('a' + (i * i + i / 7) % 26);
    ok(sr1__zlines_open(&w, path));
    for (size_t i = 0; i < 60; i++) /* more than a frame holds */
        ok(sr1__zlines_add(w, line, 300000 - i));
    ok(sr1__zlines_flush(w));
    sr1__zlines_close(w);
    ok(sr1_lines_open(&l, path));
    for (size_t i = 0; i < 60; i++) {
        ok(sr1_lines_next(l, &text, &n));
        assert_int_equal(n, 300000 - i);
        assert_memory_equal(text, line, n);
    }
    ok(sr1_lines_next(l, &text, &n));
    assert_null(text);
    sr1_lines_free(l);
    free(line);
}

/* As long as a reader takes, no longer; the writer goes on. */
static void too_long_a_line_is_refused(void **state)
{
    const size_t most = (size_t)64 << 20;
    const char *path = scratch_path("long.zst");
    struct sr1__zlines *w = NULL;
    sr1_lines *l = NULL;
    char *line = malloc(most + 1);
    const char *text = NULL;
    size_t n = 0;

    (void)state;
    memset(line, 'x', most + 1);
    ok(sr1__zlines_open(&w, path));
    add(w, "first");
    refused(sr1__zlines_add(w, line, most + 1), SR1_E_LIMIT, "long.zst");
    ok(sr1__zlines_add(w, line, most));
    add(w, "last");
    ok(sr1__zlines_flush(w));
    sr1__zlines_close(w);
    ok(sr1_lines_open(&l, path));
    ok(sr1_lines_next(l, &text, &n));
    assert_string_equal(text, "first");
    ok(sr1_lines_next(l, &text, &n));
    assert_int_equal(n, most);
    ok(sr1_lines_next(l, &text, &n));
    assert_string_equal(text, "last");
    sr1_lines_free(l);
    free(line);
}

static void one_writer_at_a_time(void **state)
{
    const char *path = scratch_path("one_writer.zst");
    struct sr1__zlines *first = NULL, *second = NULL;

    (void)state;
    ok(sr1__zlines_open(&first, path));
    add(first, "a");
    refused(sr1__zlines_open(&second, path), SR1_E_STATE,
            "is being written, here or by another");
    assert_null(second);
    ok(sr1__zlines_flush(first));
    sr1__zlines_close(first);
    ok(sr1__zlines_open(&second, path));
    add(second, "b");
    ok(sr1__zlines_flush(second));
    sr1__zlines_close(second);
    holds(path, "a\nb\n");
}

static void memory_may_fail(void **state)
{
    const char *path = scratch_path("memory.zst");
    int64_t live = sr1__mem_live();

    (void)state;
    for (int64_t i = 1;; i++) {
        struct sr1__zlines *w = NULL;
        sr1_lines *l = NULL;
        const char *text;
        size_t n;
        sr1_status st;

        sr1__mem_fail_at(i);
        st = sr1__zlines_open(&w, path);
        if (st == SR1_OK)
            st = sr1__zlines_add(w, "one", 3);
        if (st == SR1_OK)
            st = sr1__zlines_flush(w);
        sr1__zlines_close(w);
        if (st == SR1_OK)
            st = sr1_lines_open(&l, path);
        if (st == SR1_OK)
            st = sr1_lines_next(l, &text, &n);
        sr1_lines_free(l);
        sr1__mem_fail_at(0);
        assert_int_equal(sr1__mem_live(), live);
        if (st == SR1_OK)
            break;
        assert_int_equal(st, SR1_E_NOMEM);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_come_back),
        cmocka_unit_test(a_torn_frame_can_be_cut_off),
        cmocka_unit_test(a_torn_end_is_not_given),
        cmocka_unit_test(damage_is_noticed),
        cmocka_unit_test(a_bomb_is_a_line_too_long),
        cmocka_unit_test(long_lines_and_many_frames),
        cmocka_unit_test(too_long_a_line_is_refused),
        cmocka_unit_test(one_writer_at_a_time),
        cmocka_unit_test(memory_may_fail),
    };

    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
