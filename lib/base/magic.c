/* base/magic.c - see magic.h. */
#include "base/magic.h"

#include "base/error.h"

#include <string.h>

#define UTF16_REMEDY "write it in UTF-8: iconv -f UTF-16 -t UTF-8"

static const struct {
    const char *bytes;
    size_t n;
    const char *what, *remedy;
} kinds[] = {
    {"SR1BM25\n", 8, "a BM25 index", "name the corpus that it was made of"},
    {"SR1DENSE", 8, "a dense index", "name the corpus that it was made of"},
    {"\x1f\x8b", 2, "compressed by gzip", "unpack it first: gunzip -k"},
    {"\x28\xb5\x2f\xfd", 4, "compressed by zstd", "unpack it first: zstd -d"},
    {"PK\x03\x04", 4, "a zip archive", "unpack it first"},
    {"PAR1", 4, "a Parquet file",
     "write its rows as .jsonl first (pandas: to_json(FILE, orient='records', "
     "lines=True))"},
    {"\xff\xfe", 2, "text in UTF-16", UTF16_REMEDY},
    {"\xfe\xff", 2, "text in UTF-16", UTF16_REMEDY},
    {"GGUF", 4, "a GGUF model of llama.cpp", "use the model's Hugging Face folder"},
};

sr1_status sr1__magic_check(const char *path, const void *bytes, size_t n,
                            const char *wanted)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (n >= kinds[i].n && memcmp(bytes, kinds[i].bytes, kinds[i].n) == 0)
            return sr1__fail(SR1_E_UNSUPPORTED, "%s is %s, not %s; %s", path,
                             kinds[i].what, wanted, kinds[i].remedy);
    return SR1_OK;
}
