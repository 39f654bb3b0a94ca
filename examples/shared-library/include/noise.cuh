#pragma once

// A reproducible value in [0, 1).
__host__ __device__ inline unsigned mix(unsigned x) {
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    return x ^ (x >> 16);
}

// The same value as a device function of the static library "noise".
__device__ float noise(unsigned seed);
