/* base/disk.c - see disk.h. */
#include "base/disk.h"

#include "base/mem.h"

#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>

/* The folder above path, in place; 0 when there is none above. */
static int cut_to_parent(char *path)
{
    char *slash = strrchr(path, '/');

    if (strcmp(path, ".") == 0 || strcmp(path, "/") == 0)
        return 0;
    if (!slash)
        snprintf(path, strlen(path) + 1, ".");
    else
        slash[slash == path] = '\0';
    return 1;
}

int64_t sr1__disk_free(const char *path)
{
    char *p = sr1__strdup(*path ? path : ".");
    struct statvfs fs;
    int found = 0;
    double bytes;

    while (p && !(found = statvfs(p, &fs) == 0) && cut_to_parent(p))
        ;
    sr1__free(p);
    if (!found || fs.f_blocks == 0) /* some network file systems tell nothing */
        return -1;
    bytes = (double)fs.f_bavail * (double)fs.f_frsize;
    return bytes < 9e18 ? (int64_t)bytes : INT64_MAX;
}

void sr1__disk_text(int64_t bytes, char out[24])
{
    static const char *const units[] = {"kB", "MB", "GB", "TB"};
    double v = (double)bytes / 1e3;
    size_t i = 0;

    if (bytes < 1000) {
        snprintf(out, 24, "%d bytes", (int)bytes);
        return;
    }
    while (v >= 999.5 && i + 1 < sizeof(units) / sizeof(units[0])) {
        v /= 1e3;
        i++;
    }
    snprintf(out, 24, "%.*f %s", v < 9.95 ? 1 : 0, v, units[i]);
}
