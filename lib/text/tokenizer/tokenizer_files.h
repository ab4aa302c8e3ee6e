/* text/tokenizer/tokenizer_files.h - a tokenizer's files, as Hugging Face folders name
 * them, kept in memory as they were when the tokenizer was opened. */
#ifndef SR1__TOKENIZER_TOKENIZER_FILES_H
#define SR1__TOKENIZER_TOKENIZER_FILES_H

#include "base/buf.h"

/* Most bytes of one of them. */
#define SR1__TOKENIZER_FILE_MAX ((size_t)256 << 20)
#define SR1__CHAT_TEMPLATE_FILE "chat_template.jinja"
/* Most bytes of a chat template. */
#define SR1__CHAT_TEMPLATE_MAX ((size_t)16 << 20)

struct sr1__tokenizer_files;

/* Read those that a folder has; of an adapter's folder what it lacks from `spare`, the
 * folder of its base (NULL: none): the tokenizer as a whole, else
 * generation_config.json. */
sr1_status sr1__tokenizer_files_read(struct sr1__tokenizer_files **out,
                                     const char *folder, const char *spare);
void sr1__tokenizer_files_free(struct sr1__tokenizer_files *f); /* NULL is fine */
/* One by its name, borrowed; NULL: the folder had none. */
const struct sr1__buf *sr1__tokenizer_files_find(const struct sr1__tokenizer_files *f,
                                                 const char *name);
/* NAME.jinja in additional_chat_templates/: how many, and the name and the text of one in
 * the order of names, borrowed; NULL past the end. */
size_t sr1__tokenizer_files_templates(const struct sr1__tokenizer_files *f);
const char *sr1__tokenizer_files_template(const struct sr1__tokenizer_files *f, size_t i,
                                          const struct sr1__buf **text);
/* Read those of a folder, where there are none yet. */
sr1_status sr1__tokenizer_files_read_templates(struct sr1__tokenizer_files *f,
                                               const char *folder);
/* Keep the text of one that there is not; it is copied. */
sr1_status sr1__tokenizer_files_add(struct sr1__tokenizer_files *f, const char *name,
                                    const char *text);
/* Write them into a folder, from which those of another tokenizer are removed. */
sr1_status sr1__tokenizer_files_write(const struct sr1__tokenizer_files *f,
                                      const char *folder);
/* Remove all tokenizer files of a folder but these. */
sr1_status sr1__tokenizer_files_clear(const char *folder, const char *const *kept,
                                      size_t n);

#endif
