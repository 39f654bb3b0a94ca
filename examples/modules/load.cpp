// Loads a module that kbuild built, in C++: load MANIFEST [sm_NN]. With an architecture it only checks what would be loaded there.
// Exit status: 0 done, 77 no GPU here, 1 the module is refused.
#include "kbuild_load.h"

int main(int argc, char **argv) try {
  if (argc < 2) throw kbuild::refused("usage: load MANIFEST [sm_NN]");
  kbuild::module m(argv[1]);
  if (argc > 2) {
    const kbuild::json &a = m.choose(std::atoi(argv[2] + 3));
    std::printf("%s: %zu bytes, as the manifest says\n", a["file"].text.c_str(), m.read(a).size());
    return 0;
  }
  kbuild::loaded l = m.load();
  l.function("axpy");
  std::printf("%s: loaded, with its kernel\n", (*l.artifact)["file"].text.c_str());
} catch (const kbuild::no_gpu &e) {
  std::fprintf(stderr, "load: no GPU: %s\n", e.what());
  return 77;
} catch (const std::exception &e) {
  std::fprintf(stderr, "load: %s\n", e.what());
  return 1;
}
