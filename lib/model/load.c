/* lib/model/load.c - weights from and to a Hugging Face folder. */
#include "model/load.h"

#include "base/file.h"
#include "base/mem.h"

#include <string.h>

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
    return sr1__scope_close(s);
}

/* Copy one stored tensor into its view. */
static sr1_status load_view(const sr1_model *m, const struct sr1__named *v,
                            const struct sr1__weights *file)
{
    const struct sr1__weight *w = NULL;

    SR1__TRY(sr1__weights_get(file, v->name, t_ndim(v->tensor),
                              sr1__shim_sizes(v->tensor), &w));
    return sr1__weight_load(w, v->tensor, m->device);
}

static sr1_status load_all(sr1_model *m, const char *folder)
{
    struct sr1__weights *file = NULL;
    sr1_status status = SR1_OK;

    SR1__TRY(sr1__weights_open(&file, folder));
    for (size_t i = 0; i < m->n_views && status == SR1_OK; i++)
        status = load_view(m, &m->views[i], file);
    sr1__weights_close(file);
    return status;
}

/* "Qwen/Qwen3-0.6B", and not a path. */
static int may_be_a_name(const char *folder)
{
    const char *slash = strchr(folder, '/');

    return *folder != '\0' && !strchr("/.~", *folder) &&
           !(slash && (slash[1] == '\0' || strchr(slash + 1, '/')));
}

sr1_status sr1__model_folder_check(const char *kind, const char *folder)
{
    if (sr1__path_is_dir(folder))
        return SR1_OK;
    if (!may_be_a_name(folder))
        return sr1__fail(SR1_E_NOT_FOUND, "%s '%s' is not a folder; check the path", kind,
                         folder);
    return sr1__fail(SR1_E_NOT_FOUND,
                     "%s '%s' is not a folder; check the path. Nothing is fetched: if it "
                     "is a name at Hugging Face, download it with 'hf download %s "
                     "--local-dir %s'",
                     kind, folder, folder, folder);
}

sr1_status sr1__model_load(sr1_model **out, const char *folder, int32_t dtype,
                           sr1__device device)
{
    struct sr1__hf_config config;
    sr1_model *m = NULL;
    sr1_status status;

    SR1__TRY(sr1__model_folder_check("model", folder));
    SR1__TRY(sr1__hf_config_load(&config, folder));
    SR1__TRY(sr1__model_empty(&m, &config, dtype, device));
    status = load_all(m, folder);
    if (status != SR1_OK) {
        sr1_model_free(m);
        return sr1__context(status, "model '%s'", folder);
    }
    *out = m;
    return SR1_OK;
}

/* ---- saving ---- */

struct save {
    const sr1_model *m;
    void *bytes; /* of the tensor asked for last */
};

static sr1_status tensor_bytes(void *arg, size_t i, const void **bytes)
{
    struct save *save = arg;
    sr1_tensor *t = save->m->views[i].tensor;
    size_t n = (size_t)t_numel(t);
    int32_t dtype = save->m->dtype;

    sr1__free(save->bytes);
    save->bytes = sr1__malloc(n * sr1__torch_dtype_size(dtype));
    if (!save->bytes)
        return sr1__fail_nomem("tensor to save");
    SR1__TRY(sr1__shim_to_host(t, dtype, save->bytes, n));
    *bytes = save->bytes;
    return SR1_OK;
}

static void describe(const sr1_model *m, struct sr1__weight_out *rows)
{
    for (size_t i = 0; i < m->n_views; i++) {
        const struct sr1__named *v = &m->views[i];

        rows[i] = (struct sr1__weight_out){.name = v->name,
                                           .dtype = m->dtype,
                                           .n_dims = t_ndim(v->tensor)};
        memcpy(rows[i].shape, sr1__shim_sizes(v->tensor),
               (size_t)rows[i].n_dims * sizeof(int64_t));
    }
}

sr1_status sr1__model_store(const sr1_model *m, const char *folder)
{
    struct sr1__weight_out *rows = sr1__calloc(m->n_views, sizeof *rows);
    struct sr1__hf_config config = m->config;
    struct save save = {m, NULL};
    sr1_status status;

    if (!rows)
        return sr1__fail_nomem("list of tensors");
    describe(m, rows);
    config.dtype = m->dtype;
    status = sr1__dir_make(folder);
    if (status == SR1_OK)
        status = sr1__weights_save(folder, rows, m->n_views, 0, tensor_bytes, &save);
    if (status == SR1_OK)
        status = sr1__hf_config_save(&config, folder);
    sr1__free(save.bytes);
    sr1__free(rows);
    return sr1__context(status, "saving the model to '%s'", folder);
}
