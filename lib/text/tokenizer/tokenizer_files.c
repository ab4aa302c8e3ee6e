/* text/tokenizer/tokenizer_files.c - see tokenizer_files.h. A run that ends days later
 * saves what it was started with, though its folder has changed or gone. */
#include "text/tokenizer/tokenizer_files.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static const char *const file_names[] = {"tokenizer.json",      "tokenizer_config.json",
                                         "chat_template.jinja", "special_tokens_map.json",
                                         "added_tokens.json",   "vocab.json",
                                         "merges.txt",          "generation_config.json",
                                         "vocab.txt",           "spiece.model"};
#define FILES (sizeof(file_names) / sizeof(file_names[0]))

#define TEMPLATES "additional_chat_templates"
#define TEMPLATE_END ".jinja"
#define TEMPLATES_MAX 64

struct named_template {
    char *name; /* without its end */
    struct sr1__buf text;
};

struct sr1__tokenizer_files {
    struct sr1__buf bytes[FILES];
    unsigned char there[FILES];
    struct named_template templates[TEMPLATES_MAX];
    size_t n_templates;
};

static sr1_status read_one(struct sr1__tokenizer_files *f, size_t i, const char *folder)
{
    char *path = sr1__path_join(folder, file_names[i]);
    sr1_status status = SR1_OK;

    SR1__CHECK_ALLOC(path, "tokenizer");
    f->there[i] = (unsigned char)sr1__path_exists(path);
    if (f->there[i])
        status = sr1__file_read(path, SR1__TOKENIZER_FILE_MAX, &f->bytes[i]);
    sr1__free(path);
    return status;
}

static int is_among(const char *name, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(names[i], name) == 0)
            return 1;
    return 0;
}

static sr1_status clear_files(const char *folder, const char *const *kept, size_t n)
{
    for (size_t i = 0; i < FILES; i++)
        if (!is_among(file_names[i], kept, n))
            SR1__TRY(sr1__file_remove(folder, file_names[i]));
    return SR1_OK;
}

static sr1_status write_one(const char *folder, const char *name,
                            const struct sr1__buf *bytes)
{
    char *path = sr1__path_join(folder, name);
    sr1_status status;

    SR1__CHECK_ALLOC(path, "saving the tokenizer");
    status = sr1__file_replace(path, sr1__buf_cstr(bytes), bytes->len);
    sr1__free(path);
    return status;
}

/* ---- named templates ---- */

size_t sr1__tokenizer_files_templates(const struct sr1__tokenizer_files *f)
{
    return f ? f->n_templates : 0;
}

const char *sr1__tokenizer_files_template(const struct sr1__tokenizer_files *f, size_t i,
                                          const struct sr1__buf **text)
{
    if (i >= sr1__tokenizer_files_templates(f))
        return NULL;
    *text = &f->templates[i].text;
    return f->templates[i].name;
}

static sr1_status read_template_file(void *self, const char *folder, const char *file)
{
    struct sr1__tokenizer_files *f = self;
    struct named_template *t = &f->templates[f->n_templates];
    char *path;
    sr1_status status;

    if (f->n_templates == TEMPLATES_MAX)
        return sr1__fail(SR1_E_LIMIT, "%s: more than %d chat templates", folder,
                         TEMPLATES_MAX);
    path = sr1__path_join(folder, file);
    t->name = sr1__strndup(file, strlen(file) - strlen(TEMPLATE_END));
    sr1__buf_init(&t->text, 0);
    f->n_templates++;
    status = path && t->name ? sr1__file_read(path, SR1__CHAT_TEMPLATE_MAX, &t->text)
                             : sr1__fail_nomem("chat templates");
    sr1__free(path);
    return status;
}

/* Call fn with the names of the templates' files in folder/additional_chat_templates. */
static sr1_status each_template_file(const char *folder, void *self,
                                     sr1_status (*fn)(void *self, const char *folder,
                                                      const char *file))
{
    char *path = sr1__path_join(folder, TEMPLATES), **names = NULL;
    size_t n = 0;
    sr1_status status = SR1_OK;

    SR1__CHECK_ALLOC(path, "chat templates");
    if (sr1__path_is_dir(path))
        status = sr1__dir_list(path, &names, &n);
    for (size_t i = 0; i < n && status == SR1_OK; i++) {
        struct sr1__str name = sr1__str_of(names[i]);

        if (name.n > strlen(TEMPLATE_END) && sr1__str_ends_with(name, TEMPLATE_END))
            status = fn(self, path, names[i]);
    }
    sr1__dir_list_free(names, n);
    sr1__free(path);
    return status;
}

sr1_status sr1__tokenizer_files_read_templates(struct sr1__tokenizer_files *f,
                                               const char *folder)
{
    return f->n_templates ? SR1_OK : each_template_file(folder, f, read_template_file);
}

static sr1_status write_templates(const struct sr1__tokenizer_files *f,
                                  const char *folder)
{
    char *below = sr1__path_join(folder, TEMPLATES);
    sr1_status status = below ? SR1_OK : sr1__fail_nomem("chat templates");

    if (status == SR1_OK && f->n_templates)
        status = sr1__dir_make(below);
    for (size_t i = 0; i < f->n_templates && status == SR1_OK; i++) {
        struct sr1__buf file;

        sr1__buf_init(&file, 0);
        sr1__buf_fmt(&file, "%s" TEMPLATE_END, f->templates[i].name);
        status = sr1__buf_status(&file, "chat templates");
        if (status == SR1_OK)
            status = write_one(below, sr1__buf_cstr(&file), &f->templates[i].text);
        sr1__buf_free(&file);
    }
    sr1__free(below);
    return status;
}

/* f NULL: all of them go. */
static sr1_status remove_template_file(void *self, const char *folder, const char *file)
{
    const struct sr1__tokenizer_files *f = self;
    size_t n = strlen(file) - strlen(TEMPLATE_END);

    for (size_t i = 0; i < sr1__tokenizer_files_templates(f); i++)
        if (strlen(f->templates[i].name) == n &&
            strncmp(f->templates[i].name, file, n) == 0)
            return SR1_OK;
    return sr1__file_remove(folder, file);
}

/* All but those of f (NULL: none of them stays), and a folder that became empty. */
static sr1_status clear_templates(const char *folder,
                                  const struct sr1__tokenizer_files *f)
{
    char *below = sr1__path_join(folder, TEMPLATES);
    sr1_status status = below ? SR1_OK : sr1__fail_nomem("chat templates");

    if (status == SR1_OK)
        status = each_template_file(folder, (void *)(uintptr_t)f, remove_template_file);
    if (status == SR1_OK && rmdir(below) != 0 && errno != ENOENT && errno != ENOTEMPTY &&
        errno != EEXIST)
        status = sr1__fail_errno("remove folder", below);
    sr1__free(below);
    return status;
}

/* ---- all files ---- */

static int is_there(const struct sr1__tokenizer_files *f, const char *name)
{
    return sr1__tokenizer_files_find(f, name) != NULL;
}

/* Without a tokenizer of its own a folder takes all that it lacks, else one file. */
static int is_spare_wanted(const struct sr1__tokenizer_files *f, size_t i)
{
    int own = is_there(f, "tokenizer.json") || is_there(f, "vocab.txt") ||
              is_there(f, "spiece.model");

    return !own || strcmp(file_names[i], "generation_config.json") == 0;
}

static sr1_status read_all(struct sr1__tokenizer_files *f, const char *folder,
                           const char *spare)
{
    unsigned char wanted[FILES];

    for (size_t i = 0; i < FILES; i++)
        SR1__TRY(read_one(f, i, folder));
    SR1__TRY(sr1__tokenizer_files_read_templates(f, folder));
    for (size_t i = 0; i < FILES; i++)
        wanted[i] = spare && !f->there[i] && is_spare_wanted(f, i);
    for (size_t i = 0; i < FILES; i++)
        if (wanted[i])
            SR1__TRY(read_one(f, i, spare));
    return SR1_OK;
}

sr1_status sr1__tokenizer_files_read(struct sr1__tokenizer_files **out,
                                     const char *folder, const char *spare)
{
    struct sr1__tokenizer_files *f = sr1__calloc(1, sizeof(*f));

    SR1__CHECK_ALLOC(f, "tokenizer");
    for (size_t i = 0; i < FILES; i++)
        sr1__buf_init(&f->bytes[i], 0);
    SR1__RETURN_NEW(out, f, read_all(f, folder, spare), sr1__tokenizer_files_free);
}

void sr1__tokenizer_files_free(struct sr1__tokenizer_files *f)
{
    for (size_t i = 0; f != NULL && i < FILES; i++)
        sr1__buf_free(&f->bytes[i]);
    for (size_t i = 0; f != NULL && i < f->n_templates; i++) {
        sr1__free(f->templates[i].name);
        sr1__buf_free(&f->templates[i].text);
    }
    sr1__free(f);
}

const struct sr1__buf *sr1__tokenizer_files_find(const struct sr1__tokenizer_files *f,
                                                 const char *name)
{
    for (size_t i = 0; i < FILES; i++)
        if (f->there[i] && strcmp(file_names[i], name) == 0)
            return &f->bytes[i];
    return NULL;
}

sr1_status sr1__tokenizer_files_add(struct sr1__tokenizer_files *f, const char *name,
                                    const char *text)
{
    for (size_t i = 0; i < FILES; i++) {
        if (strcmp(file_names[i], name) != 0)
            continue;
        sr1__buf_str(&f->bytes[i], text);
        f->there[i] = 1;
        return sr1__buf_status(&f->bytes[i], name);
    }
    return sr1__fail(SR1_E_INTERNAL, "%s is no file of tokenizers", name);
}

sr1_status sr1__tokenizer_files_write(const struct sr1__tokenizer_files *f,
                                      const char *folder)
{
    const char *kept[FILES];
    size_t n = 0;

    for (size_t i = 0; i < FILES; i++) {
        if (!f->there[i])
            continue;
        SR1__TRY(write_one(folder, file_names[i], &f->bytes[i]));
        kept[n++] = file_names[i];
    }
    SR1__TRY(write_templates(f, folder));
    SR1__TRY(clear_files(folder, kept, n));
    return clear_templates(folder, f);
}

sr1_status sr1__tokenizer_files_clear(const char *folder, const char *const *kept,
                                      size_t n)
{
    SR1__TRY(clear_files(folder, kept, n));
    return clear_templates(folder, NULL);
}
