// SPDX-License-Identifier: Apache-2.0
// Machine code of artifacts, as a client admits it.
#include "client/lib/artifact/elf_check.h"
#include "proto/artifact_file.h"
#include "tests/fuzz/artifacts.h"
#include "tests/fuzz/fuzz.h"

namespace ingot::fuzz {

std::vector<Buffer> Seeds() {
  std::vector<Buffer> seeds;
  for (const Buffer& artifact : SmallArtifacts()) {
    const Bytes code = proto::OpenArtifact(artifact)->code;
    seeds.emplace_back(code.begin(), code.end());
  }
  return seeds;
}

}  // namespace ingot::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ingot;
  const Status checked = client::CheckSharedObject({data, size});
  if (checked) {
    fuzz::accepted = true;
    return 0;
  }
  const Code code = checked.error().code();
  fuzz::Ensure(code == Code::kCorrupt || code == Code::kIncompatible, checked.error().ToText());
  return 0;
}
