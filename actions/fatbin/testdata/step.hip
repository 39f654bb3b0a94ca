// Needs no header of HIP: clang++ -x hip -nogpuinc -nogpulib.
#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
struct dim3 { unsigned x, y, z; };
extern "C" int hipLaunchKernel(const void *, dim3, dim3, void **, unsigned long, void *);

__device__ int step = 3;
#ifdef __CLANG_RDC__
__device__ int f(int x) { return 3 * x; }
#endif
__global__ void k(int *p) { *p += step; }
