/* tensor/weights/other_forms.c - see other_forms.h. */
#include "tensor/weights/other_forms.h"

#include "base/file.h"

#include <string.h>

/* The first that fits: a name, or what it ends in after "*". The last two are looked for
 * in the name of a file only, not among those of a folder. */
static const struct {
    const char *name, *what, *remedy;
} forms[] = {
    {"adapter_config.json", "a LoRA adapter, not a model",
     "merge it into its base model first (sr1-data merge)"},
    {"*.gguf", "a model in GGUF, llama.cpp's form",
     "use the Hugging Face folder that it was made from"},
    {"pytorch_model.bin", "weights in pytorch_model.bin, which are not read",
     "save them as safetensors (transformers: from_pretrained, then save_pretrained)"},
    {"pytorch_model.bin.index.json", "weights in pytorch_model-*.bin, which are not read",
     "save them as safetensors (transformers: from_pretrained, then save_pretrained)"},
    {"tf_model.h5", "weights of TensorFlow, which are not read",
     "save them as safetensors (transformers: from_pretrained, then save_pretrained)"},
    {"flax_model.msgpack", "weights of Flax, which are not read",
     "save them as safetensors (transformers: from_pretrained, then save_pretrained)"},
    {"*.safetensors", "a file of weights", "name the folder that holds it"},
    {"*.bin", "a file of weights", "name the Hugging Face folder that holds it"},
};
#define FORMS (sizeof forms / sizeof forms[0])
#define FOLDER_FORMS (FORMS - 2)

static int is_named(const char *name, const char *pattern)
{
    size_t n = strlen(name), len;

    if (pattern[0] != '*')
        return strcmp(name, pattern) == 0;
    len = strlen(pattern + 1);
    return n > len && strcmp(name + n - len, pattern + 1) == 0;
}

static sr1_status refuse_folder(const char *folder, char *const *names, size_t n)
{
    for (size_t f = 0; f < FOLDER_FORMS; f++)
        for (size_t i = 0; i < n; i++)
            if (is_named(names[i], forms[f].name))
                return sr1__fail(SR1_E_UNSUPPORTED, "%s holds %s: %s", folder,
                                 forms[f].what, forms[f].remedy);
    return SR1_OK;
}

static sr1_status check_folder(const char *folder)
{
    char **names = NULL;
    size_t n = 0;
    sr1_status status;

    SR1__TRY(sr1__dir_list(folder, &names, &n));
    status = refuse_folder(folder, names, n);
    sr1__dir_list_free(names, n);
    return status;
}

sr1_status sr1__model_form_check(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;

    if (sr1__path_is_dir(path))
        return check_folder(path);
    for (size_t f = 0; f < FORMS; f++)
        if (is_named(name, forms[f].name))
            return sr1__fail(SR1_E_UNSUPPORTED, "%s is %s: %s", path, forms[f].what,
                             forms[f].remedy);
    return SR1_OK;
}
