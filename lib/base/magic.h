/* base/magic.h - recognise files by their first bytes, to name a file that was passed by
 * mistake. */
#ifndef SR1__BASE_MAGIC_H
#define SR1__BASE_MAGIC_H

#include <searchr1/base.h>

#include <stddef.h>

/* SR1_E_UNSUPPORTED if a file that begins with bytes[n] is of a known kind; the text
 * names path, the kind, the expected content ("rows of JSON") and the remedy. */
sr1_status sr1__magic_check(const char *path, const void *bytes, size_t n,
                            const char *wanted);

#endif
