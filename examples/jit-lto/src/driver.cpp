#include "driver.h"

#include "callback_code.h"

#include <cstdint>

// cuda.h renames functions to their newest versions by macros, so the name to look for is spelled after expansion.
#define STRING(x) #x
#define EXPANDED(x) STRING(x)
#define CALL(function, ...) check(call<decltype(&function)>(lib, EXPANDED(function))(__VA_ARGS__), #function)

namespace {

template <class F> F call(const SharedObject &lib, const char *name) {
  F function;
  lib.find(function, name);
  return function;
}

} // namespace

void Driver::check(CUresult status, const char *what) const {
  if (status == CUDA_SUCCESS) return;
  const char *text = nullptr;
  call<decltype(&cuGetErrorString)>(lib, "cuGetErrorString")(status, &text);
  std::string message = std::string(what) + ": " + (text ? text : "unknown error");
  if (status == CUDA_ERROR_NO_DEVICE) throw Unavailable(message);
  throw std::runtime_error(message);
}

Driver::Driver() : lib("libcuda.so.1") {
  int major = 0, minor = 0;
  char text[256] = "";
  CUcontext context;
  CALL(cuInit, 0);
  CALL(cuDeviceGet, &device, 0);
  CALL(cuDeviceGetAttribute, &major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
  CALL(cuDeviceGetAttribute, &minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
  CALL(cuDeviceGetName, text, sizeof text, device);
  CALL(cuDevicePrimaryCtxRetain, &context, device);
  CALL(cuCtxSetCurrent, context);
  cc = 10 * major + minor;
  gpu = text;
}

Cubin Driver::link(const std::vector<const kbuild_artifact *> &fragments) {
  char log[4096] = "";
  CUjit_option options[] = {CU_JIT_LTO, CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void *values[] = {reinterpret_cast<void *>(1), log, reinterpret_cast<void *>(sizeof log)};
  CUlinkState state;
  void *data = nullptr;
  size_t size = 0;
  try {
    CALL(cuLinkCreate, 3, options, values, &state);
    for (auto *a : fragments)
      CALL(cuLinkAddData, state, a->kind == KBUILD_LTOIR ? CU_JIT_INPUT_NVVM : CU_JIT_INPUT_FATBINARY, const_cast<unsigned char *>(a->data),
           a->size, a->name, 0, nullptr, nullptr);
    CALL(cuLinkComplete, state, &data, &size);
  } catch (const std::runtime_error &e) {
    throw std::runtime_error(std::string(e.what()) + "\n" + log);
  }
  auto *bytes = static_cast<const char *>(data);
  Cubin cubin(bytes, bytes + size); // the driver's own goes with the state
  CALL(cuLinkDestroy, state);
  return cubin;
}

std::vector<float> Driver::run(const Cubin &cubin, const char *kernel, const std::vector<float> &in) {
  CUmodule module;
  CUfunction function;
  CUdeviceptr from, to;
  std::vector<float> out(in.size());
  size_t bytes = in.size() * sizeof(float);
  int n = static_cast<int>(in.size());
  void *arguments[] = {&from, &to, &n};
  CALL(cuModuleLoadData, &module, cubin.data());
  CALL(cuModuleGetFunction, &function, module, kernel);
  CALL(cuMemAlloc, &from, bytes);
  CALL(cuMemAlloc, &to, bytes);
  CALL(cuMemcpyHtoD, from, in.data(), bytes);
  CALL(cuLaunchKernel, function, (n + 255) / 256, 1, 1, 256, 1, 1, 0, nullptr, arguments, nullptr);
  CALL(cuMemcpyDtoH, out.data(), to, bytes); // waits for the kernel
  CALL(cuMemFree, from);
  CALL(cuMemFree, to);
  CALL(cuModuleUnload, module);
  return out;
}
