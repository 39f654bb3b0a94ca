// The runtime's names, spelled once for both vendors.
#pragma once

#ifdef __HIP__
#include <hip/hip_runtime.h>
#define gpu(name) hip##name
#else
#include <cuda_runtime.h>
#define gpu(name) cuda##name
#endif
