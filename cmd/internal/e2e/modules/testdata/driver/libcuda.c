// A driver for tests: memory is the host's, a link gives the cubin that FAKE_CUBIN names, a launch of "transform" squares and one of
// "axpy" does that in float, with its arguments in one buffer. FAKE_DRIVER is its version of CUDA, FAKE_GPU the compute capability.
// It refuses what a real one would: code that is neither ELF nor PTX, a link without LTO, a size that does not fit.
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int linked, lto, transform, axpy;
static char cubin[1 << 20];

CUresult cuInit(unsigned flags) { return flags == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE; }
CUresult cuDeviceGet(CUdevice *device, int ordinal) { return *device = 7, ordinal == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE; }
CUresult cuDeviceGetName(char *name, int len, CUdevice d) { return snprintf(name, len, "Fake GPU %d", d), CUDA_SUCCESS; }
CUresult cuDriverGetVersion(int *version) { return *version = getenv("FAKE_DRIVER") ? atoi(getenv("FAKE_DRIVER")) : 99000, CUDA_SUCCESS; }
CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute a, CUdevice d) {
  int cc = getenv("FAKE_GPU") ? atoi(getenv("FAKE_GPU")) : 80;
  *value = a == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR ? cc / 10 : a == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR ? cc % 10 : -1;
  return d == 7 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}
CUresult cuDevicePrimaryCtxRetain(CUcontext *c, CUdevice d) { return *c = (CUcontext)&linked, d == 7 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE; }
CUresult cuCtxSetCurrent(CUcontext c) { return c == (CUcontext)&linked ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT; }
CUresult cuGetErrorString(CUresult r, const char **text) { return *text = "the fake driver refuses", r == 0; }

CUresult cuLinkCreate_v2(unsigned n, CUjit_option *options, void **values, CUlinkState *state) {
  for (unsigned i = 0; i < n; i++) {
    lto |= options[i] == CU_JIT_LTO && values[i] == (void *)1;
    if (options[i] == CU_JIT_ERROR_LOG_BUFFER) strcpy(values[i], "fake log");
  }
  return *state = (CUlinkState)&linked, CUDA_SUCCESS;
}
CUresult cuLinkAddData_v2(CUlinkState s, CUjitInputType type, void *data, size_t size, const char *name, unsigned n, CUjit_option *o, void **v) {
  const char *magic = type == CU_JIT_INPUT_NVVM ? "\xed\x43\x4e\x7f" : type == CU_JIT_INPUT_FATBINARY ? "\x50\xed\x55\xba" : "";
  if (!lto || strlen(magic) != 4 || size < 4 || memcmp(data, magic, 4) != 0) return CUDA_ERROR_INVALID_IMAGE;
  printf("fake driver: %s\n", name);
  return linked++, CUDA_SUCCESS;
}
CUresult cuLinkComplete(CUlinkState s, void **data, size_t *size) {
  FILE *f = fopen(getenv("FAKE_CUBIN"), "rb");
  if (f == NULL || linked != 2) return CUDA_ERROR_INVALID_IMAGE;
  *data = cubin, *size = fread(cubin, 1, sizeof cubin, f);
  return fclose(f), CUDA_SUCCESS;
}
CUresult cuLinkDestroy(CUlinkState s) { return memset(cubin, 0, sizeof cubin), CUDA_SUCCESS; }

CUresult cuModuleLoadData(CUmodule *m, const void *image) {
  return *m = (CUmodule)image, memcmp(image, "\177ELF", 4) == 0 || strstr(image, ".entry axpy") ? CUDA_SUCCESS : CUDA_ERROR_INVALID_IMAGE;
}
CUresult cuModuleGetFunction(CUfunction *f, CUmodule m, const char *name) {
  *f = strcmp(name, "transform") == 0 ? (CUfunction)&transform : strcmp(name, "axpy") == 0 ? (CUfunction)&axpy : NULL;
  return *f ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
CUresult cuModuleUnload(CUmodule m) { return CUDA_SUCCESS; }
CUresult cuMemAlloc_v2(CUdeviceptr *p, size_t size) { return *p = (CUdeviceptr)calloc(1, size), CUDA_SUCCESS; }
CUresult cuMemFree_v2(CUdeviceptr p) { return free((void *)p), CUDA_SUCCESS; }
CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t size) { return memcpy((void *)to, from, size), CUDA_SUCCESS; }
CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t size) { return memcpy(to, (void *)from, size), CUDA_SUCCESS; }
static CUresult run_axpy(void **extra) {
  struct { int n; float a; const float *x; float *y; } *args = extra[1];
  if (extra[0] != CU_LAUNCH_PARAM_BUFFER_POINTER || extra[2] != CU_LAUNCH_PARAM_BUFFER_SIZE || extra[4] != CU_LAUNCH_PARAM_END ||
      *(size_t *)extra[3] != sizeof *args)
    return CUDA_ERROR_INVALID_VALUE;
  for (int i = 0; i < args->n; i++) args->y[i] += args->a * args->x[i];
  return CUDA_SUCCESS;
}

static CUresult run_transform(unsigned threads, void **arguments) {
  const float *in = *(const float **)arguments[0];
  float *out = *(float **)arguments[1];
  int n = *(int *)arguments[2];
  for (int i = 0; i < n; i++) out[i] = in[i] * in[i];
  return threads < (unsigned)n ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, CUstream s,
                        void **arguments, void **extra) {
  if (gy * gz * by * bz != 1 || (arguments == NULL) == (extra == NULL)) return CUDA_ERROR_INVALID_VALUE;
  return f == (CUfunction)&axpy ? run_axpy(extra) : run_transform(gx * bx, arguments);
}
