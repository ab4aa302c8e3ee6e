/* tensor/cuda/kernels.cuh - kernels of decode steps that libtorch has not, in fp32 and
 * bf16, computed in fp32.
 *
 * NVRTC compiles this text on the device (kernels.cpp). The simulated accelerator of the
 * tests compiles the same text for the host, where one thread is all those of a warp. */

#ifdef __CUDACC_RTC__
#define DEVICE __device__ inline
#define LANES 32 /* threads of a warp */
#else
#define DEVICE static inline
#define LANES 1
#endif

struct bfloat16 {
    unsigned short bits;
};

union float_bits {
    float value;
    unsigned int bits;
};

DEVICE float widen(float x)
{
    return x;
}

DEVICE float widen(bfloat16 x)
{
    float_bits u;

    u.bits = (unsigned int)x.bits << 16;
    return u.value;
}

DEVICE void store(float *to, float x)
{
    *to = x;
}

/* The nearest, of two the even one. */
DEVICE void store(bfloat16 *to, float x)
{
    float_bits u;

    u.value = x;
    to->bits = x != x ? 0x7fc0
                      : (unsigned short)((u.bits + 0x7fff + (u.bits >> 16 & 1)) >> 16);
}

DEVICE float add_lanes(float x)
{
#ifdef __CUDACC_RTC__
    for (int i = LANES / 2; i > 0; i /= 2)
        x += __shfl_xor_sync(0xffffffff, x, i);
#endif
    return x;
}

/* ---- silu(gate) * up ---- */

/* Arrays of float or bfloat16, as all here. */
struct swiglu_args {
    const void *gate_up; /* [n, 2 width] = [gate | up] */
    void *out;           /* [n, width] */
    long long n, width;
};

template <typename T> DEVICE void compute_swiglu(const swiglu_args &a, long long i)
{
    const T *x = (const T *)a.gate_up + i / a.width * 2 * a.width + i % a.width;
    float gate = widen(x[0]);

    store((T *)a.out + i, gate / (1.0f + expf(-gate)) * widen(x[a.width]));
}

/* ---- heads ---- */

/* Of single tokens, from the product q|k|v to where attention reads them: queries and keys
 * normalised, where they have norms, and turned to their positions; keys and values in the
 * cache. */
struct split_heads_args {
    const void *qkv;         /* [n, kv_heads * group + 2 kv_heads, dim] */
    const void *norms[2];    /* [dim] of queries and of keys; null: none */
    const void *cos, *sin;   /* [n, dim] */
    const long long *places; /* [n] in the cache */
    void *cache;             /* [places, 2 kv_heads, dim], keys before values */
    void *queries;           /* [n / rows, kv_heads, rows * group, dim] */
    int n, rows, kv_heads, dim;
    int group; /* heads of queries that share a key-value head */
    float eps;
};

template <typename T> DEVICE float invert_rms(const T *x, int dim, float eps, int lane)
{
    float sum = 0;

    for (int i = lane; i < dim; i += LANES)
        sum += widen(x[i]) * widen(x[i]);
    return 1.0f / sqrtf(add_lanes(sum) / (float)dim + eps);
}

/* Where a head goes. */
template <typename T>
DEVICE T *find_head(const split_heads_args &a, long long token, int head)
{
    int heads = a.kv_heads * a.group;
    long long at;

    if (head >= heads)
        return (T *)a.cache + (a.places[token] * 2 * a.kv_heads + head - heads) * a.dim;
    at = token / a.rows * a.kv_heads + head / a.group;
    at = (at * a.rows + token % a.rows) * a.group + head % a.group;
    return (T *)a.queries + at * a.dim;
}

template <typename T>
DEVICE void split_head(const split_heads_args &a, long long token, int head, int lane)
{
    int heads = a.kv_heads * a.group, half = a.dim / 2;
    const T *x = (const T *)a.qkv + (token * (heads + 2 * a.kv_heads) + head) * a.dim;
    const T *cos = (const T *)a.cos + token * a.dim;
    const T *sin = (const T *)a.sin + token * a.dim;
    const T *norm = (const T *)a.norms[head >= heads];
    T *y = find_head<T>(a, token, head);
    float scale;

    if (head >= heads + a.kv_heads) {
        for (int i = lane; i < a.dim; i += LANES)
            y[i] = x[i];
        return;
    }
    scale = norm ? invert_rms(x, a.dim, a.eps, lane) : 1.0f;
    for (int i = lane; i < half; i += LANES) {
        float first = widen(x[i]) * scale, second = widen(x[i + half]) * scale;

        if (norm) {
            first *= widen(norm[i]);
            second *= widen(norm[i + half]);
        }
        store(&y[i], first * widen(cos[i]) - second * widen(sin[i]));
        store(&y[i + half], second * widen(cos[i + half]) + first * widen(sin[i + half]));
    }
}

/* ---- on a GPU ---- */

#ifdef __CUDACC_RTC__
/* A thread for each number. */
template <typename T> DEVICE void swiglu(const swiglu_args &a)
{
    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;

    if (i < a.n * a.width)
        compute_swiglu<T>(a, i);
}

extern "C" __global__ void swiglu_fp32(swiglu_args a)
{
    swiglu<float>(a);
}

extern "C" __global__ void swiglu_bf16(swiglu_args a)
{
    swiglu<bfloat16>(a);
}

/* A warp for each head of each token. */
template <typename T> DEVICE void split_heads(const split_heads_args &a)
{
    int all = a.kv_heads * a.group + 2 * a.kv_heads;
    long long task = (long long)blockIdx.x * blockDim.y + threadIdx.y;

    if (task < (long long)a.n * all)
        split_head<T>(a, task / all, (int)(task % all), (int)threadIdx.x);
}

extern "C" __global__ void split_heads_fp32(split_heads_args a)
{
    split_heads<float>(a);
}

extern "C" __global__ void split_heads_bf16(split_heads_args a)
{
    split_heads<bfloat16>(a);
}
#endif
