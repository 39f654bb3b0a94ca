__device__ int d = 1; static __constant__ float c = 2; __global__ void k(int *p) { *p = d + int(c); }
#ifdef OTHER
inline int counter() { static int n; return ++n; } template <class T> struct R { static T all; }; template <class T> T R<T>::all;
extern "C" int puts(const char *); int before() { R<int>::all = counter(); return puts("before"); }
#endif
void run(int *p) { k<<<1, 1>>>(p); cudaMemcpyToSymbol(d, p, 4); }
