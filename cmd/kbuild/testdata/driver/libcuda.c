// A driver for tests: memory is the host's, a link gives the cubin that FAKE_CUBIN names, and a launch of "transform" squares. It
// refuses what a real one would: code that is no ELF file, a link without LTO, a size that does not fit.
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int linked, lto;
static char cubin[1 << 20];

CUresult cuInit(unsigned flags) { return flags == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE; }
CUresult cuDeviceGet(CUdevice *device, int ordinal) { return *device = 7, ordinal == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE; }
CUresult cuDeviceGetName(char *name, int len, CUdevice d) { return snprintf(name, len, "Fake GPU %d", d), CUDA_SUCCESS; }
CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute a, CUdevice d) {
  *value = a == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR ? 8 : a == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR ? 0 : -1;
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
  return *m = (CUmodule)image, memcmp(image, "\177ELF", 4) == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_IMAGE;
}
CUresult cuModuleGetFunction(CUfunction *f, CUmodule m, const char *name) {
  return *f = (CUfunction)m, strcmp(name, "transform") == 0 ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
CUresult cuModuleUnload(CUmodule m) { return CUDA_SUCCESS; }
CUresult cuMemAlloc_v2(CUdeviceptr *p, size_t size) { return *p = (CUdeviceptr)calloc(1, size), CUDA_SUCCESS; }
CUresult cuMemFree_v2(CUdeviceptr p) { return free((void *)p), CUDA_SUCCESS; }
CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t size) { return memcpy((void *)to, from, size), CUDA_SUCCESS; }
CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t size) { return memcpy(to, (void *)from, size), CUDA_SUCCESS; }
CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, CUstream s,
                        void **arguments, void **extra) {
  const float *in = *(const float **)arguments[0];
  float *out = *(float **)arguments[1];
  int n = *(int *)arguments[2];
  if (gx * bx < (unsigned)n || gy * gz * by * bz != 1 || extra != NULL) return CUDA_ERROR_INVALID_VALUE;
  for (int i = 0; i < n; i++) out[i] = in[i] * in[i];
  return CUDA_SUCCESS;
}
