// The CUDA driver, found at run time: the program starts on a machine without one.
#pragma once

#include "cubin.h"
#include "shared_object.h"

#include <cuda.h>

struct kbuild_artifact;

class Driver {
public:
  Driver(); // throws Unavailable if there is no driver or no GPU

  int capability() const { return cc; } // 80 for 8.0
  const std::string &name() const { return gpu; }

  // Links LTO-IR of CUDA 11. The driver takes that of no later toolkit: nvJitLink is for it.
  Cubin link(const std::vector<const kbuild_artifact *> &fragments);

  // Runs `kernel(const float *in, float *out, int n)` of a cubin.
  std::vector<float> run(const Cubin &cubin, const char *kernel, const std::vector<float> &in);

private:
  void check(CUresult status, const char *what) const;

  SharedObject lib;
  CUdevice device = 0;
  int cc = 0;
  std::string gpu;
};
