#include "cubin.h"

#include <cstring>
#include <elf.h>
#include <stdexcept>

namespace {

constexpr unsigned char kernel_flag = 0x10; // of st_other: an entry point

template <class T> T read(const Cubin &cubin, size_t offset) {
  T value;
  if (offset > cubin.size() || cubin.size() - offset < sizeof value) throw std::runtime_error("the cubin is cut off");
  std::memcpy(&value, cubin.data() + offset, sizeof value);
  return value;
}

} // namespace

std::vector<std::string> called_functions(const Cubin &cubin) {
  auto header = read<Elf64_Ehdr>(cubin, 0);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) throw std::runtime_error("the linker made something that is no ELF file");
  auto section = [&](size_t i) { return read<Elf64_Shdr>(cubin, header.e_shoff + i * sizeof(Elf64_Shdr)); };
  std::vector<std::string> names;
  for (size_t i = 0; i < header.e_shnum; i++) {
    auto symbols = section(i);
    if (symbols.sh_type != SHT_SYMTAB) continue;
    auto strings = section(symbols.sh_link);
    for (size_t at = 0; at < symbols.sh_size; at += sizeof(Elf64_Sym)) {
      auto symbol = read<Elf64_Sym>(cubin, symbols.sh_offset + at);
      if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || symbol.st_other & kernel_flag) continue;
      std::string name;
      for (size_t c = strings.sh_offset + symbol.st_name; char letter = read<char>(cubin, c); c++) name += letter;
      names.push_back(name);
    }
  }
  return names;
}
