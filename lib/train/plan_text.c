/* train/plan_text.c - a plan as a table for people, and as JSON. */
#include "train/plan.h"

#include "base/mem.h"

#include <stdio.h>

/* ---- the table ---- */

#define NAME_WIDTH 24
#define COLUMN_WIDTH 14

static void add_size(struct sr1__buf *b, double bytes, int width)
{
    static const char *const units[] = {"kB", "MB", "GB", "TB"};
    char text[24] = "";
    size_t i = 0;

    bytes /= 1e3;
    for (; bytes >= 999.5 && i < 3; i++)
        bytes /= 1e3;
    if (bytes > 0)
        snprintf(text, sizeof text, "%.*f %s", bytes < 99.95 ? 1 : 0, bytes, units[i]);
    sr1__buf_fmt(b, "%*s", width, text);
}

static void add_count(struct sr1__buf *b, double n)
{
    static const char *const units[] = {"", " k", " M", " B"};
    size_t i = 0;

    while (n >= 999.5 && i < 3) {
        n /= 1000;
        i++;
    }
    sr1__buf_fmt(b, "%.*f%s", i && n < 99.5 ? 1 : 0, n, units[i]);
}

static int is_there(const struct sr1__plan_figures *f, size_t phase)
{
    return f->peaks[phase][SR1__PLAN_DEVICE] > 0;
}

static void write_chosen(struct sr1__buf *b, const sr1_plan *p)
{
    int n = 0;

    for (size_t i = 0; i < SR1__PLAN_CHOSEN; i++)
        if (p->chosen[i] > 0)
            sr1__buf_fmt(b, "%s %s=%lld", n++ ? "" : "chosen   ", sr1__plan_chosen_key(i),
                         (long long)p->chosen[i]);
    if (n > 0)
        sr1__buf_char(b, '\n');
}

static int find_warning(const sr1_plan *p, char *text, size_t size)
{
    const struct sr1__memory_model *m = &p->figures.policy;

    return sr1__rank_warning(m->lora.rank, m->config.hidden_size, text, size);
}

static void write_warning(struct sr1__buf *b, const sr1_plan *p)
{
    char text[256];

    if (find_warning(p, text, sizeof text))
        sr1__buf_fmt(b, "warning   %s\n", text);
}

static void write_head(struct sr1__buf *b, const sr1_plan *p)
{
    const struct sr1__plan_figures *f = &p->figures;
    const struct sr1__plan_step *s = &f->step;

    sr1__buf_str(b, "model     ");
    add_count(b, sr1__memory_parameters(&f->policy.config));
    sr1__buf_fmt(b, " parameters, %s on %s; ", sr1__torch_dtype_name(f->policy.dtype),
                 p->device_name);
    add_count(b, sr1__memory_trained(&f->policy));
    sr1__buf_fmt(b, " are trained%s\n",
                 p->shapes.has_weights ? ""
                                       : " (no weights there: by config.json alone)");
    sr1__buf_fmt(b, "a step    %.0f trajectories of at most %.0f tokens", s->trajectories,
                 s->context);
    if (s->generates)
        sr1__buf_fmt(b, ", %.0f decoded at once", s->rows);
    sr1__buf_fmt(b, "\nan update %.0f micro-batch%s of at most %.0f tokens",
                 s->passes * s->workers, s->passes * s->workers == 1 ? "" : "es",
                 s->micro);
    if (s->workers > 1)
        sr1__buf_fmt(b, ", %.0f at once", s->workers);
    sr1__buf_char(b, '\n');
    if (s->ranks > 1)
        sr1__buf_fmt(b, "a process one of %.0f, %s\n", s->ranks,
                     s->shards > 1 ? "each with a part of the optimizer's states"
                                   : "each with all of the optimizer's states");
    write_chosen(b, p);
    write_warning(b, p);
    sr1__buf_char(b, '\n');
}

static void write_phase_names(struct sr1__buf *b, const struct sr1__plan_figures *f)
{
    sr1__buf_fmt(b, "%-*s", NAME_WIDTH, "");
    for (size_t k = 0; k < SR1__PLAN_PHASES; k++)
        if (is_there(f, k))
            sr1__buf_fmt(b, "%*s", COLUMN_WIDTH, sr1__plan_phases[k]);
    sr1__buf_char(b, '\n');
}

static void write_row(struct sr1__buf *b, const struct sr1__plan_figures *f,
                      const struct sr1__plan_item *item)
{
    sr1__buf_fmt(b, "%-*s", NAME_WIDTH, item->name);
    for (size_t k = 0; k < SR1__PLAN_PHASES; k++)
        if (is_there(f, k))
            add_size(b, item->phases & 1u << k ? item->bytes : 0, COLUMN_WIDTH);
    sr1__buf_char(b, '\n');
}

static void write_peaks(struct sr1__buf *b, const struct sr1__plan_figures *f,
                        const char *name, enum sr1__plan_place place)
{
    sr1__buf_fmt(b, "%-*s", NAME_WIDTH, name);
    for (size_t k = 0; k < SR1__PLAN_PHASES; k++)
        if (is_there(f, k))
            add_size(b, f->peaks[k][place], COLUMN_WIDTH);
    sr1__buf_char(b, '\n');
}

static void write_place(struct sr1__buf *b, const struct sr1__plan_figures *f,
                        enum sr1__plan_place place)
{
    for (size_t i = 0; i < f->n_items; i++)
        if (f->items[i].place == place)
            write_row(b, f, &f->items[i]);
}

static void write_table(struct sr1__buf *b, const struct sr1__plan_figures *f)
{
    int one = f->policy.device == SR1__CPU;

    write_phase_names(b, f);
    write_place(b, f, SR1__PLAN_DEVICE);
    if (one)
        write_place(b, f, SR1__PLAN_HOST);
    write_peaks(b, f, one ? "peak" : "peak on the device", SR1__PLAN_DEVICE);
    if (one)
        return;
    sr1__buf_char(b, '\n');
    write_place(b, f, SR1__PLAN_HOST);
    write_peaks(b, f, "peak on the host", SR1__PLAN_HOST);
}

static void write_disk(struct sr1__buf *b, const sr1_plan *p)
{
    sr1__buf_str(b, "\ndisk      a checkpoint takes ");
    add_size(b, p->figures.checkpoint, 0);
    sr1__buf_str(b, ", the run at most ");
    add_size(b, p->figures.disk, 0);
    if (!p->figures.counts_steps)
        sr1__buf_str(b, sr1__config_int(p->config, "keep_checkpoints") > 0
                            ? " (fewer steps may take less)"
                            : " with two of them (keep_checkpoints: 0 keeps all)");
    if (p->disk_free >= 0) {
        sr1__buf_str(b, "; ");
        add_size(b, p->disk_free, 0);
        sr1__buf_str(b, " are free");
        if (p->disk_free < p->figures.checkpoint)
            sr1__buf_str(b, ": not enough for one checkpoint");
        else if (p->disk_free < p->figures.disk)
            sr1__buf_str(b, ": not enough for all that the run may write");
    }
    sr1__buf_char(b, '\n');
}

static void write_verdict(struct sr1__buf *b, const sr1_plan *p)
{
    const struct sr1__plan_figures *f = &p->figures;

    sr1__buf_fmt(b, "largest   %s: ", sr1__plan_phases[f->largest]);
    add_size(b, f->peak, 0);
    sr1__buf_str(b, " of ");
    add_size(b, p->memory, 0);
    sr1__buf_str(b, p->given ? "" : " free");
    sr1__buf_fmt(b, " on %s: %s\n", p->device_name,
                 f->peak <= p->memory ? "it fits" : "it does not fit");
    if (!sr1__plan_host_fits(p, f)) {
        sr1__buf_str(b, "host      ");
        add_size(b, f->host, 0);
        sr1__buf_str(b, " of ");
        add_size(b, p->host_memory, 0);
        sr1__buf_str(b, " free: it does not fit\n");
    }
}

static void write_advice(struct sr1__buf *b, const sr1_plan *p)
{
    int fits = sr1__plan_fits(p, &p->figures);
    int on_host = !sr1__plan_host_fits(p, &p->figures);

    if (p->n_advice > 0)
        sr1__buf_str(b, "\npeak with keys that lower it\n");
    for (size_t i = 0; i < p->n_advice; i++) {
        add_size(b, p->advice[i].peak, 10);
        if (on_host) {
            add_size(b, p->advice[i].host, 10);
            sr1__buf_str(b, " host");
        }
        sr1__buf_fmt(b, "  %s%s\n", p->advice[i].set,
                     p->advice[i].fits ? "  (fits)" : "");
        fits |= p->advice[i].fits;
    }
    if (!fits)
        sr1__buf_str(b, "nothing that was tried fits: take a smaller model, shorter "
                        "texts, or more memory\n");
}

sr1_status sr1__plan_write_text(sr1_plan *p)
{
    struct sr1__buf b;

    sr1__buf_init(&b, 0);
    write_head(&b, p);
    write_table(&b, &p->figures);
    write_disk(&b, p);
    write_verdict(&b, p);
    write_advice(&b, p);
    return sr1__buf_finish(&b, "plan", &p->text);
}

/* ---- JSON ---- */

static json_t *make_bytes(double v)
{
    return json_integer(v < 9e18 ? (int64_t)v : INT64_MAX);
}

static json_t *list_phases(uint32_t bits)
{
    json_t *list = json_array();

    for (size_t k = 0; k < SR1__PLAN_PHASES; k++)
        if (bits & 1u << k)
            json_array_append_new(list, json_string(sr1__plan_phases[k]));
    return list;
}

static json_t *list_items(const struct sr1__plan_figures *f)
{
    json_t *list = json_array();

    for (size_t i = 0; i < f->n_items; i++) {
        const struct sr1__plan_item *t = &f->items[i];

        json_array_append_new(
            list, json_pack("{s:s, s:s, s:o, s:o}", "name", t->name, "place",
                            t->place == SR1__PLAN_DEVICE ? "device" : "host", "bytes",
                            make_bytes(t->bytes), "phases", list_phases(t->phases)));
    }
    return list;
}

static json_t *list_peaks(const struct sr1__plan_figures *f)
{
    json_t *list = json_array();

    for (size_t k = 0; k < SR1__PLAN_PHASES; k++)
        if (is_there(f, k))
            json_array_append_new(
                list, json_pack("{s:s, s:o, s:o}", "name", sr1__plan_phases[k],
                                "device_bytes", make_bytes(f->peaks[k][SR1__PLAN_DEVICE]),
                                "host_bytes", make_bytes(f->peaks[k][SR1__PLAN_HOST])));
    return list;
}

static json_t *list_advice(const sr1_plan *p)
{
    json_t *list = json_array();

    for (size_t i = 0; i < p->n_advice; i++)
        json_array_append_new(
            list, json_pack("{s:s, s:o, s:o, s:b}", "set", p->advice[i].set, "peak_bytes",
                            make_bytes(p->advice[i].peak), "host_bytes",
                            make_bytes(p->advice[i].host), "fits", p->advice[i].fits));
    return list;
}

static json_t *list_chosen(const sr1_plan *p)
{
    json_t *object = json_object();

    for (size_t i = 0; i < SR1__PLAN_CHOSEN; i++)
        if (p->chosen[i] > 0)
            json_object_set_new(object, sr1__plan_chosen_key(i),
                                json_integer(p->chosen[i]));
    return object;
}

static json_t *list_warnings(const sr1_plan *p)
{
    json_t *list = json_array();
    char text[256];

    if (find_warning(p, text, sizeof text))
        json_array_append_new(list, json_string(text));
    return list;
}

static json_t *make_step(const struct sr1__plan_step *s)
{
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "trajectories",
                     make_bytes(s->trajectories), "tokens", make_bytes(s->context),
                     "decoded_at_once", make_bytes(s->generates ? s->rows : 0),
                     "micro_batch_tokens", make_bytes(s->micro), "micro_batches",
                     make_bytes(s->passes * s->workers), "workers",
                     make_bytes(s->workers), "world_size", make_bytes(s->ranks), "shards",
                     make_bytes(s->shards));
}

static json_t *make_json(const sr1_plan *p)
{
    const struct sr1__plan_figures *f = &p->figures;

    return json_pack(
        "{s:s, s:s, s:b, s:o, s:o, s:o, s:o, s:o, s:o, s:s, s:o, s:o, s:o, s:o, s:b, "
        "s:o, s:o, s:o, s:o, s:o}",
        "device", p->device_name, "dtype", sr1__torch_dtype_name(f->policy.dtype),
        "weights_found", p->shapes.has_weights, "parameters",
        make_bytes(sr1__memory_parameters(&f->policy.config)), "trained",
        make_bytes(sr1__memory_trained(&f->policy)), "step", make_step(&f->step),
        "chosen", list_chosen(p), "items", list_items(f), "phases", list_peaks(f),
        "largest", sr1__plan_phases[f->largest], "peak_bytes", make_bytes(f->peak),
        "memory_bytes", make_bytes(p->memory), "host_peak_bytes", make_bytes(f->host),
        "host_memory_bytes", make_bytes(p->host_memory), "fits", sr1__plan_fits(p, f),
        "checkpoint_bytes", make_bytes(f->checkpoint), "disk_bytes", make_bytes(f->disk),
        "disk_free_bytes", p->disk_free >= 0 ? make_bytes(p->disk_free) : json_null(),
        "advice", list_advice(p), "warnings", list_warnings(p));
}

sr1_status sr1__plan_write_json(sr1_plan *p)
{
    json_t *j = make_json(p);
    struct sr1__buf b;
    sr1_status st;

    SR1__CHECK_ALLOC(j, "plan");
    sr1__buf_init(&b, 0);
    st = sr1__json_dump(j, 2, &b);
    json_decref(j);
    if (st == SR1_OK)
        return sr1__buf_finish(&b, "plan", &p->json);
    sr1__buf_free(&b);
    return st;
}
