#include <hip/hip_runtime.h>
struct Pair { char c; double d; };
template <class T> __global__ void fill(T *p, int n) { p[n] = n; }
template __global__ void fill<float>(float *, int);
extern "C" __global__ void mixed(const float *a, Pair p, short h, char c) {
  if (c) *(float *)a = p.d + h;
}
namespace empty { __global__ void nothing() {} }
