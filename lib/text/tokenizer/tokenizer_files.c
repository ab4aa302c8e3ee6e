/* text/tokenizer/tokenizer_files.c - see tokenizer_files.h. A run that ends days later
 * saves what it was started with, though its folder has changed or gone. */
#include "text/tokenizer/tokenizer_files.h"

#include "base/file.h"
#include "base/mem.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static const char *const file_names[] = {"tokenizer.json",      "tokenizer_config.json",
                                         "chat_template.jinja", "special_tokens_map.json",
                                         "added_tokens.json",   "vocab.json",
                                         "merges.txt",          "generation_config.json",
                                         "vocab.txt",           "spiece.model"};
#define FILES (sizeof(file_names) / sizeof(file_names[0]))

struct sr1__tokenizer_files {
    struct sr1__buf bytes[FILES];
    unsigned char there[FILES];
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
    return sr1__tokenizer_files_clear(folder, kept, n);
}

static int is_among(const char *name, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(names[i], name) == 0)
            return 1;
    return 0;
}

sr1_status sr1__tokenizer_files_clear(const char *folder, const char *const *kept,
                                      size_t n)
{
    for (size_t i = 0; i < FILES; i++)
        if (!is_among(file_names[i], kept, n))
            SR1__TRY(sr1__file_remove(folder, file_names[i]));
    return SR1_OK;
}
