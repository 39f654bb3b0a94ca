// A library that may be missing: the program starts without it, and says what it lacks.
#pragma once

#include <dlfcn.h>
#include <stdexcept>
#include <string>

// Something that this machine does not have; nothing is wrong with the program.
struct Unavailable : std::runtime_error {
  using runtime_error::runtime_error;
};

class SharedObject {
public:
  explicit SharedObject(const std::string &name) : handle(dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (!handle) throw Unavailable(dlerror());
  }
  template <class F> void find(F &function, const char *name) const {
    function = reinterpret_cast<F>(dlsym(handle, name));
    if (!function) throw Unavailable(dlerror());
  }

private:
  void *handle; // stays open: drivers do not like to be unloaded
};
