/* NVRTC takes the text of CUDA's own kernels, for two generations of GPUs. The simulated
 * device runs that text as C++.
 * usage: test_kernel_text FILE.cuh FUNCTION ... (77: there is no NVRTC) */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CODE_MOST (1 << 20)

typedef struct nvrtc_program *program;

static struct {
    int (*create)(program *p, const char *text, const char *name, int n,
                  const char *const *headers, const char *const *names);
    int (*compile)(program p, int n, const char *const *options);
    int (*get_log)(program p, char *out);
    int (*get_cubin_size)(program p, size_t *out);
    int (*get_cubin)(program p, char *out);
    int (*destroy)(program *p);
} nvrtc;

static int find_nvrtc(void)
{
    static const struct {
        const char *name;
        void *to;
    } all[] = {{"nvrtcCreateProgram", &nvrtc.create},
               {"nvrtcCompileProgram", &nvrtc.compile},
               {"nvrtcGetProgramLog", &nvrtc.get_log},
               {"nvrtcGetCUBINSize", &nvrtc.get_cubin_size},
               {"nvrtcGetCUBIN", &nvrtc.get_cubin},
               {"nvrtcDestroyProgram", &nvrtc.destroy}};
    void *library = dlopen("libnvrtc.so.13", RTLD_NOW);

    if (!library)
        library = dlopen("libnvrtc.so.12", RTLD_NOW);
    for (size_t i = 0; library && i < sizeof all / sizeof *all; i++) {
        void *f = dlsym(library, all[i].name);

        if (!f)
            return 0;
        memcpy(all[i].to, &f, sizeof f);
    }
    return library != NULL;
}

static char *read_text(const char *path)
{
    static char text[CODE_MOST];
    FILE *f = fopen(path, "r");
    size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;

    if (f)
        fclose(f);
    text[n] = '\0';
    return text;
}

/* 1: it compiles, and has these functions. */
static int compiles(const char *text, const char *architecture, char **functions, int n)
{
    static char log[CODE_MOST], code[CODE_MOST];
    const char *const options[] = {architecture, "--std=c++17"};
    size_t size = 0;
    program p;
    int good;

    if (nvrtc.create(&p, text, "kernels", 0, NULL, NULL) != 0)
        return 0;
    good = nvrtc.compile(p, 2, options) == 0;
    nvrtc.get_log(p, log);
    printf("%s%s\n", architecture, log);
    good = good && nvrtc.get_cubin_size(p, &size) == 0 && size <= sizeof code &&
           nvrtc.get_cubin(p, code) == 0;
    for (int i = 0; i < n; i++)
        good = good && memmem(code, size, functions[i], strlen(functions[i]));
    nvrtc.destroy(&p);
    return good;
}

int main(int argc, char **argv)
{
    if (argc < 3 || !find_nvrtc())
        return 77;
    return !compiles(read_text(argv[1]), "--gpu-architecture=sm_80", argv + 2,
                     argc - 2) ||
           !compiles(read_text(argv[1]), "--gpu-architecture=sm_90", argv + 2, argc - 2);
}
