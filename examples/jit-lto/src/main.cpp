// A kernel whose callback is chosen when the program runs, and inlined into it all the same.
//
//   transform [--arch sm_80] [--fatbin] [square|relu|gelu]
//
// Exit status: 0 if the GPU computed what the CPU does, 77 if something that it takes is not on this machine, 2 for wrong
// arguments, 1 for the rest.

#include "driver.h"
#include "linker.h"

#include "callback_code.h"
#include "transform_code.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>

namespace {

struct Usage : std::runtime_error {
  using runtime_error::runtime_error;
};

struct Options {
  std::string op = "gelu";
  int cc = 0; // of the GPU there is, unless told
  int kind = KBUILD_LTOIR;
};

Options parse(int argc, char **argv) {
  Options o;
  for (int i = 1; i < argc; i++) {
    std::string arg = argv[i];
    if (arg == "--arch" && i + 1 < argc && std::sscanf(argv[i + 1], "sm_%d", &o.cc) == 1) i++;
    else if (arg == "--fatbin") o.kind = KBUILD_FATBIN;
    else if (arg[0] != '-') o.op = arg;
    else throw Usage("usage: transform [--arch sm_80] [--fatbin] [OP]");
  }
  return o;
}

// The kernel, and the callback of this name out of the table of all variants.
std::vector<const kbuild_artifact *> choose(const Options &o) {
  auto *kernel = kbuild_find(transform_code, nullptr, nullptr, o.kind);
  auto *callback = kbuild_find(callback_code, ("op=" + o.op).c_str(), nullptr, o.kind);
  if (callback) return {kernel, callback};
  std::string known;
  for (auto *a = callback_code; a->data; a++)
    if (a->kind == o.kind) known += std::string(" ") + a->variant;
  throw Usage("there is no callback op=" + o.op + "; there are" + known);
}

float on_cpu(const std::string &op, float x) {
  if (op == "square") return x * x;
  if (op == "relu") return x > 0 ? x : 0;
  return 0.5f * x * (1 + std::erf(x * 0.70710678f));
}

std::unique_ptr<Driver> find_driver() try {
  return std::make_unique<Driver>();
} catch (const Unavailable &e) {
  std::printf("no GPU: %s\n", e.what());
  return nullptr;
}

// nvJitLink first. What it refuses, or where it is missing, a driver may link that was made for CUDA 11.
Cubin link(const std::vector<const kbuild_artifact *> &fragments, int cc, Driver *driver) {
  try {
    return link_with_nvjitlink(fragments, cc, driver != nullptr);
  } catch (const std::runtime_error &e) {
    if (!driver) throw;
    std::printf("nvJitLink: %s\n", e.what());
  }
  Cubin cubin = driver->link(fragments);
  std::printf("linked by the driver: %zu bytes\n", cubin.size());
  return cubin;
}

void tell_functions(const Cubin &cubin) {
  auto left = called_functions(cubin);
  if (left.empty()) std::printf("the kernel calls nothing: the callback is inlined\n");
  for (auto &name : left) std::printf("the kernel still calls %s\n", name.c_str());
}

bool check_on_gpu(Driver &driver, const Cubin &cubin, const std::string &op) {
  std::vector<float> in(1000);
  for (size_t i = 0; i < in.size(); i++) in[i] = 0.01f * (static_cast<float>(i) - 500);
  auto out = driver.run(cubin, "transform", in);
  for (size_t i = 0; i < in.size(); i++) {
    float want = on_cpu(op, in[i]);
    if (!(std::fabs(out[i] - want) <= 1e-5f * (1 + std::fabs(want)))) {
      std::printf("%s(%g) is %g, the GPU says %g\n", op.c_str(), in[i], want, out[i]);
      return false;
    }
  }
  std::printf("%zu elements on %s: as on the CPU\n", in.size(), driver.name().c_str());
  return true;
}

int run(int argc, char **argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0); // in order with standard error
  Options o = parse(argc, argv);
  auto fragments = choose(o);
  auto driver = find_driver();
  int cc = o.cc ? o.cc : driver ? driver->capability() : 0;
  if (!cc) throw Unavailable("say what to link for: --arch sm_80");
  std::printf("%s + %s\n", fragments[0]->name, fragments[1]->name);
  Cubin cubin = link(fragments, cc, driver.get());
  tell_functions(cubin);
  if (!driver || cc != driver->capability()) throw Unavailable("linked, and not run: this machine has no GPU sm_" + std::to_string(cc));
  return check_on_gpu(*driver, cubin, o.op) ? 0 : 1;
}

} // namespace

int main(int argc, char **argv) try {
  return run(argc, argv);
} catch (const Unavailable &e) {
  std::fprintf(stderr, "transform: %s\n", e.what());
  return 77;
} catch (const Usage &e) {
  std::fprintf(stderr, "transform: %s\n", e.what());
  return 2;
} catch (const std::exception &e) {
  std::fprintf(stderr, "transform: %s\n", e.what());
  return 1;
}
