/* text/data/events.c - see events.h. */
#include "text/data/events.h"

#include "base/file.h"
#include "base/append.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define NAME "events.out.tfevents."

struct sr1__events {
    char *folder;
    char *path; /* NULL before the first row */
    int fd;
    uint64_t size;
    struct sr1__buf summary, event, out;
};

/* ---- records ---- */

/* Bit by bit, the polynomial 0x1EDC6F41 in reversed order: a row is some kilobytes. */
uint32_t sr1__crc32c(const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    uint32_t crc = ~0u;

    for (size_t i = 0; i < n; i++) {
        crc ^= p[i];
        for (int k = 0; k < 8; k++)
            crc = (crc >> 1) ^ (0x82F63B78u & (0u - (crc & 1)));
    }
    return ~crc;
}

/* Checks that lie in checked data are masked, so as not to meet themselves. */
static uint32_t mask_crc32c(const void *bytes, size_t n)
{
    uint32_t crc = sr1__crc32c(bytes, n);

    return ((crc >> 15) | (crc << 17)) + 0xA282EAD8u;
}

static void add_record(struct sr1__buf *out, const struct sr1__buf *event)
{
    unsigned char length[8];

    for (int i = 0; i < 8; i++)
        length[i] = (unsigned char)((uint64_t)event->len >> (8 * i));
    sr1__buf_add(out, length, sizeof length);
    sr1__buf_u32(out, mask_crc32c(length, sizeof length));
    sr1__buf_add(out, event->data, event->len);
    sr1__buf_u32(out, mask_crc32c(event->data, event->len));
    if (event->status != SR1_OK && out->status == SR1_OK)
        out->status = event->status;
}

/* ---- protocol buffers: a field is (number << 3 | wire type), then its value ---- */

enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };

static void put_field_varint(struct sr1__buf *b, uint64_t v)
{
    for (; v >= 0x80; v >>= 7)
        sr1__buf_u8(b, (uint8_t)(v | 0x80));
    sr1__buf_u8(b, (uint8_t)v);
}

static void put_field_key(struct sr1__buf *b, int field, int wire)
{
    put_field_varint(b, (uint64_t)field << 3 | (uint64_t)wire);
}

static void put_bytes_field(struct sr1__buf *b, int field, const void *bytes, size_t n)
{
    put_field_key(b, field, BYTES);
    put_field_varint(b, n);
    sr1__buf_add(b, bytes, n);
}

/* Event {double wall_time = 1; int64 step = 2; ...}: its beginning. */
static void begin_event(struct sr1__buf *event, int64_t step)
{
    struct timespec now = {0};

    clock_gettime(CLOCK_REALTIME, &now);
    sr1__buf_clear(event);
    put_field_key(event, 1, FIXED64);
    sr1__buf_f64(event, (double)now.tv_sec + (double)now.tv_nsec * 1e-9);
    put_field_key(event, 2, VARINT);
    put_field_varint(event, (uint64_t)step);
}

/* Event.file_version = 3 and Event.session_log = 7 {status = 1: START = 1}. */
static void write_events_head(struct sr1__events *w, int64_t step)
{
    static const char version[] = "brain.Event:2";
    static const char start[] = {1 << 3 | VARINT, 1};

    begin_event(&w->event, 0);
    put_bytes_field(&w->event, 3, version, sizeof version - 1);
    add_record(&w->out, &w->event);
    begin_event(&w->event, step);
    put_bytes_field(&w->event, 7, start, sizeof start);
    add_record(&w->out, &w->event);
}

/* Summary.value = 1 {string tag = 1; float simple_value = 2}. */
static void write_summary_value(struct sr1__buf *summary, const char *tag, double v)
{
    size_t n = strlen(tag), varint = 1;

    for (size_t rest = n; rest >= 0x80; rest >>= 7)
        varint++;
    put_field_key(summary, 1, BYTES);
    put_field_varint(summary, 1 + varint + n + 5);
    put_bytes_field(summary, 1, tag, n);
    put_field_key(summary, 2, FIXED32);
    sr1__buf_f32(summary, (float)v);
}

/* Event.summary = 5. */
static void write_summary_event(struct sr1__events *w, int64_t step, const json_t *row)
{
    const char *name;
    json_t *value;

    sr1__buf_clear(&w->summary);
    json_object_foreach((json_t *)row, name, value)
    {
        if (json_is_number(value) && strcmp(name, "step") != 0 &&
            isfinite((float)json_number_value(value)))
            write_summary_value(&w->summary, name, json_number_value(value));
    }
    begin_event(&w->event, step);
    put_bytes_field(&w->event, 5, w->summary.data, w->summary.len);
    if (w->summary.status != SR1_OK)
        w->event.status = w->summary.status;
    add_record(&w->out, &w->event);
}

/* ---- the file ---- */

/* Seconds since 1970, later than in the name of any file there: readers take files in the
 * order of their names. */
static sr1_status name_time(const char *folder, int64_t *out)
{
    char **names = NULL;
    size_t n = 0;
    int64_t at = (int64_t)time(NULL);

    SR1__TRY(sr1__dir_list(folder, &names, &n));
    for (size_t i = 0; i < n; i++) {
        const char *digits = names[i] + strlen(NAME);
        int64_t before = 0;

        if (strncmp(names[i], NAME, strlen(NAME)) == 0)
            for (; *digits >= '0' && *digits <= '9' && before < INT64_MAX / 100; digits++)
                before = 10 * before + (*digits - '0');
        if (before >= at && before < INT64_MAX / 100)
            at = before + 1;
    }
    sr1__dir_list_free(names, n);
    *out = at;
    return SR1_OK;
}

/* One of this name; *taken: there is one already. */
static sr1_status create_named(struct sr1__events *w, int64_t at, int *taken)
{
    char name[64];
    sr1_status status = SR1_OK;

    *taken = 0;
    snprintf(name, sizeof name, NAME "%" PRId64 ".searchr1", at);
    w->path = sr1__path_join(w->folder, name);
    SR1__CHECK_ALLOC(w->path, "TensorBoard file");
    w->fd = open(w->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    *taken = w->fd < 0 && errno == EEXIST;
    if (w->fd >= 0)
        return SR1_OK;
    status = sr1__fail_errno("write", w->path);
    sr1__free(w->path);
    w->path = NULL;
    return status;
}

/* Another process may write into the folder too. */
static sr1_status create_events_file(struct sr1__events *w)
{
    sr1_status status = SR1_OK;
    int taken = 1;

    for (int i = 0; i < 100 && taken; i++) {
        int64_t at = 0;

        SR1__TRY(name_time(w->folder, &at));
        status = create_named(w, at, &taken);
    }
    return status;
}

sr1_status sr1__events_add(struct sr1__events *w, const json_t *row)
{
    int64_t step = 0;

    SR1__TRY(sr1__json_get_int(row, "step", &step));
    sr1__buf_clear(&w->out);
    if (w->size == 0)
        write_events_head(w, step);
    write_summary_event(w, step, row);
    SR1__TRY(sr1__buf_status(&w->out, "TensorBoard record"));
    if (!w->path)
        SR1__TRY(create_events_file(w));
    return sr1__append(w->fd, w->path, &w->size, w->out.data, w->out.len);
}

sr1_status sr1__events_open(struct sr1__events **out, const char *folder)
{
    struct sr1__events *w = sr1__calloc(1, sizeof *w);

    SR1__CHECK_ALLOC(w, "TensorBoard writer");
    w->fd = -1;
    sr1__buf_init(&w->summary, 0);
    sr1__buf_init(&w->event, 0);
    sr1__buf_init(&w->out, 0);
    w->folder = sr1__strdup(folder);
    SR1__RETURN_NEW(
        out, w, w->folder ? sr1__dir_make(folder) : sr1__fail_nomem("TensorBoard writer"),
        sr1__events_close);
}

void sr1__events_close(struct sr1__events *w)
{
    if (!w)
        return;
    if (w->fd >= 0)
        close(w->fd);
    sr1__buf_free(&w->summary);
    sr1__buf_free(&w->event);
    sr1__buf_free(&w->out);
    sr1__free(w->folder);
    sr1__free(w->path);
    sr1__free(w);
}
