// What the files beside this one were made of: kernels with parameters of every size and alignment.
struct Pair { char c; double d; };
struct alignas(16) Four { float x[4]; };
struct Big { char x[20000]; };

template <class T> __global__ void fill(T *p, int n) { p[n] = n; }
template __global__ void fill<float>(float *, int);

extern "C" __global__ void mixed(const float *a, Pair p, short h, Four v, char c) {
  if (c) *(float *)a = p.d + h + v.x[1];
}

namespace empty { __global__ void nothing() {} }

#ifdef BIG
extern "C" __global__ void big(Big b, int *p) { *p = b.x[*p]; }
#endif

#ifdef LINKED
extern __device__ int elsewhere(int);
extern __device__ int never(int);
extern __device__ int outside;
__device__ int here = 1;
__constant__ int table[4];
__device__ __noinline__ int twice(int x) { return elsewhere(x) + table[x]; }
static __device__ __noinline__ int own(int x) { return 7 * x; }
__device__ inline int inlined(int x) { return x + 1; }
__global__ void linked(int *p) {
  *p = twice(*p) + own(*p) + inlined(*p) + outside + here;
  if (*p - *p) *p = never(*p);
}
#endif
