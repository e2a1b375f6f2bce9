// SPDX-License-Identifier: Apache-2.0
#include "client/lib/artifact/loaded_artifact.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cstring>

#include "client/lib/artifact/cpu_features.h"
#include "client/lib/artifact/elf_check.h"
#include "client/lib/artifact/manifest_check.h"
#include "client/lib/artifact/named_code.h"

namespace ingot::client {

Result<std::shared_ptr<const LoadedArtifact>> LoadedArtifact::Open(UniqueFd file, Digest expected) {
  std::shared_ptr<LoadedArtifact> artifact(new LoadedArtifact());
  TRY(artifact->Load(file.get(), expected));
  return std::shared_ptr<const LoadedArtifact>(std::move(artifact));
}

Result<std::shared_ptr<const LoadedArtifact>> LoadedArtifact::Open(Bytes bytes) {
  TRY_ASSIGN(UniqueFd file, proto::MakeSealedMemory("ingot-artifact", bytes));
  return Open(std::move(file), DigestOf(bytes));
}

LoadedArtifact::~LoadedArtifact() {
  if (library_ != nullptr) dlclose(library_);
  if (!bytes_.empty()) munmap(const_cast<uint8_t*>(bytes_.data()), bytes_.size());
}

Status LoadedArtifact::Load(int file, Digest expected) {
  TRY(proto::CheckSealed(file));
  struct stat facts{};
  if (fstat(file, &facts) != 0) {
    return Error(Code::kUnavailable, fmt::format("artifact: cannot be read: {}", std::strerror(errno)));
  }
  if (facts.st_size == 0) return Error(Code::kCorrupt, "artifact: the file is empty");
  const auto size = static_cast<size_t>(facts.st_size);
  void* memory = mmap(nullptr, size, PROT_READ, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) {
    return Error(Code::kExhausted, fmt::format("artifact: cannot map {} bytes: {}", size, std::strerror(errno)));
  }
  bytes_ = {static_cast<const uint8_t*>(memory), size};
  digest_ = DigestOf(bytes_);
  if (digest_ != expected) {
    return Error(Code::kCorrupt,
                 fmt::format("artifact: bytes have digest {}, expected {}", digest_.ToHex(), expected.ToHex()));
  }
  TRY_ASSIGN(view_, proto::OpenArtifact(bytes_));
  manifest_ = proto::GetManifest(view_.manifest.data());
  TRY(Admit());
  return LinkCode();
}

Status LoadedArtifact::Admit() const {
  if (manifest_->abi() != INGOT_KERNEL_ABI_VERSION) {
    return Error(Code::kIncompatible, fmt::format("artifact: kernel ABI {}, this build runs {}", manifest_->abi(),
                                                  INGOT_KERNEL_ABI_VERSION));
  }
  if (const auto* provenance = manifest_->provenance(); provenance != nullptr && provenance->features() != nullptr) {
    std::vector<std::string_view> needed;
    for (const auto* feature : *provenance->features()) needed.push_back(feature->string_view());
    if (Status admitted = AdmitCpuFeatures(needed); !admitted) return std::move(admitted).error().Wrap("artifact");
  }
  TRY(CheckManifest(*manifest_, view_.constants.size()));
  if (!view_.code.empty()) return CheckSharedObject(view_.code);
  if (manifest_->kernels() != nullptr && manifest_->kernels()->size() != 0) {
    return Error(Code::kCorrupt, "artifact: kernels are named but there is no code");
  }
  return {};
}

bool LoadedArtifact::LinkKeptCode() {
  const std::string directory = CodeDirectory();
  if (directory.empty()) return false;
  KernelNames names;
  for (uint32_t i = 0; manifest_->kernels() != nullptr && i < manifest_->kernels()->size(); ++i) {
    const proto::Kernel& kernel = *manifest_->kernels()->Get(i);
    if (kernel.name() == nullptr) continue;
    // Of two names of one address perf shows the longer.
    const std::string symbol = kernel.symbol()->str();
    names.emplace(symbol, kernel.name()->str() + "." + symbol);
  }
  const std::string function = manifest_->name() == nullptr ? "" : manifest_->name()->str();
  const Result<std::string> path = KeepCode(directory, function, digest_, view_.code, names);
  if (path) library_ = dlopen(path->c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library_ != nullptr) return true;
  const std::string why = path ? dlerror() : path.error().message();
  fmt::print(stderr, "ingot: INGOT_CODE_DIR={}: {}; perf and gdb will show no names of its kernels\n", directory, why);
  return false;
}

Status LoadedArtifact::LinkCode() {
  if (view_.code.empty()) return {};
  if (!LinkKeptCode()) {
    TRY_ASSIGN(code_, proto::MakeSealedMemory("ingot-code", view_.code));
    const std::string path = fmt::format("/proc/self/fd/{}", code_.get());
    library_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  }
  if (library_ == nullptr) {
    return Error(Code::kIncompatible, fmt::format("artifact: the code cannot be loaded: {}", dlerror()));
  }
  if (manifest_->kernels() == nullptr) return {};
  for (const auto* kernel : *manifest_->kernels()) {
    void* symbol = dlsym(library_, kernel->symbol()->c_str());
    if (symbol == nullptr) {
      return Error(Code::kCorrupt,
                   fmt::format("artifact: the code has no symbol '{}'", kernel->symbol()->string_view()));
    }
    kernels_.push_back(reinterpret_cast<IngotKernel>(symbol));
  }
  return {};
}

}  // namespace ingot::client
