/* fuzz_text_cut.c - whatever the text, cutting it ends, adds nothing, and valid UTF-8
 * stays valid. The first byte chooses the format. */
#include "fuzz.h"

#include "base/utf8.h"
#include "retrieval/search/strip_markup.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = {"html", "markdown", "auto"};
    const char *text = (const char *)data + 1;
    struct sr1__buf out;

    if (size < 1)
        return 0;
    sr1__buf_init(&out, 0);
    if (sr1__text_format_find(names[data[0] % 3], NULL)->cut(text, size - 1, &out) ==
        SR1_OK) {
        FUZZ_CHECK(out.len <= size - 1);
        FUZZ_CHECK(!sr1__utf8_valid(text, size - 1) ||
                   sr1__utf8_valid(sr1__buf_cstr(&out), out.len));
    }
    sr1__buf_free(&out);
    return 0;
}
