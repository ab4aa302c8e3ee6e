/* Tokenizer: opening, encoding whole and line by line, decoding, by processor time of one
 * core. usage: bench_tokenizer TOKENIZER_FOLDER TEXT_FILE
 * Peer on the same files: tests/bench/bench_tokenizer.py (PyPI tokenizers). */
#include "processor_time.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "text/tokenizer/tokenizer.h"

#include <stdio.h>
#include <string.h>

static void report(const char *what, size_t bytes, double seconds, size_t n_ids)
{
    printf("%-8s %6.1f MB/s  %zu ids\n", what, (double)bytes / seconds / 1e6, n_ids);
}

static sr1_status encode_lines(const sr1_tokenizer *t, const struct sr1__buf *text,
                               struct sr1__ids *ids)
{
    size_t from = 0;

    while (from < text->len) {
        const char *end = memchr(text->data + from, '\n', text->len - from);
        size_t n = end ? (size_t)(end - text->data) - from : text->len - from;

        SR1__TRY(sr1__tokenizer_encode(t, text->data + from, n, 0, ids));
        from += n + 1;
    }
    return SR1_OK;
}

static sr1_status measure(const sr1_tokenizer *t, const struct sr1__buf *text)
{
    struct sr1__ids whole = {0}, lines = {0};
    struct sr1__buf decoded;
    double start = processor_seconds();
    sr1_status status;

    sr1__buf_init(&decoded, 0);
    status = sr1__tokenizer_encode(t, sr1__buf_cstr(text), text->len, 0, &whole);
    report("whole", text->len, processor_seconds() - start, whole.n);
    start = processor_seconds();
    if (status == SR1_OK)
        status = encode_lines(t, text, &lines);
    report("lines", text->len, processor_seconds() - start, lines.n);
    start = processor_seconds();
    if (status == SR1_OK)
        status = sr1__tokenizer_decode(t, whole.v, whole.n, 0, &decoded);
    report("decode", decoded.len, processor_seconds() - start, whole.n);
    sr1__ids_free(&whole);
    sr1__ids_free(&lines);
    sr1__buf_free(&decoded);
    return status;
}

int main(int argc, char **argv)
{
    sr1_tokenizer *t = NULL;
    struct sr1__buf text;
    double start = processor_seconds();
    int64_t rss = sr1__rss_bytes();
    sr1_status status;

    if (argc != 3) {
        fprintf(stderr, "usage: bench_tokenizer TOKENIZER_FOLDER TEXT_FILE\n");
        return 2;
    }
    sr1__buf_init(&text, 0);
    status = sr1_tokenizer_open(&t, argv[1]);
    printf("%-8s %6.1f ms    %.1f MB resident\n", "open",
           1e3 * (processor_seconds() - start), (double)(sr1__rss_bytes() - rss) / 1e6);
    if (status == SR1_OK)
        status = sr1__file_read(argv[2], 0, &text);
    if (status == SR1_OK)
        status = measure(t, &text);
    if (status != SR1_OK)
        fprintf(stderr, "%s\n", sr1_last_error());
    sr1__buf_free(&text);
    sr1_tokenizer_free(t);
    return status != SR1_OK;
}
