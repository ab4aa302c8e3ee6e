/* tensor/model/model_load.c - load weights from and save them to a Hugging Face
 * folder. */
#include "tensor/model/model_load.h"

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/quote.h"
#include "config/model_folder.h"
#include "tensor/model/adapter.h"
#include "tensor/weights/other_forms.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Static_assert((int)SR1__WEIGHT_F32 == (int)SR1__F32 &&
                   (int)SR1__WEIGHT_BF16 == (int)SR1__BF16 &&
                   (int)SR1__WEIGHT_F16 == (int)SR1__F16,
               "element types have one number in files and in memory");

sr1_status sr1__weight_load(const struct sr1__weight *w, sr1_tensor *to,
                            sr1__device device)
{
    sr1_scope *s = sr1__scope_open(device, "%s: %s", w->file, w->name);
    sr1_tensor *stored = NULL;

    sr1__scope_no_grad(s);
    sr1__scope_check(s, sr1__shim_wrap(&stored, (void *)(uintptr_t)w->data, w->dtype,
                                       w->n_dims, w->shape));
    stored = sr1__scope_own(s, stored);
    t_copy_(s, to, stored);
    if (sr1__scope_status(s) == SR1_OK && !t_isfinite_all(s, to))
        sr1__scope_fail(
            s, SR1_E_NUMERIC,
            "some weights are not finite (in %s); the file is damaged or needs "
            "a wider dtype",
            sr1__torch_dtype_name(t_dtype(to)));
    sr1__map_forget(w->data,
                    (size_t)t_numel(to) * (size_t)sr1__weight_dtype_size(w->dtype));
    return sr1__scope_close(s);
}

/* Copy one stored tensor into its view, and mark it in is_read [tensors of the file]. */
static sr1_status load_view(const sr1_model *m, const struct sr1__named *v,
                            const struct sr1__weights *file, unsigned char *is_read)
{
    const struct sr1__weight *w = NULL;

    SR1__TRY(sr1__weights_get(file, v->name, t_ndim(v->tensor),
                              sr1__shim_sizes(v->tensor), &w));
    is_read[w - sr1__weights_at(file, 0)] = 1;
    return sr1__weight_load(w, v->tensor, m->device);
}

/* Tensors in files that are not needed: the head of a model that ties it to its
 * embeddings, and tables of rope. */
static int is_redundant(const sr1_model *m, const char *name)
{
    return (m->config.tie_word_embeddings && strcmp(name, "lm_head.weight") == 0) ||
           strstr(name, "rotary_emb.inv_freq") != NULL;
}

/* As in transformers: tensors that config.json does not describe are ignored with a
 * warning. */
static void warn_unused_tensors(const sr1_model *m, const struct sr1__weights *file,
                                const unsigned char *is_read)
{
    const struct sr1__weight *first = NULL;
    size_t n = 0;

    for (size_t i = 0; i < sr1__weights_count(file); i++) {
        const struct sr1__weight *w = sr1__weights_at(file, i);

        if (is_read[i] || is_redundant(m, w->name))
            continue;
        first = first ? first : w;
        n++;
    }
    if (first)
        sr1__log(SR1_LOG_WARN,
                 "%s: tensor '%.200s'%s not part of the model that config.json "
                 "describes, and %zu tensor%s not used; check num_hidden_layers and "
                 "architectures",
                 first->file, first->name, n > 1 ? " and others are" : " is", n,
                 n > 1 ? "s are" : " is");
}

static sr1_status load_all(sr1_model *m, const char *folder)
{
    struct sr1__weights *file = NULL;
    unsigned char *is_read;
    sr1_status status = SR1_OK;

    SR1__TRY(sr1__weights_open(&file, folder));
    is_read = sr1__calloc(sr1__weights_count(file) + 1, 1);
    if (!is_read)
        status = sr1__fail_nomem("weights");
    for (size_t i = 0; i < m->n_views && status == SR1_OK; i++)
        status = load_view(m, &m->views[i], file, is_read);
    if (status == SR1_OK) {
        warn_unused_tensors(m, file, is_read);
        m->hash = m->base_hash = sr1__weights_hash(file);
    }
    status = sr1__weights_blame(file, status);
    sr1__free(is_read);
    sr1__weights_close(file);
    return status;
}

/* Where the last two names of a path begin: "Qwen/Qwen3-0.6B". */
static const char *last_two(const char *path)
{
    const char *at = strrchr(path, '/');

    while (at && at > path && at[-1] != '/')
        at--;
    return at && *at != '/' ? at : path;
}

/* May the last two names be a hub's owner and model? Not if a folder of the first name
 * exists, or if the name cannot be an owner's. */
static int is_hub_model_name(const char *folder)
{
    static const char *const folders[] = {"models", "model",  "runs",    "checkpoints",
                                          "out",    "output", "outputs", "tmp"};
    const char *name = last_two(folder), *slash = strchr(name, '/');
    size_t n = slash ? (size_t)(slash - name) : 0;
    char *parent;
    int there;

    if (n == 0 || slash[1] == '\0' || strchr(".~", *name))
        return 0;
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        if (strlen(folders[i]) == n && strncmp(name, folders[i], n) == 0)
            return 0;
    parent = sr1__strndup(folder, (size_t)(slash - folder));
    there = !parent || sr1__path_exists(parent);
    sr1__free(parent);
    return !there;
}

static sr1_status folder_holds(const char *folder, const char *name, int *yes)
{
    char *path = sr1__path_join(folder, name);

    SR1__CHECK_ALLOC(path, "file name");
    *yes = sr1__path_exists(path);
    sr1__free(path);
    return SR1_OK;
}

/* The folder of a run, or of a checkpoint, in place of the model in it. */
static sr1_status check_run(const char *kind, const char *folder)
{
    enum { MODEL, METRICS, CHECKPOINTS, WEIGHTS, SHARDS, N_NAMES };
    static const char *const names[N_NAMES] = {"model/config.json", "metrics.jsonl",
                                               "checkpoints", "model.safetensors",
                                               "model.safetensors.index.json"};
    const char *step = "/checkpoints/step-N/model";
    int holds[N_NAMES] = {0};

    for (size_t i = 0; i < N_NAMES; i++)
        SR1__TRY(folder_holds(folder, names[i], &holds[i]));
    if (holds[MODEL])
        step = "/model";
    else if (!holds[METRICS] || !holds[CHECKPOINTS])
        return SR1_OK;
    if (holds[WEIGHTS] || holds[SHARDS])
        return SR1_OK;
    return sr1__fail(SR1_E_CONFIG,
                     "%s '%s' is the folder of a run or of a checkpoint; the model in it "
                     "is %s%s",
                     kind, folder, folder, step);
}

static sr1_status refuse_missing(const char *kind, const char *folder)
{
    char cwd[PATH_MAX] = "", quoted[SR1__QUOTED_SIZE];
    const char *in = *folder != '/' && getcwd(cwd, sizeof cwd) ? " in " : "";
    char sign = sr1__unexpanded_sign(folder);

    if (sign)
        return sr1__fail(SR1_E_NOT_FOUND,
                         "%s '%s' is not a folder%s%s: only a shell expands %c; write "
                         "the path out",
                         kind, folder, in, *in ? cwd : "", sign);
    sr1__quote_word(folder, quoted, sizeof quoted);
    if (*folder == '/')
        return sr1__fail(SR1_E_NOT_FOUND,
                         "%s '%s' is not a folder; check the path. If the model was "
                         "moved, put it back, or a link to it at this place",
                         kind, folder);
    if (is_hub_model_name(folder))
        return sr1__fail(SR1_E_NOT_FOUND,
                         "%s '%s' is not a folder%s%s; check the path. Nothing is "
                         "fetched: if %s is a name at Hugging Face, download it with 'hf "
                         "download %s --local-dir %s'",
                         kind, folder, in, *in ? cwd : "", last_two(folder),
                         last_two(folder), quoted);
    return sr1__fail(SR1_E_NOT_FOUND,
                     "%s '%s' is not a folder%s%s; check the path. Nothing is fetched: "
                     "'hf download OWNER/NAME --local-dir %s' gets a model of Hugging "
                     "Face",
                     kind, folder, in, *in ? cwd : "", quoted);
}

sr1_status sr1__model_folder_check(const char *kind, const char *folder)
{
    if (sr1__path_is_dir(folder))
        return check_run(kind, folder);
    SR1__TRY(sr1__context(sr1__model_form_check(folder), "%s", kind));
    return refuse_missing(kind, folder);
}

/* Adapters name the folder of their base as it is found from anywhere. */
static sr1_status note_folder(sr1_model *m, const char *folder)
{
    char path[PATH_MAX];

    m->folder = sr1__strdup(realpath(folder, path) ? path : folder);
    return m->folder ? SR1_OK : sr1__fail_nomem("folder of a model");
}

static sr1_status load_whole(sr1_model **out, const char *folder, int32_t dtype,
                             sr1__device device)
{
    struct sr1__hf_config config;
    sr1_model *m = NULL;
    sr1_status status;

    SR1__TRY(sr1__hf_config_load(&config, folder));
    SR1__TRY(sr1__model_empty(&m, &config, dtype < 0 ? config.dtype : dtype, device));
    status = load_all(m, folder);
    if (status == SR1_OK)
        status = note_folder(m, folder);
    SR1__RETURN_NEW(out, m, sr1__context(status, "model"), sr1_model_free);
}

static sr1_status check_nested(const char *base)
{
    int nested = 0;

    SR1__TRY(sr1__adapter_is_folder(base, &nested));
    if (!nested)
        return SR1_OK;
    return sr1__fail(SR1_E_UNSUPPORTED,
                     "'base_model_name_or_path' is %s, an adapter itself; merge that "
                     "into its base first (sr1-data merge)",
                     base);
}

#define NAME_BASE                                                                        \
    "name the base's folder as base_model_name_or_path (sr1-data merge: --base)"

static sr1_status check_base(const struct sr1__model_base *base)
{
    struct sr1__error why;

    if (!*base->folder)
        return sr1__fail(SR1_E_CONFIG, "it names no base model; " NAME_BASE);
    SR1__TRY(check_nested(base->folder));
    if (sr1__path_is_dir(base->folder))
        return sr1__model_folder_check("the base model", base->folder);
    if (base->tried)
        return sr1__fail(
            SR1_E_NOT_FOUND,
            "the base model '%s' is not a folder, nor is '%s', which the run "
            "was trained from; " NAME_BASE,
            base->folder, base->tried);
    sr1__error_save(&why, sr1__model_folder_check("the base model", base->folder));
    return sr1__fail(why.code, "%s; or " NAME_BASE, why.text);
}

/* A critic's adapter is on a critic, a policy's on a language model. */
static sr1_status load_base(sr1_model **out, const char *folder, int value_head,
                            int32_t dtype, sr1__device device)
{
    sr1_model *m = NULL;
    sr1_status st;

    SR1__TRY(load_whole(&m, folder, dtype, device));
    if (!value_head && m->value_head)
        st = sr1__fail(SR1_E_UNSUPPORTED,
                       "%s is a critic, and the adapter one of a language model", folder);
    else if (value_head && !m->value_head)
        st = sr1__model_critic(out, m, -1);
    else
        st = SR1_OK;
    if (st != SR1_OK || *out != NULL)
        sr1_model_free(m);
    else
        *out = m;
    return st;
}

static sr1_status load_on_base(sr1_model **out, const struct sr1__lora_config *config,
                               const char *folder, const char *base, int32_t dtype,
                               sr1__device device)
{
    sr1_model *m = NULL;

    SR1__TRY(load_base(&m, base, config->value_head, dtype, device));
    SR1__RETURN_NEW(out, m,
                    sr1__context(sr1__adapter_open(m, config, folder),
                                 "adapter of rank %lld on %s", (long long)config->rank,
                                 base),
                    sr1_model_free);
}

static sr1_status load_adapted(sr1_model **out, const char *folder, const char *given,
                               int32_t dtype, sr1__device device)
{
    struct sr1__lora_config config;
    struct sr1__model_base base = {NULL, NULL};
    sr1_status status;

    SR1__TRY(sr1__context(sr1__lora_config_load(&config, folder), "adapter"));
    status = sr1__model_base_find(&base, folder, given);
    if (status == SR1_OK)
        status = sr1__context(check_base(&base), "%s/" SR1__ADAPTER_CONFIG_FILE, folder);
    if (status == SR1_OK)
        status = load_on_base(out, &config, folder, base.folder, dtype, device);
    sr1__model_base_free(&base);
    sr1__lora_config_free(&config);
    return status;
}

sr1_status sr1__model_load(sr1_model **out, const char *folder, const char *base,
                           int32_t dtype, sr1__device device)
{
    int adapted = 0;

    SR1__TRY(sr1__model_folder_check("model", folder));
    SR1__TRY(sr1__adapter_is_folder(folder, &adapted));
    return adapted ? load_adapted(out, folder, base, dtype, device)
                   : load_whole(out, folder, dtype, device);
}

/* ---- saving ---- */

struct model_save {
    const sr1_model *m;
    void *bytes; /* of the tensor asked for last */
};

static sr1_status read_view_bytes(void *arg, size_t i, const void **bytes)
{
    struct model_save *save = arg;
    size_t n = (size_t)t_numel(save->m->views[i].tensor);
    int32_t dtype = save->m->dtype;
    sr1_scope *s;
    sr1_tensor *t;

    sr1__free(save->bytes);
    save->bytes = sr1__malloc(n * sr1__torch_dtype_size(dtype));
    SR1__CHECK_ALLOC(save->bytes, "tensor to save");
    s = sr1__scope_open(save->m->device, "saved weights");
    sr1__scope_no_grad(s);
    t = sr1__adapter_merged(s, save->m, i);
    if (sr1__scope_status(s) == SR1_OK)
        sr1__scope_check(s, sr1__shim_to_host(t, dtype, save->bytes, n));
    *bytes = save->bytes;
    return sr1__scope_close(s);
}

static void describe_tensors(const sr1_model *m, struct sr1__weight_out *rows)
{
    for (size_t i = 0; i < m->n_views; i++) {
        const struct sr1__named *v = &m->views[i];

        rows[i] = (struct sr1__weight_out){
            .name = v->name, .dtype = m->dtype, .n_dims = t_ndim(v->tensor)};
        memcpy(rows[i].shape, sr1__shim_sizes(v->tensor),
               (size_t)rows[i].n_dims * sizeof(int64_t));
    }
}

/* What the folder holds besides. */
static sr1_status store_config(const sr1_model *m, const char *folder)
{
    struct sr1__hf_config config = m->config;

    config.dtype = m->dtype;
    SR1__TRY(sr1__hf_config_save(&config, folder));
    /* one that lay there would be taken for what the folder holds */
    return sr1__file_remove(folder, SR1__ADAPTER_CONFIG_FILE);
}

static sr1_status store_weights(const sr1_model *m, const char *folder,
                                struct sr1__weight_part part)
{
    struct sr1__weight_out *rows = sr1__calloc(m->n_views, sizeof *rows);
    struct model_save save = {m, NULL};
    sr1_status status;

    SR1__CHECK_ALLOC(rows, "list of tensors");
    describe_tensors(m, rows);
    status = sr1__dir_make(folder);
    if (status == SR1_OK)
        status = sr1__weights_save_part(folder, rows, m->n_views, part, read_view_bytes,
                                        &save);
    sr1__free(save.bytes);
    sr1__free(rows);
    return status;
}

sr1_status sr1__model_store(const sr1_model *m, const char *folder)
{
    struct sr1__weight_part all = {0, 0};
    sr1_status status = store_weights(m, folder, all);

    if (status == SR1_OK)
        status = store_config(m, folder);
    return sr1__context(status, "saving the model to '%s'", folder);
}

sr1_status sr1__model_store_part(const sr1_model *m, const char *folder,
                                 struct sr1__weight_part part)
{
    sr1_status status = SR1_OK;

    if (m->adapter)
        return part.part == 0 ? sr1_model_save(m, folder) : SR1_OK;
    status = store_weights(m, folder, part);
    if (status == SR1_OK && part.part == 0)
        status = store_config(m, folder);
    return sr1__context(status, "saving the model to '%s'", folder);
}
