// What the kernel calls for each element, and every callback defines. It has C linkage: linkers find it by this name.
#pragma once

extern "C" __device__ float callback(float x);
