// SPDX-License-Identifier: Apache-2.0
#include "client/lib/artifact/elf_check.h"

#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

namespace ingot::client {
namespace {

Error Corrupt(std::string_view what) { return Error(Code::kCorrupt, fmt::format("code section: {}", what)); }
Error Refused(std::string_view what) {
  return Error(Code::kIncompatible, fmt::format("code section: {}; compile the graph again", what));
}

template <typename T>
std::optional<T> ReadAt(Bytes file, uint64_t at) {
  if (at > file.size() || sizeof(T) > file.size() - at) return std::nullopt;
  return LoadLittle<T>(file, at);
}

// The dynamic section and what it points to, with addresses turned into file offsets.
class Object {
 public:
  explicit Object(Bytes file) : file_(file) {}

  Status Check() {
    TRY(ReadHeaders());
    TRY(ReadDynamic());
    TRY(CheckSymbols());
    TRY(CheckRelocations(rela_, rela_bytes_));
    return CheckRelocations(plt_rela_, plt_rela_bytes_);
  }

 private:
  Status ReadHeaders() {
    const auto header = ReadAt<Elf64_Ehdr>(file_, 0);
    if (!header || !std::equal(header->e_ident, header->e_ident + SELFMAG, ELFMAG)) return Corrupt("not an ELF file");
    if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != ELFDATA2LSB ||
        header->e_machine != EM_X86_64 || header->e_type != ET_DYN) {
      return Corrupt("not a shared object for x86-64");
    }
    if (header->e_phentsize != sizeof(Elf64_Phdr) || header->e_phnum > 64) return Corrupt("odd program headers");
    for (uint64_t i = 0; i < header->e_phnum; ++i) {
      const auto segment = ReadAt<Elf64_Phdr>(file_, header->e_phoff + i * sizeof(Elf64_Phdr));
      if (!segment) return Corrupt("program headers lie outside the file");
      if (segment->p_type == PT_INTERP) return Refused("it asks for an interpreter");
      if (segment->p_type == PT_GNU_STACK && (segment->p_flags & PF_X) != 0)
        return Refused("it asks for an executable stack");
      if (segment->p_type != PT_LOAD && segment->p_type != PT_DYNAMIC) continue;
      if (segment->p_offset > file_.size() || segment->p_filesz > file_.size() - segment->p_offset ||
          segment->p_filesz > segment->p_memsz || segment->p_vaddr > UINT64_MAX / 2 ||
          segment->p_memsz > UINT64_MAX / 4) {
        return Corrupt("a segment lies outside the file");
      }
      if (segment->p_type == PT_LOAD) loads_.push_back(*segment);
      if (segment->p_type == PT_DYNAMIC) dynamic_ = *segment;
    }
    for (const Elf64_Phdr& load : loads_) {
      if ((load.p_flags & PF_W) != 0 && (load.p_flags & PF_X) != 0)
        return Refused("a segment is writable and executable");
    }
    if (!dynamic_) return Corrupt("no dynamic section");
    // The loader reads the section through its address; both must name the same bytes.
    if (OffsetOf(dynamic_->p_vaddr) != dynamic_->p_offset) return Corrupt("the dynamic section is not loaded");
    return {};
  }

  // File offset of an address inside a loaded segment.
  std::optional<uint64_t> OffsetOf(uint64_t address) const {
    for (const Elf64_Phdr& load : loads_) {
      if (address >= load.p_vaddr && address - load.p_vaddr < load.p_filesz) {
        return load.p_offset + (address - load.p_vaddr);
      }
    }
    return std::nullopt;
  }

  Status ReadDynamic() {
    for (uint64_t i = 0; i < dynamic_->p_filesz / sizeof(Elf64_Dyn); ++i) {
      const auto entry = ReadAt<Elf64_Dyn>(file_, dynamic_->p_offset + i * sizeof(Elf64_Dyn));
      if (!entry) break;
      if (entry->d_tag == DT_NULL) return {};
      TRY(NoteEntry(entry->d_tag, entry->d_un.d_val));
    }
    return Corrupt("the dynamic section has no end");
  }

  Status NoteEntry(int64_t tag, uint64_t value) {
    switch (tag) {
      case DT_NEEDED: return Refused("it needs another library");
      case DT_INIT:
      case DT_INIT_ARRAY:
      case DT_PREINIT_ARRAY: return Refused("it has an initialiser");
      case DT_FINI:
      case DT_FINI_ARRAY: return Refused("it has a finaliser");
      case DT_TEXTREL: return Refused("it relocates code");
      case DT_FLAGS:
        if ((value & DF_TEXTREL) != 0) return Refused("it relocates code");
        break;
      case DT_AUXILIARY:
      case DT_FILTER: return Refused("it filters another library");
      case DT_AUDIT:
      case DT_DEPAUDIT: return Refused("it asks for an audit library");
      case DT_REL:
      case DT_RELR: return Refused("it has relocations of a kind that is not used");
      case DT_SYMTAB: symbols_ = value; break;
      case DT_HASH: hash_ = value; break;
      case DT_GNU_HASH: gnu_hash_ = value; break;
      case DT_RELA: rela_ = value; break;
      case DT_RELASZ: rela_bytes_ = value; break;
      case DT_JMPREL: plt_rela_ = value; break;
      case DT_PLTRELSZ: plt_rela_bytes_ = value; break;
      default: break;
    }
    return {};
  }

  std::optional<uint64_t> SymbolCount() const {
    if (hash_ != 0) {
      const auto at = OffsetOf(hash_);
      const auto count = at ? ReadAt<uint32_t>(file_, *at + 4) : std::nullopt;
      return count ? std::optional<uint64_t>(*count) : std::nullopt;
    }
    const auto at = gnu_hash_ != 0 ? OffsetOf(gnu_hash_) : std::nullopt;
    if (!at) return std::nullopt;
    const auto buckets = ReadAt<uint32_t>(file_, *at);
    const auto first = ReadAt<uint32_t>(file_, *at + 4);
    const auto bloom = ReadAt<uint32_t>(file_, *at + 8);
    if (!buckets || !first || !bloom) return std::nullopt;
    const uint64_t bucket_at = *at + 16 + uint64_t{*bloom} * 8;
    uint64_t last = *first;
    bool any = false;
    for (uint64_t i = 0; i < *buckets; ++i) {
      const auto bucket = ReadAt<uint32_t>(file_, bucket_at + i * 4);
      if (!bucket) return std::nullopt;
      if (*bucket < *first) continue;
      any = true;
      last = std::max<uint64_t>(last, *bucket);
    }
    if (!any) return *first;
    // The last chain ends at the entry whose lowest bit is set.
    const uint64_t chain_at = bucket_at + uint64_t{*buckets} * 4;
    for (;; ++last) {
      const auto link = ReadAt<uint32_t>(file_, chain_at + (last - *first) * 4);
      if (!link) return std::nullopt;
      if ((*link & 1) != 0) return last + 1;
    }
  }

  Status CheckSymbols() const {
    // Address 0 is the file's own header.
    const auto at = symbols_ != 0 ? OffsetOf(symbols_) : std::nullopt;
    const auto count = SymbolCount();
    if (!at || !count) return Corrupt("no symbol table");
    for (uint64_t i = 1; i < *count; ++i) {
      const auto symbol = ReadAt<Elf64_Sym>(file_, *at + i * sizeof(Elf64_Sym));
      if (!symbol) return Corrupt("the symbol table lies outside the file");
      if (symbol->st_shndx == SHN_UNDEF) return Refused("it has an undefined symbol");
      if (ELF64_ST_TYPE(symbol->st_info) == STT_GNU_IFUNC) return Refused("it has a resolver function");
    }
    return {};
  }

  Status CheckRelocations(uint64_t address, uint64_t bytes) const {
    if (address == 0 || bytes == 0) return {};
    const auto at = OffsetOf(address);
    if (!at) return Corrupt("relocations lie outside the file");
    for (uint64_t i = 0; i < bytes / sizeof(Elf64_Rela); ++i) {
      const auto entry = ReadAt<Elf64_Rela>(file_, *at + i * sizeof(Elf64_Rela));
      if (!entry) return Corrupt("relocations lie outside the file");
      if (ELF64_R_TYPE(entry->r_info) != R_X86_64_RELATIVE) return Refused("it has a relocation against a symbol");
      if (!InWritable(entry->r_offset)) return Refused("it relocates code");
    }
    return {};
  }

  bool InWritable(uint64_t address) const {
    return std::any_of(loads_.begin(), loads_.end(), [&](const Elf64_Phdr& load) {
      return (load.p_flags & PF_W) != 0 && address >= load.p_vaddr && address - load.p_vaddr < load.p_memsz &&
             load.p_memsz - (address - load.p_vaddr) >= 8;
    });
  }

  Bytes file_;
  std::vector<Elf64_Phdr> loads_;
  std::optional<Elf64_Phdr> dynamic_;
  uint64_t symbols_ = 0, hash_ = 0, gnu_hash_ = 0;
  uint64_t rela_ = 0, rela_bytes_ = 0, plt_rela_ = 0, plt_rela_bytes_ = 0;
};

}  // namespace

Status CheckSharedObject(Bytes file) { return Object(file).Check(); }

}  // namespace ingot::client
