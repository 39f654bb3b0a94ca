#include "linker.h"

#include "callback_code.h"
#include "shared_object.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cuda.h> // for the version of the toolkit only

namespace {

// nvJitLink.h comes with CUDA 12; this is as much of it as we call, so that the program builds with CUDA 11 too.
using Handle = struct nvJitLink *;
enum Input { LTOIR = 3, FATBIN = 4 };

struct NvJitLink {
  int (*create)(Handle *, uint32_t, const char **);
  int (*destroy)(Handle *);
  int (*add)(Handle, int, const void *, size_t, const char *);
  int (*complete)(Handle);
  int (*cubin_size)(Handle, size_t *);
  int (*cubin)(Handle, void *);
  int (*log_size)(Handle, size_t *);
  int (*log)(Handle, char *);
  int (*version)(unsigned *, unsigned *);

  NvJitLink() {
    // LTO-IR is for the nvJitLink of its own major version, the same minor version or a newer one.
    SharedObject lib("libnvJitLink.so." + std::to_string(std::max(12, CUDA_VERSION / 1000)));
    lib.find(create, "nvJitLinkCreate");
    lib.find(destroy, "nvJitLinkDestroy");
    lib.find(add, "nvJitLinkAddData");
    lib.find(complete, "nvJitLinkComplete");
    lib.find(cubin_size, "nvJitLinkGetLinkedCubinSize");
    lib.find(cubin, "nvJitLinkGetLinkedCubin");
    lib.find(log_size, "nvJitLinkGetErrorLogSize");
    lib.find(log, "nvJitLinkGetErrorLog");
    lib.find(version, "nvJitLinkVersion");
  }
};

class Link {
public:
  Link(const NvJitLink &api, std::vector<const char *> options) : api(api) {
    check(api.create(&handle, options.size(), options.data()), "nvJitLinkCreate");
  }
  ~Link() { api.destroy(&handle); }
  Link(const Link &) = delete;

  void add(const kbuild_artifact &a) {
    check(api.add(handle, a.kind == KBUILD_LTOIR ? LTOIR : FATBIN, a.data, a.size, a.name), a.name);
  }
  Cubin complete() {
    size_t size = 0;
    check(api.complete(handle), "nvJitLinkComplete");
    check(api.cubin_size(handle, &size), "nvJitLinkGetLinkedCubinSize");
    Cubin cubin(size);
    check(api.cubin(handle, cubin.data()), "nvJitLinkGetLinkedCubin");
    return cubin;
  }

private:
  // Every call may fail, and the log says why better than the status does.
  void check(int status, const char *what) {
    if (status == 0) return;
    size_t size = 0;
    std::string log;
    if (handle && api.log_size(handle, &size) == 0 && size > 0) {
      log.resize(size);
      api.log(handle, log.data());
    }
    throw std::runtime_error(std::string(what) + ": nvJitLink status " + std::to_string(status) + "\n" + log.c_str());
  }

  const NvJitLink &api;
  Handle handle = nullptr;
};

} // namespace

Cubin link_with_nvjitlink(const std::vector<const kbuild_artifact *> &fragments, int cc, bool have_driver) {
  NvJitLink api;
  unsigned major = 0, minor = 0;
  api.version(&major, &minor);
  std::string arch = "-arch=sm_" + std::to_string(cc);
  std::vector<const char *> options = {arch.c_str(), "-lto"};
  if (!have_driver) options.push_back("--no-cache");
  Link link(api, options);
  for (auto *a : fragments) link.add(*a);
  Cubin cubin = link.complete();
  std::printf("linked by nvJitLink %u.%u for sm_%d: %zu bytes\n", major, minor, cc, cubin.size());
  return cubin;
}
