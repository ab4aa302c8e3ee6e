/* TensorBoard's event files, read back by hand from the description of the format. */
#include "../../support/torture.h"
#include "../../support/files.h"

#include "text/data/events.h"

#include <math.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---- a reader ---- */

struct field {
    int number, wire;
    uint64_t n; /* of a varint; else the length */
    const unsigned char *data;
};

static uint64_t varint(const unsigned char **p, const unsigned char *end)
{
    uint64_t v = 0;

    for (int shift = 0;; shift += 7) {
        assert_true(*p < end && shift < 64);
        v |= (uint64_t)(**p & 0x7F) << shift;
        if (!(*(*p)++ & 0x80))
            return v;
    }
}

/* The next field of a message; 0 at its end. */
static int next_field(const unsigned char **p, const unsigned char *end, struct field *f)
{
    uint64_t key;

    if (*p == end)
        return 0;
    key = varint(p, end);
    f->number = (int)(key >> 3);
    f->wire = (int)(key & 7);
    f->n = f->wire == 1 ? 8 : f->wire == 5 ? 4 : varint(p, end);
    f->data = *p;
    if (f->wire != 0)
        *p += f->n;
    assert_true(f->data <= end && *p <= end);
    return 1;
}

static uint64_t little(const unsigned char *p, int n)
{
    uint64_t v = 0;

    for (int i = n; i-- > 0;)
        v = v << 8 | p[i];
    return v;
}

static uint32_t unmasked(uint32_t m)
{
    uint32_t rotated = m - 0xA282EAD8u;

    return (rotated >> 17) | (rotated << 15);
}

struct event {
    double time;
    int64_t step;
    char version[32];
    int started;
    size_t n;
    char tags[8][64];
    float values[8];
};

static void read_summary(struct event *e, struct field f)
{
    const unsigned char *p = f.data;
    struct field value, part;

    while (next_field(&p, f.data + f.n, &value)) {
        const unsigned char *q = value.data;

        assert_int_equal(value.number, 1);
        while (next_field(&q, value.data + value.n, &part)) {
            uint32_t bits = part.number == 2 ? (uint32_t)little(part.data, 4) : 0;

            if (part.number == 1)
                memcpy(e->tags[e->n], part.data, part.n);
            else
                memcpy(&e->values[e->n], &bits, 4);
        }
        e->n++;
    }
}

static void read_event(struct event *e, const unsigned char *p, size_t n)
{
    const unsigned char *end = p + n;
    struct field f;
    uint64_t bits;

    memset(e, 0, sizeof *e);
    while (next_field(&p, end, &f)) {
        switch (f.number) {
        case 1:
            bits = little(f.data, 8);
            memcpy(&e->time, &bits, 8);
            break;
        case 2:
            e->step = (int64_t)f.n;
            break;
        case 3:
            memcpy(e->version, f.data, f.n);
            break;
        case 5:
            read_summary(e, f);
            break;
        case 7:
            e->started = f.n == 2 && f.data[0] == 8 && f.data[1] == 1;
            break;
        default:
            fail_msg("field %d", f.number);
        }
    }
}

/* All events of the file number `which` of the folder; returns how many. */
static size_t read_events(const char *folder, size_t which, struct event *out, size_t max)
{
    char **names = NULL;
    size_t n_names = 0, n = 0;
    struct sr1__buf b;
    char *path;

    assert_int_equal(sr1__dir_list(folder, &names, &n_names), SR1_OK);
    assert_true(which < n_names);
    path = sr1__path_join(folder, names[which]);
    assert_int_equal(sr1__file_read(path, 0, &b), SR1_OK);
    for (size_t at = 0; at < b.len; n++) {
        const unsigned char *p = (const unsigned char *)b.data + at;
        size_t len = (size_t)little(p, 8);

        assert_true(n < max && b.len - at >= len + 16);
        assert_int_equal(unmasked((uint32_t)little(p + 8, 4)), sr1__crc32c(p, 8));
        assert_int_equal(unmasked((uint32_t)little(p + 12 + len, 4)),
                         sr1__crc32c(p + 12, len));
        read_event(&out[n], p + 12, len);
        at += len + 16;
    }
    sr1__dir_list_free(names, n_names);
    sr1__free(path);
    sr1__buf_free(&b);
    return n;
}

/* ---- tests ---- */

/* RFC 3720, B.4; the last is the check value of the catalogue of CRCs. */
static void checks_are_those_of_the_standard(void **state)
{
    unsigned char bytes[32] = {0};

    (void)state;
    assert_int_equal(sr1__crc32c(bytes, 32), 0x8A9136AAu);
    memset(bytes, 0xFF, 32);
    assert_int_equal(sr1__crc32c(bytes, 32), 0x62A8AB43u);
    for (int i = 0; i < 32; i++)
        bytes[i] = (unsigned char)i;
    assert_int_equal(sr1__crc32c(bytes, 32), 0x46DD794Eu);
    assert_int_equal(sr1__crc32c("123456789", 9), 0xE3069283u);
    assert_int_equal(sr1__crc32c("", 0), 0);
}

static json_t *row(int step, double loss)
{
    return json_pack("{s:i, s:f, s:n, s:s, s:i, s:f}", "step", step, "loss", loss, "none",
                     "text", "x", "env/tokens", 300, "too/large", 1e300);
}

static void add(struct sr1__events *w, int step, double loss)
{
    json_t *r = row(step, loss);

    assert_int_equal(sr1__events_add(w, r), SR1_OK);
    json_decref(r);
}

static void numbers_read_back(void **state)
{
    struct sr1__events *w = NULL;
    struct event e[8];

    (void)state;
    assert_int_equal(sr1__events_open(&w, scratch_path("a")), SR1_OK);
    add(w, 1, 0.5);
    add(w, 70000, -2.25);
    assert_int_equal(read_events(scratch_path("a"), 0, e, 8), 4); /* while it is open */
    sr1__events_close(w);
    assert_string_equal(e[0].version, "brain.Event:2");
    assert_true(e[1].started && e[1].step == 1);
    assert_int_equal(e[2].step, 1);
    assert_int_equal(e[2].n, 2);
    assert_string_equal(e[2].tags[0], "loss");
    assert_true(e[2].values[0] == 0.5f);
    assert_string_equal(e[2].tags[1], "env/tokens");
    assert_true(e[2].values[1] == 300);
    assert_int_equal(e[3].step, 70000);
    assert_true(e[3].values[0] == -2.25f);
    assert_true(e[3].time >= e[2].time && fabs(e[3].time - (double)time(NULL)) < 60);
}

/* Tags whose length takes two bytes to write. */
static void long_names_are_whole(void **state)
{
    char name[201];
    struct sr1__events *w = NULL;
    struct sr1__buf b;
    json_t *r;
    char **names = NULL;
    size_t n = 0;
    char *path;

    (void)state;
    memset(name, 'n', 200);
    name[200] = '\0';
    r = json_pack("{s:i, s:i}", "step", 1, name, 7);
    assert_int_equal(sr1__events_open(&w, scratch_path("long")), SR1_OK);
    assert_int_equal(sr1__events_add(w, r), SR1_OK);
    sr1__events_close(w);
    json_decref(r);
    assert_int_equal(sr1__dir_list(scratch_path("long"), &names, &n), SR1_OK);
    path = sr1__path_join(scratch_path("long"), names[0]);
    assert_int_equal(sr1__file_read(path, 0, &b), SR1_OK);
    /* value {tag: key, 2 bytes of length, 200; float: 5} = 208 bytes: 0xD0 0x01 */
    assert_non_null(memmem(b.data, b.len, "\x0A\xD0\x01\x0A\xC8\x01nnn", 9));
    sr1__buf_free(&b);
    sr1__free(path);
    sr1__free(names[0]);
    sr1__free(names);
}

/* A run that goes on begins a new file, later by its name, and says from which step. */
static void a_resumed_run_begins_a_file(void **state)
{
    struct sr1__events *w = NULL;
    struct event e[8];

    (void)state;
    for (int step = 4; step >= 3; step--) {
        assert_int_equal(sr1__events_open(&w, scratch_path("b")), SR1_OK);
        add(w, step, 1);
        sr1__events_close(w);
    }
    assert_int_equal(read_events(scratch_path("b"), 0, e, 8), 3);
    assert_int_equal(e[1].step, 4);
    assert_int_equal(read_events(scratch_path("b"), 1, e, 8), 3);
    assert_true(e[1].started && e[1].step == 3);
}

/* Several processes that begin in one second: each has a file of its own. */
static void writers_have_files_of_their_own(void **state)
{
    struct event e[8];

    (void)state;
    for (int i = 0; i < 16; i++)
        if (fork() == 0) {
            struct sr1__events *w = NULL;
            json_t *r = row(1, i);
            int failed = sr1__events_open(&w, scratch_path("both")) != SR1_OK ||
                         sr1__events_add(w, r) != SR1_OK;

            _exit(failed);
        }
    for (int i = 0; i < 16; i++) {
        int status = 1;

        assert_true(wait(&status) > 0);
        assert_int_equal(status, 0);
    }
    for (int i = 0; i < 16; i++)
        assert_int_equal(read_events(scratch_path("both"), (size_t)i, e, 8), 3);
}

static void without_a_row_there_is_no_file(void **state)
{
    struct sr1__events *w = NULL;
    json_t *bad = json_pack("{s:f}", "loss", 1.0);
    char **names = NULL;
    size_t n = 9;

    (void)state;
    assert_int_equal(sr1__events_open(&w, scratch_path("c")), SR1_OK);
    assert_int_not_equal(sr1__events_add(w, bad), SR1_OK);
    sr1__events_close(w);
    sr1__events_close(NULL);
    json_decref(bad);
    assert_int_equal(sr1__dir_list(scratch_path("c"), &names, &n), SR1_OK);
    assert_int_equal(n, 0);
    sr1__free(names);
    assert_int_equal(sr1__events_open(&w, scratch_file("file", "x", 0)), SR1_E_IO);
}

static rlim_t file_size(const char *folder)
{
    char **names = NULL;
    size_t n = 0;
    struct sr1__map m;
    char *path;

    assert_int_equal(sr1__dir_list(folder, &names, &n), SR1_OK);
    path = sr1__path_join(folder, names[0]);
    assert_int_equal(sr1__map_open(&m, path), SR1_OK);
    n = m.size;
    sr1__map_close(&m);
    sr1__free(path);
    sr1__free(names[0]);
    sr1__free(names);
    return n;
}

/* A full disk: what was written before stays whole, and writing can go on. */
static void a_failed_write_leaves_whole_records(void **state)
{
    struct rlimit before, small; /* room for a part of the second row */
    struct sr1__events *w = NULL;
    json_t *r = row(2, 2);
    struct event e[8];

    (void)state;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(sr1__events_open(&w, scratch_path("d")), SR1_OK);
    add(w, 1, 1);
    small = before;
    small.rlim_cur = file_size(scratch_path("d")) + 10;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    assert_int_equal(sr1__events_add(w, r), SR1_E_IO);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(read_events(scratch_path("d"), 0, e, 8), 3);
    assert_int_equal(sr1__events_add(w, r), SR1_OK);
    assert_int_equal(read_events(scratch_path("d"), 0, e, 8), 4);
    assert_int_equal(e[3].step, 2);
    sr1__events_close(w);
    json_decref(r);
}

static sr1_status write_two(void *arg)
{
    struct sr1__events *w = NULL;
    sr1_status st = sr1__events_open(&w, scratch_path("torture"));

    for (int i = 0; i < 2 && st == SR1_OK; i++)
        st = sr1__events_add(w, arg);
    sr1__events_close(w);
    return st;
}

static void memory_may_run_out(void **state)
{
    json_t *r = row(1, 1);

    (void)state;
    assert_true(torture(write_two, r) > 5);
    json_decref(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(checks_are_those_of_the_standard),
        cmocka_unit_test(numbers_read_back),
        cmocka_unit_test(long_names_are_whole),
        cmocka_unit_test(a_resumed_run_begins_a_file),
        cmocka_unit_test(writers_have_files_of_their_own),
        cmocka_unit_test(without_a_row_there_is_no_file),
        cmocka_unit_test(a_failed_write_leaves_whole_records),
        cmocka_unit_test(memory_may_run_out),
    };

    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
