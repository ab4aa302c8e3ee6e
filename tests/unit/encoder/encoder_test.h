/* The golden encoders of tests/golden/encoder. */
#ifndef SR1__TEST_ENCODER_H
#define SR1__TEST_ENCODER_H

#include "support/golden.h"

#include "tensor/encoder/encoder.h"

#define TEXTS_MAX 16
#define IDS_MAX 256

/* The texts of a case as ids. */
struct texts {
    int32_t ids[TEXTS_MAX][IDS_MAX];
    int32_t types[TEXTS_MAX][IDS_MAX];
    struct sr1__encoder_text text[TEXTS_MAX];
    size_t n;
};

static inline void texts_read(struct texts *t, const struct golden *g)
{
    t->n = golden_count(g, "ids");
    assert_true(t->n > 0 && t->n <= TEXTS_MAX);
    for (size_t i = 0; i < t->n; i++) {
        size_t n = golden_ids(g, "ids", i, t->ids[i], IDS_MAX);

        assert_int_equal(golden_ids(g, "types", i, t->types[i], IDS_MAX), n);
        t->text[i] = (struct sr1__encoder_text){t->ids[i], t->types[i], n};
    }
}

static inline struct sr1__encoder *encoder_open(const char *dir, int32_t output,
                                                int32_t dtype)
{
    struct sr1__encoder_files f = {0};
    struct sr1__encoder *e = NULL;

    OK(sr1__encoder_files_open(&f, dir));
    OK(sr1__encoder_load(&e, &f, output, dtype, SR1__CPU));
    sr1__encoder_files_close(&f);
    return e;
}

#endif
