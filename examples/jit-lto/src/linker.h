// Linking LTO-IR at run time with nvJitLink.
#pragma once

#include "cubin.h"

struct kbuild_artifact;

// The linked machine code for a GPU of compute capability cc. Without a driver nvJitLink must be told not to look for the
// driver's cache of compiled code. Throws Unavailable if there is no nvJitLink, and runtime_error with its words if it refuses.
Cubin link_with_nvjitlink(const std::vector<const kbuild_artifact *> &fragments, int cc, bool have_driver);
