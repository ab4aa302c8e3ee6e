/* fuzz_trajectory.c - what the two readers accept survives both forms and batching.
 *
 * The first byte chooses the reader: 'j' JSON, 'r' a whole record, anything else the
 * payload of a record (whose checksum chance would not meet); the rest is what it reads.
 */
#include "environment/trajectory/microbatch.h"
#include "environment/trajectory/codec.h"
#include "environment/trajectory/trajectory.h"

#include <stdlib.h>
#include <string.h>

static void check(int ok)
{
    if (!ok)
        abort();
}

static void check_binary(const sr1_trajectory *t)
{
    sr1_trajectory *back = NULL;
    void *bytes = NULL;
    size_t n = 0;

    check(sr1_trajectory_encode(t, &bytes, &n) == SR1_OK);
    check(sr1_trajectory_decode(&back, bytes, n) == SR1_OK);
    check(sr1_trajectory_equal(t, back));
    sr1_free(bytes);
    sr1_trajectory_free(back);
}

static void check_json(const sr1_trajectory *t)
{
    sr1_trajectory *back = NULL;
    char *text = NULL;
    size_t n = 0;

    check(sr1_trajectory_to_json(t, &text, &n) == SR1_OK);
    check(memchr(text, '\n', n) == NULL);
    check(sr1_trajectory_from_json(&back, text, n) == SR1_OK);
    check(sr1_trajectory_equal(t, back));
    sr1_free(text);
    sr1_trajectory_free(back);
}

static void check_batch(const sr1_trajectory *t)
{
    struct sr1__batch_plan p;
    struct sr1__microbatch m;

    check(sr1__batch_plan_array(&p, &t, (struct sr1__batch_part){.end = 1}, 8) == SR1_OK);
    check(p.n_batches ==
          (sr1_trajectory_policy_count(t) > 0 && !sr1__trajectory_excluded(t)));
    if (p.n_batches) {
        check(sr1__microbatch_array(&m, &p, 0, &t, 0) == SR1_OK);
        check(m.n_targets == sr1_trajectory_policy_count(t));
        sr1__microbatch_free(&m);
    }
    sr1__batch_plan_free(&p);
}

static sr1_status read_any(sr1_trajectory **out, const uint8_t *data, size_t size)
{
    if (data[0] == 'j')
        return sr1_trajectory_from_json(out, (const char *)data + 1, size - 1);
    if (data[0] == 'r')
        return sr1_trajectory_decode(out, data + 1, size - 1);
    return sr1__trajectory_decode_payload(
        out, data + 1, size - 1, data[0] == 'h' ? SR1__CODEC_VERSION : SR1__CODEC_OLDEST);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    sr1_trajectory *t = NULL;
    sr1_status status;

    if (size == 0)
        return 0;
    status = read_any(&t, data, size);
    check((status == SR1_OK) == (t != NULL));
    if (t == NULL) {
        check(sr1_last_error()[0] != '\0');
        return 0;
    }
    check_binary(t);
    check_json(t);
    check_batch(t);
    sr1_trajectory_free(t);
    return 0;
}
