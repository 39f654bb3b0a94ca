#pragma once

// Sums n values of device memory into *result, which is device memory too. One block.
void reduce(const float *values, int n, float *result);
