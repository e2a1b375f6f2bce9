// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>
#include <elf.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "compiler/loop/text.h"
#include "compiler/targets/target.h"
#include "compiler/targets/x86/cpu_flags.h"
#include "kernels/abi.h"

namespace ingot::compiler {
namespace {

using guards::Dim;
using guards::DType;
using loop::ScalarOp;

const TargetSpec kV3{"x86-64-v3", {}};
const TargetSpec kV4{"x86-64-v4", {}};

std::unique_ptr<Target> TargetOf(const TargetSpec& spec) {
  auto target = Target::Make(spec);
  EXPECT_TRUE(target) << target.error().ToText();
  return target ? std::move(*target) : nullptr;
}
Result<Object> Emitted(const loop::Kernel& kernel) {
  const std::unique_ptr<Target> target = TargetOf(kV3);
  return target->Emit(kernel, target->Schedules(kernel).front());
}

/// out[i] = op(in[i]) for `count` elements of `dtype`.
loop::Kernel Unary(ScalarOp op, DType dtype, int64_t count) {
  loop::Kernel kernel;
  kernel.params = {{dtype, loop::ParamMode::kIn, Dim(count)}, {dtype, loop::ParamMode::kOut, Dim(count)}};
  kernel.rows = {Dim(1)};
  loop::Inst load;
  load.op = ScalarOp::kLoad;
  load.dtype = dtype;
  load.index.coefs = {Dim(0), Dim(1)};
  loop::Inst apply;
  apply.op = op;
  apply.dtype = dtype;
  apply.args = {0};
  loop::Inst store = load;
  store.op = ScalarOp::kStore;
  store.buffer = 1;
  store.args = {1};
  kernel.insts = {load, apply, store};
  kernel.blocks = {{true, Dim(count), {0, 1, 2}}};
  return kernel;
}

std::vector<loop::Kernel> SomeKernels() {
  std::vector<loop::Kernel> kernels;
  for (const ScalarOp op : {ScalarOp::kExp, ScalarOp::kSin, ScalarOp::kErf, ScalarOp::kAbs}) {
    for (const DType dtype : {DType::kF32, DType::kF64}) {
      kernels.push_back(Unary(op, dtype, 37));
    }
  }
  return kernels;
}

/// The parts of an ELF image that a loader acts on.
struct DynamicSection {
  std::vector<int64_t> tags;
  std::vector<std::string> exported, undefined;
};

DynamicSection ReadDynamic(Bytes image) {
  DynamicSection result;
  const auto* header = reinterpret_cast<const Elf64_Ehdr*>(image.data());
  const auto* sections = reinterpret_cast<const Elf64_Shdr*>(image.data() + header->e_shoff);
  for (int i = 0; i < header->e_shnum; ++i) {
    const Elf64_Shdr& section = sections[i];
    const uint8_t* data = image.data() + section.sh_offset;
    if (section.sh_type == SHT_DYNAMIC) {
      const auto* entry = reinterpret_cast<const Elf64_Dyn*>(data);
      for (; entry->d_tag != DT_NULL; ++entry) result.tags.push_back(entry->d_tag);
    }
    if (section.sh_type == SHT_DYNSYM) {
      const auto* names = reinterpret_cast<const char*>(image.data() + sections[section.sh_link].sh_offset);
      const auto* symbols = reinterpret_cast<const Elf64_Sym*>(data);
      for (size_t k = 1; k < section.sh_size / sizeof(Elf64_Sym); ++k) {
        auto& list = symbols[k].st_shndx == SHN_UNDEF ? result.undefined : result.exported;
        list.push_back(names + symbols[k].st_name);
      }
    }
  }
  return result;
}

TEST(LinkShared, MakesALibraryThatNeedsNothingAndInitialisesNothing) {
  const std::vector<loop::Kernel> kernels = SomeKernels();
  auto objects = EmitAll(*TargetOf(kV3), kernels, 1);
  ASSERT_TRUE(objects) << objects.error().ToText();
  const auto image = TargetOf(kV3)->Link(*objects);
  ASSERT_TRUE(image) << image.error().ToText();
  const DynamicSection dynamic = ReadDynamic(*image);
  EXPECT_TRUE(dynamic.undefined.empty()) << dynamic.undefined.front();
  EXPECT_EQ(dynamic.exported.size(), kernels.size());
  for (const std::string& name : dynamic.exported) EXPECT_TRUE(name.starts_with("ingot_k_"));
  for (const int64_t tag : dynamic.tags) {
    EXPECT_NE(tag, DT_NEEDED);
    EXPECT_NE(tag, DT_INIT);
    EXPECT_NE(tag, DT_INIT_ARRAY);
    EXPECT_NE(tag, DT_FINI);
    EXPECT_NE(tag, DT_FINI_ARRAY);
    EXPECT_NE(tag, DT_TEXTREL);
  }
}

TEST(LinkShared, RunsAfterDlopen) {
  const loop::Kernel kernel = Unary(ScalarOp::kAbs, DType::kF32, 37);
  auto objects = EmitAll(*TargetOf(kV3), {&kernel, 1}, 1);
  ASSERT_TRUE(objects) << objects.error().ToText();
  const auto image = TargetOf(kV3)->Link(*objects);
  ASSERT_TRUE(image) << image.error().ToText();
  const int fd = memfd_create("kernels", MFD_CLOEXEC);
  ASSERT_GE(fd, 0);
  ASSERT_EQ(write(fd, image->data(), image->size()), static_cast<ssize_t>(image->size()));
  void* library = dlopen(("/proc/self/fd/" + std::to_string(fd)).c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  auto entry = reinterpret_cast<IngotKernel>(dlsym(library, objects->front().symbol.c_str()));
  ASSERT_NE(entry, nullptr);
  float in[37], out[37];
  for (int i = 0; i < 37; ++i) in[i] = static_cast<float>(i % 2 ? -i : i);
  void* buffers[] = {in, out};
  const IngotCallFrame frame = {buffers, nullptr, 0, 1, nullptr};
  EXPECT_EQ(entry(&frame), INGOT_KERNEL_OK);
  for (int i = 0; i < 37; ++i) EXPECT_EQ(out[i], static_cast<float>(i));
  dlclose(library);
  close(fd);
}

TEST(EmitAll, GivesTheSameBytesForAnyNumberOfThreads) {
  const std::vector<loop::Kernel> kernels = SomeKernels();
  auto one = EmitAll(*TargetOf(kV3), kernels, 1);
  auto two = EmitAll(*TargetOf(kV3), kernels, 2);
  ASSERT_TRUE(one && two);
  for (size_t i = 0; i < kernels.size(); ++i) {
    EXPECT_EQ((*one)[i].symbol, (*two)[i].symbol);
    EXPECT_EQ((*one)[i].bytes, (*two)[i].bytes) << i;
  }
  auto first = TargetOf(kV3)->Link(*one);
  auto second = TargetOf(kV3)->Link(*two);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(*first, *second);
}

TEST(EmitAll, NameIsNoPartOfTheCode) {
  loop::Kernel kernel = Unary(ScalarOp::kExp, DType::kF32, 64);
  const auto before = Emitted(kernel);
  kernel.name = "another";
  const auto after = Emitted(kernel);
  ASSERT_TRUE(before && after);
  EXPECT_EQ(before->symbol, after->symbol);
  EXPECT_EQ(before->bytes, after->bytes);
}

TEST(EmitAll, UsesWideRegistersOnLevelFour) {
  const loop::Kernel kernel = Unary(ScalarOp::kExp, DType::kF32, 1024);
  const auto text = TargetOf(kV4)->Text(kernel, TargetOf(kV4)->Schedules(kernel).front(), true);
  ASSERT_TRUE(text) << text.error().ToText();
  EXPECT_NE(text->find("zmm"), std::string::npos);
  auto objects = EmitAll(*TargetOf(kV4), {&kernel, 1}, 1);
  ASSERT_TRUE(objects) << objects.error().ToText();
  EXPECT_TRUE(TargetOf(kV3)->Link(*objects));
}

TEST(EmitAll, RefusesAnUnknownLevel) {
  const auto object = Target::Make({"x86-64-v2", {}});
  ASSERT_FALSE(object);
  EXPECT_EQ(object.error().code(), Code::kUnsupported);
  EXPECT_NE(object.error().message().find("x86-64-v2"), std::string::npos);
}

TEST(LinkShared, ReportsDamagedObjects) {
  auto object = Emitted(Unary(ScalarOp::kExp, DType::kF32, 8));
  ASSERT_TRUE(object);
  Object damaged = *object;
  damaged.bytes.resize(damaged.bytes.size() / 2);
  EXPECT_FALSE(TargetOf(kV3)->Link({&damaged, 1}));
  EXPECT_TRUE(TargetOf(kV3)->Link({&*object, 1})) << "the linker must survive a failure";
}

TEST(TargetFromFlags, NamesWhatIsMissing) {
  const auto target = TargetFromFlags("fpu sse avx f16c fma abm bmi1 bmi2 movbe popcnt xsave");
  ASSERT_FALSE(target);
  EXPECT_EQ(target.error().code(), Code::kUnsupported);
  EXPECT_NE(target.error().message().find("avx2"), std::string::npos);
}

TEST(TargetFromFlags, SortsFeaturesAndDropsOtherFlags) {
  const auto target = TargetFromFlags("hypervisor xsave vaes fma f16c bmi2 bmi1 avx2 avx abm movbe popcnt tsc movbe");
  ASSERT_TRUE(target) << target.error().ToText();
  EXPECT_EQ(target->level, "x86-64-v3");
  const std::vector<std::string> expected = {"abm", "avx",   "avx2",   "bmi1", "bmi2", "f16c",
                                             "fma", "movbe", "popcnt", "vaes", "xsave"};
  EXPECT_EQ(target->features, expected);
}

TEST(TargetFromFlags, FindsLevelFour) {
  const auto target = TargetFromFlags(
      "abm avx avx2 bmi1 bmi2 f16c fma movbe popcnt xsave avx512f avx512bw avx512cd avx512dq "
      "avx512vl");
  ASSERT_TRUE(target) << target.error().ToText();
  EXPECT_EQ(target->level, "x86-64-v4");
}

TEST(Emit, RoundsEachRowBufferUp) {
  loop::Kernel kernel;
  kernel.symbol_count = 1;
  const auto scratch = [&] { return Emitted(kernel)->launch.scratch_bytes; };
  kernel.row_buffers = {{DType::kF32, Dim(17)}, {DType::kBool, Dim(1)}};
  EXPECT_EQ(scratch(), Dim(128 + 64));
  kernel.row_buffers.push_back({DType::kF64, Dim::Symbol(0)});
  EXPECT_EQ(scratch(), Dim(192 + 63) + Dim(8) * Dim::Symbol(0));
}

}  // namespace
}  // namespace ingot::compiler
