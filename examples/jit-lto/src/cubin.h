// What the machine code holds: enough of ELF to say which functions are left after a link.
#pragma once

#include <string>
#include <vector>

using Cubin = std::vector<char>;

// Functions of a cubin that are not kernels. One that was inlined everywhere is gone.
std::vector<std::string> called_functions(const Cubin &cubin);
