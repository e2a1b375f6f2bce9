// SPDX-License-Identifier: Apache-2.0
#include "client/lib/artifact/named_code.h"

#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <vector>

#include "base/filesystem.h"

namespace ingot::client {
namespace {

constexpr size_t kNameMax = 120;

/// What file systems, debuggers and terminals take as a name.
std::string Plain(std::string_view text) {
  std::string plain(text.substr(0, kNameMax));
  for (char& c : plain) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '_' && c != '.' && c != '-') c = '_';
  }
  return plain;
}

template <typename T>
void Append(Buffer& to, const std::vector<T>& items) {
  const auto* const bytes = reinterpret_cast<const uint8_t*>(items.data());
  to.insert(to.end(), bytes, bytes + items.size() * sizeof(T));
}

/// The section headers of a file, and where they lead. Every offset is checked.
class Sections {
 public:
  /// nullopt: there are none, or they lead out of the file.
  static std::optional<Sections> Read(Bytes file) {
    Sections sections;
    if (file.size() < sizeof sections.header) return std::nullopt;
    std::memcpy(&sections.header, file.data(), sizeof sections.header);
    const Elf64_Ehdr& header = sections.header;
    const uint64_t bytes = uint64_t{header.e_shnum} * sizeof(Elf64_Shdr);
    if (header.e_shnum == 0 || header.e_shentsize != sizeof(Elf64_Shdr) || header.e_shoff > file.size() ||
        bytes > file.size() - header.e_shoff || header.e_shstrndx >= header.e_shnum ||
        header.e_shnum > SHN_LORESERVE - 2) {
      return std::nullopt;
    }
    sections.list.resize(header.e_shnum);
    std::memcpy(sections.list.data(), file.data() + header.e_shoff, bytes);
    for (const Elf64_Shdr& section : sections.list) {
      const bool is_in_file = section.sh_type != SHT_NULL && section.sh_type != SHT_NOBITS;
      if (is_in_file && (section.sh_offset > file.size() || section.sh_size > file.size() - section.sh_offset)) {
        return std::nullopt;
      }
    }
    return sections;
  }

  /// Its position; nullopt where there is none.
  std::optional<size_t> Find(uint32_t type) const {
    const auto at = std::ranges::find(list, type, &Elf64_Shdr::sh_type);
    return at == list.end() ? std::nullopt : std::optional<size_t>(static_cast<size_t>(at - list.begin()));
  }

  Elf64_Ehdr header{};
  std::vector<Elf64_Shdr> list;
};

/// The text at `offset` of a section of texts, up to its zero.
std::string_view TextAt(Bytes texts, uint64_t offset) {
  if (offset >= texts.size()) return {};
  const std::string_view rest(reinterpret_cast<const char*>(texts.data()) + offset, texts.size() - offset);
  return rest.substr(0, rest.find('\0'));
}

}  // namespace

Buffer WithNames(Bytes code, const KernelNames& names) {
  Buffer file(code.begin(), code.end());
  auto sections = Sections::Read(code);
  const auto dynamic = sections ? sections->Find(SHT_DYNSYM) : std::nullopt;
  if (!dynamic || sections->Find(SHT_SYMTAB)) return file;
  const auto bytes_of = [&](const Elf64_Shdr& section) { return code.subspan(section.sh_offset, section.sh_size); };
  const Elf64_Shdr& table = sections->list[*dynamic];
  const uint32_t link = table.sh_link;
  if (link >= sections->list.size() || sections->list[link].sh_type != SHT_STRTAB) return file;
  const Elf64_Shdr& section_names = sections->list[sections->header.e_shstrndx];
  if (section_names.sh_type != SHT_STRTAB) return file;
  const Bytes texts = bytes_of(sections->list[link]);

  std::vector<Elf64_Sym> symbols(table.sh_size / sizeof(Elf64_Sym));
  if (!symbols.empty()) std::memcpy(symbols.data(), bytes_of(table).data(), symbols.size() * sizeof(Elf64_Sym));
  std::string strings(1, '\0');
  for (Elf64_Sym& symbol : symbols) {
    const std::string_view text = TextAt(texts, symbol.st_name);
    const auto name = names.find(text);
    symbol.st_name = static_cast<uint32_t>(strings.size());
    strings += name == names.end() || name->second.empty() ? Plain(text) : Plain(name->second);
    strings += '\0';
  }
  const Bytes before = bytes_of(section_names);
  std::string all_names(reinterpret_cast<const char*>(before.data()), before.size());
  const auto name_section = [&](const char* name) {
    const auto at = static_cast<uint32_t>(all_names.size());
    all_names += name;
    all_names += '\0';
    return at;
  };
  // Behind all that is loaded: the tables, then headers that know of them.
  const auto append = [&](std::string_view text) {
    const uint64_t at = file.size();
    file.insert(file.end(), text.begin(), text.end());
    return at;
  };
  const auto align = [&] { file.resize((file.size() + 7) / 8 * 8); };
  const auto count = static_cast<uint32_t>(sections->list.size());
  Elf64_Shdr symtab{}, strtab{};
  symtab.sh_name = name_section(".symtab");
  symtab.sh_type = SHT_SYMTAB;
  symtab.sh_link = count + 1;
  symtab.sh_info = 1;
  symtab.sh_addralign = 8;
  symtab.sh_entsize = sizeof(Elf64_Sym);
  strtab.sh_name = name_section(".strtab");
  strtab.sh_type = SHT_STRTAB;
  strtab.sh_addralign = 1;
  align();
  symtab.sh_offset = file.size();
  symtab.sh_size = symbols.size() * sizeof(Elf64_Sym);
  Append(file, symbols);
  strtab.sh_offset = append(strings);
  strtab.sh_size = strings.size();
  sections->list[sections->header.e_shstrndx].sh_offset = append(all_names);
  sections->list[sections->header.e_shstrndx].sh_size = all_names.size();
  sections->list.push_back(symtab);
  sections->list.push_back(strtab);
  align();
  sections->header.e_shoff = file.size();
  sections->header.e_shnum = static_cast<uint16_t>(sections->list.size());
  Append(file, sections->list);
  std::memcpy(file.data(), &sections->header, sizeof sections->header);
  return file;
}

std::string CodeDirectory() {
  const char* const directory = secure_getenv("INGOT_CODE_DIR");
  return directory == nullptr ? "" : directory;
}

Result<std::string> KeepCode(const std::string& directory, const std::string& function, Digest artifact, Bytes code,
                             const KernelNames& names) {
  std::error_code failed;
  const std::string whole = std::filesystem::absolute(directory, failed).string();
  if (failed) return Error(Code::kInvalid, fmt::format("{}: {}", directory, failed.message()));
  // Who can write there could have another file mapped.
  TRY(RealFilesystem().MakePrivateDirectory(whole, Access::kNoWriters));
  const std::string path = fmt::format("{}/ingot-{}-{}.so", whole, Plain(function), artifact.ToHex().substr(0, 16));
  const Buffer named = WithNames(code, names);
  const Result<Buffer> kept = RealFilesystem().Read(path, named.size());
  if (!kept || *kept != named) TRY(RealFilesystem().WriteAtomic(path, named));
  return path;
}

}  // namespace ingot::client
