// Loads modules that kbuild has built, by the manifests beside them, with the CUDA driver. C++17, no other header, no library but -ldl: the driver is
// opened when it is first asked for, so a program that uses this starts on a machine without one. Copy it into your project.
//
//     kbuild::module axpy("modules/axpy.float.json");     // reads the manifest; needs no GPU
//     kbuild::loaded on_gpu = axpy.load();                // on the GPU of this machine
//     CUfunction f = (CUfunction)on_gpu.function("axpy"); // for cuLaunchKernel
//
// What is wrong with a module, or with it on this machine, is kbuild::refused, with the file and the field; that there is no GPU, or no driver, is
// kbuild::no_gpu. The module stays loaded.
#ifndef KBUILD_LOAD_H
#define KBUILD_LOAD_H

#include <dlfcn.h>

#include <cctype>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace kbuild {

struct refused : std::runtime_error {
  using std::runtime_error::runtime_error;
};
struct no_gpu : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A value of JSON. What is not there is null, so that a chain of fields can be asked for.
struct json {
  enum { null, boolean, number, string, array, object } kind = null;
  std::string text;  // of a string, or a number as it is written
  std::vector<std::pair<std::string, json>> items;

  const json &operator[](const char *name) const {
    static const json none;
    for (const auto &i : items)
      if (kind == object && i.first == name) return i.second;
    return none;
  }
  const std::string &str(const char *name, const std::string &where) const {
    const json &v = (*this)[name];
    if (v.kind != string) throw refused(where + ": the field " + name + " is no string");
    return v.text;
  }
};

// Reads JSON, as strictly as what kbuild has written needs.
class json_reader {
 public:
  json_reader(const std::string &text, const std::string &name) : p(text.c_str()), begin(p), name(name) {}
  json document() {
    json v = value(0);
    if (next() != 0) fail();
    return v;
  }

 private:
  const char *p, *begin;
  const std::string &name;

  [[noreturn]] void fail() { throw refused(name + ": no JSON at byte " + std::to_string(p - begin)); }
  char next() {
    while (*p == ' ' || *p == '\n' || *p == '\t' || *p == '\r') p++;
    return *p;
  }
  void expect(char c) {
    if (next() != c) fail();
    p++;
  }
  json value(int depth) {
    json v;
    if (depth > 64) fail();
    switch (char c = next()) {
      case '{':
      case '[':
        v.kind = c == '{' ? json::object : json::array;
        p++;
        for (char end = c == '{' ? '}' : ']'; next() != end; p += *p == ',') {
          std::string key;
          if (c == '{') key = quoted(), expect(':');
          v.items.emplace_back(key, value(depth + 1));
          if (next() != ',' && *p != end) fail();
        }
        p++;
        return v;
      case '"':
        v.kind = json::string;
        v.text = quoted();
        return v;
    }
    const char *first = p;
    while (std::isalnum((unsigned char)*p) || *p == '-' || *p == '+' || *p == '.') p++;
    v.text.assign(first, p);
    if (v.text.empty()) fail();
    v.kind = v.text == "null" ? json::null : v.text == "true" || v.text == "false" ? json::boolean : json::number;
    return v;
  }
  std::string quoted() {
    std::string s;
    expect('"');
    for (; *p != '"'; p++) {
      if (*p == 0) fail();
      if (*p != '\\') {
        s += *p;
        continue;
      }
      static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
      const char *at = *++p ? std::strchr(from, *p) : nullptr;
      if (at != nullptr)
        s += to[at - from];
      else if (*p == 'u')
        unicode(s);
      else
        fail();
    }
    p++;
    return s;
  }
  void unicode(std::string &s) {  // names of kernels have none beyond the basic plane
    unsigned c = 0;
    for (int i = 0; i < 4; i++) {
      if (!std::isxdigit((unsigned char)*++p)) fail();
      c = c * 16 + (std::isdigit((unsigned char)*p) ? *p - '0' : (*p | 32) - 'a' + 10);
    }
    if (c < 0x80)
      s += char(c);
    else if (c < 0x800)
      s += char(0xc0 | c >> 6), s += char(0x80 | (c & 63));
    else
      s += char(0xe0 | c >> 12), s += char(0x80 | (c >> 6 & 63)), s += char(0x80 | (c & 63));
  }
};

// SHA-256 (FIPS 180-4), in hexadecimal.
inline std::string sha256(std::string data) {
  static const uint32_t k[64] = {
      0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74,
      0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d,
      0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e,
      0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5,
      0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};
  uint32_t h[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  auto rotate = [](uint32_t x, int n) { return x >> n | x << (32 - n); };
  uint64_t bits = uint64_t(data.size()) * 8;
  data += char(0x80);
  while (data.size() % 64 != 56) data += char(0);
  for (int i = 56; i >= 0; i -= 8) data += char(bits >> i);
  for (size_t at = 0; at < data.size(); at += 64) {
    uint32_t w[64], v[8];
    for (int i = 0; i < 64; i++) {
      const unsigned char *b = (const unsigned char *)&data[at] + 4 * (i & 15);
      uint32_t a = i < 16 ? 0 : w[i - 15], c = i < 16 ? 0 : w[i - 2];
      w[i] = i < 16 ? uint32_t(b[0]) << 24 | b[1] << 16 | b[2] << 8 | b[3]
                    : w[i - 16] + (rotate(a, 7) ^ rotate(a, 18) ^ a >> 3) + w[i - 7] + (rotate(c, 17) ^ rotate(c, 19) ^ c >> 10);
    }
    std::memcpy(v, h, sizeof v);
    for (int i = 0; i < 64; i++) {
      uint32_t one = v[7] + (rotate(v[4], 6) ^ rotate(v[4], 11) ^ rotate(v[4], 25)) + ((v[4] & v[5]) ^ (~v[4] & v[6])) + k[i] + w[i];
      uint32_t two = (rotate(v[0], 2) ^ rotate(v[0], 13) ^ rotate(v[0], 22)) + ((v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]));
      std::memmove(v + 1, v, 7 * sizeof *v);
      v[4] += one, v[0] = one + two;
    }
    for (int i = 0; i < 8; i++) h[i] += v[i];
  }
  char hex[65];
  for (int i = 0; i < 8; i++) std::snprintf(hex + 8 * i, 9, "%08x", (unsigned)h[i]);
  return hex;
}

// How well code suits a GPU of compute capability cc, 86 for 8.6; 0 if it cannot be loaded there. The same rule as kbuild_fit of the tables that
// kbuild embeds: the GPU's own machine code, that of an older one of its generation, then PTX, the newest first.
inline int fit(bool machine_code, const std::string &arch, int cc) {
  size_t at = arch.find('_');
  if (at == std::string::npos) return 0;
  int n = std::atoi(arch.c_str() + at + 1);
  char suffix = arch.back() == 'a' || arch.back() == 'f' ? arch.back() : 0;
  bool same = n / 10 == cc / 10;
  if (n > cc || (suffix == 'a' && n != cc) || (suffix == 'f' && !same) || (machine_code && !same)) return 0;
  return (machine_code ? 4000 : 2000) + 2 * n + (suffix != 0);
}

// fit of an artifact. In a fatbin the driver looks for itself, if there is something to find.
inline int suits(const json &artifact, int cc) {
  const std::string &kind = artifact["kind"].text;
  if (kind == "cubin" || kind == "ptx") return fit(kind == "cubin", artifact["arch"].text, cc);
  if (kind == "fatbin")
    for (const auto &i : artifact["images"].items)
      if (fit(i.second["arch"].text.rfind("sm_", 0) == 0, i.second["arch"].text, cc)) return 1;
  return 0;
}

inline std::string cuda_version(int v) { return std::to_string(v / 1000) + "." + std::to_string(v % 1000 / 10); }

// The CUDA driver, with the first GPU and its primary context.
class driver {
 public:
  int version = 0, cc = 0;  // 12040, 90

  driver() : lib(dlopen("libcuda.so.1", RTLD_NOW)) {
    if (lib == nullptr) throw no_gpu(dlerror());
    int device = 0, major = 0, minor = 0;
    void *context = nullptr;
    int status = function<int(unsigned)>("cuInit")(0);
    if (status != 0) throw no_gpu("cuInit: " + text(status) + " (" + std::to_string(status) + ")");
    call("", "cuDeviceGet", &device, 0);
    call("", "cuDevicePrimaryCtxRetain", &context, device);
    call("", "cuCtxSetCurrent", context);
    call("", "cuDeviceGetAttribute", &major, 75, device);
    call("", "cuDeviceGetAttribute", &minor, 76, device);
    call("", "cuDriverGetVersion", &version);
    cc = 10 * major + minor;
  }

  // Calls a function of the driver; what is the file that an error names.
  template <class... A>
  void call(const std::string &what, const char *name, A... arguments) {
    if (int status = function<int(A...)>(name)(arguments...)) throw refused((what.empty() ? "" : what + ": ") + name + ": " + text(status));
  }

 private:
  void *lib;

  template <class F>
  F *function(const char *name) {
    void *f = dlsym(lib, name);
    if (f == nullptr) throw no_gpu(std::string("the driver has no ") + name);
    return (F *)f;
  }
  std::string text(int status) {
    const char *s = nullptr;
    function<int(int, const char **)>("cuGetErrorString")(status, &s);
    return s ? s : "unknown error";
  }
};

// A module that the driver has loaded. handle is a CUmodule.
struct loaded {
  driver gpu;
  const json *artifact;
  void *handle = nullptr;

  // A CUfunction, by the name that the driver wants or by that in the source.
  void *function(const std::string &name) {
    const std::string &file = (*artifact)["file"].text;
    std::vector<const json *> lists{&(*artifact)["kernels"]};
    for (const auto &i : (*artifact)["images"].items) lists.push_back(&i.second["kernels"]);
    for (const json *list : lists)
      for (const auto &k : list->items)
        if (k.second["name"].text == name || k.second["demangled"].text == name) {
          void *f = nullptr;
          gpu.call(file, "cuModuleGetFunction", &f, handle, k.second["name"].text.c_str());
          return f;
        }
    throw refused(file + ": the field kernels has no " + name);
  }
};

// An instance of a module: what one manifest tells of. It must outlive what it has loaded.
class module {
 public:
  json manifest;

  explicit module(const std::string &file) : path(file) {
    manifest = json_reader(contents(file), file).document();
    if (manifest["schema"].text != "1") throw refused(file + ": the field schema is " + manifest["schema"].text + ", and this loader knows 1");
    if (manifest["artifacts"].kind != json::array) throw refused(file + ": the field artifacts is no list");
  }

  // The artifact that suits a GPU best: 90 for 9.0.
  const json &choose(int cc) const {
    const json *best = nullptr;
    std::string have;
    for (const auto &i : manifest["artifacts"].items) {
      if (suits(i.second, cc) > (best ? suits(*best, cc) : 0)) best = &i.second;
      have += (have.empty() ? "" : ", ") + i.second["kind"].text + " " + i.second["arch"].text;
    }
    if (best == nullptr) throw refused(path + ": nothing runs on sm_" + std::to_string(cc) + ": the module has " + have);
    return *best;
  }

  // The bytes of an artifact, which must be those that the manifest was written for.
  std::string read(const json &artifact) const {
    const std::string &name = artifact.str("file", path), &want = artifact.str("sha256", name);
    std::string data = contents(path.substr(0, path.find_last_of('/') + 1) + name);
    if (std::to_string(data.size()) != artifact["size"].text)
      throw refused(name + ": the field size is " + artifact["size"].text + ", and the file has " + std::to_string(data.size()) + " bytes");
    std::string digest = sha256(data);
    if (digest != want) throw refused(name + ": the field sha256 is " + want + ", and the file's is " + digest);
    return data;
  }

  // Loads what suits the GPU of this machine best.
  loaded load() const {
    loaded l{driver(), nullptr};
    const json &artifact = choose(l.gpu.cc);
    std::string data = read(artifact);
    check_driver(artifact, data, l.gpu.version);
    l.artifact = &artifact;
    l.gpu.call(artifact["file"].text, "cuModuleLoadData", &l.handle, (const void *)data.c_str());  // PTX is a string
    return l;
  }

 private:
  std::string path;

  static std::string contents(const std::string &file) {
    std::ifstream in(file, std::ios::binary);
    if (!in) throw refused(file + ": " + std::strerror(errno));
    return std::string(std::istreambuf_iterator<char>(in), {});
  }

  // Refuses what the driver is too old for, which it would do without a name. version is 12040 for CUDA 12.4.
  void check_driver(const json &artifact, const std::string &data, int version) const {
    std::string what;
    int cuda = 0;
    if (artifact["kind"].text == "ptx") {
      int major = 0, minor = 0;
      size_t at = data.find("\n.version ");
      if (at == std::string::npos || std::sscanf(&data[at], "\n.version %d.%d", &major, &minor) != 2) throw refused(artifact["file"].text + ": the text has no .version");
      what = "PTX " + std::to_string(major) + "." + std::to_string(minor);
      cuda = 1000 * (major + 4) + 10 * (minor + (major == 8 && minor >= 6));  // PTX 7.8 is CUDA 11.8; 8.5 is 12.5 and 12.6; 9.0 is 13.0
    } else if (manifest["compiler"]["name"].text == "nvcc") {  // of one major version all drivers run the machine code
      what = "code of CUDA " + manifest["compiler"]["version"].text;
      cuda = 1000 * std::atoi(manifest["compiler"]["version"].text.c_str());
    }
    if (version < cuda) throw refused(artifact["file"].text + ": " + what + " wants a driver of CUDA " + cuda_version(cuda) + ", and this one is of " + cuda_version(version));
  }
};

}  // namespace kbuild

#endif
