// SPDX-License-Identifier: Apache-2.0
#include "client/lib/artifact/elf_check.h"

#include <elf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>

#include "proto/artifact_file.h"
#include "tests/support/client/test_artifacts.h"

namespace ingot::client {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kHarmless = DT_DEBUG;

/// What the compiler links, with places in it that a test may change.
class Linked {
 public:
  Linked() {
    static const Buffer artifact =
        CompiledArtifact("graph @f(%x: f32[4, 16]) { %0 = aten.silu(%x) : f32[4, 16] return %0 }");
    const Bytes code = proto::OpenArtifact(artifact)->code;
    bytes.assign(code.begin(), code.end());
  }

  template <typename T>
  T& At(uint64_t offset) {
    EXPECT_LE(offset + sizeof(T), bytes.size());
    return *reinterpret_cast<T*>(bytes.data() + offset);
  }
  Elf64_Ehdr& header() { return At<Elf64_Ehdr>(0); }

  /// The first segment of a type, and with all of some flags.
  Elf64_Phdr& segment(uint32_t type, uint32_t flags = 0) {
    for (uint64_t i = 0; i < header().e_phnum; ++i) {
      auto& one = At<Elf64_Phdr>(header().e_phoff + i * sizeof(Elf64_Phdr));
      if (one.p_type == type && (one.p_flags & flags) == flags) return one;
    }
    ADD_FAILURE() << "no segment of type " << type;
    return At<Elf64_Phdr>(header().e_phoff);
  }

  /// The first entry of the dynamic section with a tag.
  Elf64_Dyn& entry(int64_t tag) {
    const Elf64_Phdr& dynamic = segment(PT_DYNAMIC);
    for (uint64_t at = dynamic.p_offset; at < dynamic.p_offset + dynamic.p_filesz; at += sizeof(Elf64_Dyn)) {
      auto& one = At<Elf64_Dyn>(at);
      if (one.d_tag == tag) return one;
    }
    ADD_FAILURE() << "no entry with tag " << tag;
    return At<Elf64_Dyn>(dynamic.p_offset);
  }

  /// One entry more, in place of one that the check has no use for.
  void Add(int64_t tag, uint64_t value) {
    Elf64_Dyn& one = entry(next_);
    one.d_tag = tag;
    one.d_un.d_val = value;
    next_ = next_ == DT_STRTAB ? DT_STRSZ : DT_SYMENT;
  }

  uint64_t OffsetOf(uint64_t address) {
    for (uint64_t i = 0; i < header().e_phnum; ++i) {
      const auto& one = At<Elf64_Phdr>(header().e_phoff + i * sizeof(Elf64_Phdr));
      if (one.p_type == PT_LOAD && address >= one.p_vaddr && address - one.p_vaddr < one.p_filesz)
        return one.p_offset + (address - one.p_vaddr);
    }
    ADD_FAILURE() << "address " << address << " is in no segment";
    return 0;
  }
  Elf64_Sym& symbol(uint64_t i) { return At<Elf64_Sym>(OffsetOf(entry(DT_SYMTAB).d_un.d_val) + i * sizeof(Elf64_Sym)); }

  /// A relocation where instructions are, which nobody reads here.
  void Relocate(int64_t table, int64_t bytes_tag, uint32_t type, uint64_t address) {
    const Elf64_Phdr& text = segment(PT_LOAD, PF_X);
    At<Elf64_Rela>(text.p_offset) = {address, ELF64_R_INFO(0, type), 0};
    Add(table, text.p_vaddr);
    Add(bytes_tag, sizeof(Elf64_Rela));
  }

  Buffer bytes;

 private:
  int64_t next_ = DT_STRTAB;
};

/// What the check says of linked code after a change.
std::string After(const std::function<void(Linked&)>& change) {
  Linked linked;
  change(linked);
  const Status status = CheckSharedObject(linked.bytes);
  return status ? "accepted" : status.error().ToText();
}

TEST(CheckSharedObject, AcceptsWhatTheCompilerLinks) {
  EXPECT_EQ(After([](Linked&) {}), "accepted");
}

TEST(CheckSharedObject, AnswersEveryTruncationAndBitFlip) {
  Buffer code = Linked().bytes;
  for (size_t size = 0; size < 64; ++size) EXPECT_FALSE(CheckSharedObject(Bytes(code).first(size)));
  for (size_t size = 64; size < code.size(); ++size) Ignore(CheckSharedObject(Bytes(code).first(size)), "must return");
  for (size_t bit = 0; bit < code.size() * 8; bit += 3) {
    code[bit / 8] ^= static_cast<uint8_t>(1 << (bit % 8));
    Ignore(CheckSharedObject(code), "must return");
    code[bit / 8] ^= static_cast<uint8_t>(1 << (bit % 8));
  }
}

TEST(CheckSharedObject, RefusesAnOrdinaryLibrary) {
  std::ifstream file("/lib/x86_64-linux-gnu/libm.so.6", std::ios::binary);
  if (!file) GTEST_SKIP() << "no libm to try";
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  const Status status = CheckSharedObject(AsBytes(bytes));
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code(), Code::kIncompatible);
}

TEST(CheckSharedObject, ReadsHeadersOfNothingElse) {
  const auto refuses = [](const char* why, const std::function<void(Elf64_Ehdr&)>& change) {
    EXPECT_THAT(After([&](Linked& code) { change(code.header()); }), HasSubstr(why));
  };
  for (const int at : {0, 1, 2, 3}) refuses("not an ELF file", [&](Elf64_Ehdr& h) { h.e_ident[at] ^= 1; });
  constexpr const char* kOther = "not a shared object for x86-64";
  refuses(kOther, [](Elf64_Ehdr& h) { h.e_ident[EI_CLASS] = ELFCLASS32; });
  refuses(kOther, [](Elf64_Ehdr& h) { h.e_ident[EI_DATA] = ELFDATA2MSB; });
  refuses(kOther, [](Elf64_Ehdr& h) { h.e_machine = EM_AARCH64; });
  refuses(kOther, [](Elf64_Ehdr& h) { h.e_type = ET_EXEC; });
  refuses("odd program headers", [](Elf64_Ehdr& h) { h.e_phentsize += 8; });
  refuses("odd program headers", [](Elf64_Ehdr& h) { h.e_phnum = 65; });
  refuses("program headers lie outside", [](Elf64_Ehdr& h) { h.e_phoff = uint64_t{1} << 40; });
}

TEST(CheckSharedObject, RefusesSegmentsThatLoadersActOn) {
  const auto says = [](uint32_t type, const std::function<void(Elf64_Phdr&)>& change) {
    return After([&](Linked& code) { change(code.segment(type)); });
  };
  EXPECT_THAT(says(PT_GNU_STACK, [](Elf64_Phdr& p) { p.p_type = PT_INTERP; }), HasSubstr("asks for an interpreter"));
  EXPECT_THAT(says(PT_GNU_STACK, [](Elf64_Phdr& p) { p.p_flags |= PF_X; }), HasSubstr("an executable stack"));
  EXPECT_THAT(After([](Linked& code) { code.segment(PT_LOAD, PF_X).p_flags |= PF_W; }),
              HasSubstr("writable and executable"));
  EXPECT_THAT(After([](Linked& code) { code.segment(PT_LOAD, PF_W).p_flags |= PF_X; }),
              HasSubstr("writable and executable"));
  for (const uint32_t type : {PT_LOAD, PT_DYNAMIC}) {
    constexpr const char* kOutside = "a segment lies outside the file";
    EXPECT_THAT(says(type, [](Elf64_Phdr& p) { p.p_offset = uint64_t{1} << 40; }), HasSubstr(kOutside));
    EXPECT_THAT(says(type, [](Elf64_Phdr& p) { p.p_filesz = p.p_memsz = uint64_t{1} << 40; }), HasSubstr(kOutside));
    EXPECT_THAT(says(type, [](Elf64_Phdr& p) { p.p_memsz = p.p_filesz - 1; }), HasSubstr(kOutside));
    EXPECT_THAT(says(type, [](Elf64_Phdr& p) { p.p_memsz = UINT64_MAX / 4 + 1; }), HasSubstr(kOutside));
    EXPECT_THAT(says(type, [](Elf64_Phdr& p) { p.p_vaddr = UINT64_MAX / 2 + 1; }), HasSubstr(kOutside));
  }
  EXPECT_THAT(says(PT_DYNAMIC, [](Elf64_Phdr& p) { p.p_type = PT_NULL; }), HasSubstr("no dynamic section"));
  EXPECT_THAT(says(PT_DYNAMIC, [](Elf64_Phdr& p) { p.p_vaddr += 16; }), HasSubstr("the dynamic section is not loaded"));
  EXPECT_THAT(says(PT_DYNAMIC, [](Elf64_Phdr& p) { p.p_filesz = p.p_memsz = sizeof(Elf64_Dyn); }),
              HasSubstr("the dynamic section has no end"));
}

TEST(CheckSharedObject, RefusesWhatALoaderWouldRunOrLoad) {
  const std::pair<int64_t, const char*> refused[] = {{DT_NEEDED, "needs another library"},
                                                     {DT_INIT, "has an initialiser"},
                                                     {DT_INIT_ARRAY, "has an initialiser"},
                                                     {DT_PREINIT_ARRAY, "has an initialiser"},
                                                     {DT_FINI, "has a finaliser"},
                                                     {DT_FINI_ARRAY, "has a finaliser"},
                                                     {DT_TEXTREL, "relocates code"},
                                                     {DT_AUXILIARY, "filters another library"},
                                                     {DT_FILTER, "filters another library"},
                                                     {DT_AUDIT, "asks for an audit library"},
                                                     {DT_DEPAUDIT, "asks for an audit library"},
                                                     {DT_REL, "a kind that is not used"},
                                                     {DT_RELR, "a kind that is not used"}};
  for (const auto& [tag, why] : refused) {
    EXPECT_THAT(After([&](Linked& code) { code.Add(tag, 0); }), HasSubstr(why)) << tag;
  }
  EXPECT_THAT(After([](Linked& code) { code.Add(DT_FLAGS, DF_BIND_NOW | DF_TEXTREL); }), HasSubstr("relocates code"));
  EXPECT_EQ(After([](Linked& code) { code.Add(DT_FLAGS, DF_BIND_NOW); }), "accepted");
}

TEST(CheckSharedObject, RefusesSymbolsFromElsewhere) {
  EXPECT_THAT(After([](Linked& code) { code.symbol(1).st_shndx = SHN_UNDEF; }), HasSubstr("an undefined symbol"));
  EXPECT_THAT(After([](Linked& code) { code.symbol(1).st_info = ELF64_ST_INFO(STB_GLOBAL, STT_GNU_IFUNC); }),
              HasSubstr("a resolver function"));
  for (const int64_t tag : {DT_SYMTAB, DT_GNU_HASH}) {
    EXPECT_THAT(After([&](Linked& code) { code.entry(tag).d_tag = kHarmless; }), HasSubstr("no symbol table")) << tag;
    EXPECT_THAT(After([&](Linked& code) { code.entry(tag).d_un.d_val = uint64_t{1} << 40; }),
                HasSubstr("no symbol table"))
        << tag;
  }
  // The chain of the last name lies behind the file.
  EXPECT_THAT(After([](Linked& code) {
                const uint64_t at = code.OffsetOf(code.entry(DT_GNU_HASH).d_un.d_val);
                code.At<uint32_t>(at + 16 + uint64_t{code.At<uint32_t>(at + 8)} * 8) = UINT32_MAX;
              }),
              HasSubstr("no symbol table"));
  EXPECT_THAT(After([](Linked& code) {
                // The last byte of the file.
                const Elf64_Phdr last = code.segment(PT_DYNAMIC);
                code.bytes.resize(last.p_offset + last.p_filesz);
                code.entry(DT_SYMTAB).d_un.d_val = last.p_vaddr + last.p_filesz - 1;
              }),
              HasSubstr("the symbol table lies outside the file"));
}

TEST(CheckSharedObject, RefusesRelocationsOfCodeAndOfSymbols) {
  const uint64_t data = Linked().segment(PT_LOAD, PF_W).p_vaddr, text = Linked().segment(PT_LOAD, PF_X).p_vaddr;
  for (const auto& [table, bytes] : {std::pair<int64_t, int64_t>{DT_RELA, DT_RELASZ}, {DT_JMPREL, DT_PLTRELSZ}}) {
    const auto says = [&](uint32_t type, uint64_t address) {
      return After([&](Linked& code) { code.Relocate(table, bytes, type, address); });
    };
    EXPECT_EQ(says(R_X86_64_RELATIVE, data), "accepted");
    EXPECT_THAT(says(R_X86_64_64, data), HasSubstr("a relocation against a symbol"));
    EXPECT_THAT(says(R_X86_64_IRELATIVE, data), HasSubstr("a relocation against a symbol"));
    EXPECT_THAT(says(R_X86_64_RELATIVE, text), HasSubstr("it relocates code"));
    EXPECT_THAT(says(R_X86_64_RELATIVE, uint64_t{1} << 40), HasSubstr("it relocates code"));
    // The last bytes of what may be written are too few for an address.
    const uint64_t end = data + Linked().segment(PT_LOAD, PF_W).p_memsz;
    EXPECT_EQ(says(R_X86_64_RELATIVE, end - 8), "accepted");
    EXPECT_THAT(says(R_X86_64_RELATIVE, end - 7), HasSubstr("it relocates code"));
    EXPECT_THAT(says(R_X86_64_RELATIVE, data - 1), HasSubstr("it relocates code"));
    EXPECT_THAT(After([&](Linked& code) {
                  code.Add(table, uint64_t{1} << 40);
                  code.Add(bytes, sizeof(Elf64_Rela));
                }),
                HasSubstr("relocations lie outside the file"));
  }
}

}  // namespace
}  // namespace ingot::client
