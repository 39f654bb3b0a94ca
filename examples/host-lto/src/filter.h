#pragma once

#ifdef __cplusplus
extern "C"
#endif
    int window(int i, int width); /* window.c */

#ifdef __cplusplus
float weight(int i, int width);                             // weight.cpp
bool filter_on_gpu(const float *in, float *out, int width); // filter.cu; false without a GPU
#endif
