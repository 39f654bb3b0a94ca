// What every kernel of the project shares.
#pragma once
#include <cuda_runtime.h>

constexpr int block = 256;

struct Params {
    int n;
    float a, b;
    int rounds;
};

// Defined in math.cu: a call across files, which LTO inlines.
extern __device__ float blend(float x, int which);
extern __device__ int mix(int x);

template <typename T>
__device__ __forceinline__ T clamped(T v, T low, T high) {
    return v < low ? low : (v > high ? high : v);
}

template <int N>
__device__ __forceinline__ float polynomial(const float (&c)[N], float x) {
    float r = 0;
#pragma unroll
    for (int i = N - 1; i >= 0; --i)
        r = r * x + c[i];
    return r;
}

inline int blocks(Params p, int per_thread = 1) { return (p.n + block * per_thread - 1) / (block * per_thread); }
