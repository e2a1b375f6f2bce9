// SPDX-License-Identifier: Apache-2.0
// Safetensors files that exported files refer to.
#include "client/lib/exported/weight_file.h"
#include "tests/fuzz/fuzz.h"

namespace ingot::fuzz {
namespace {

void Check(Bytes bytes) {
  const auto tensors = client::ParseSafetensors(bytes);
  if (!tensors) return;
  accepted = true;
  for (const auto& [name, tensor] : *tensors) {
    size_t elements = 1;
    for (const int64_t size : tensor.sizes) elements *= static_cast<size_t>(size);
    Ensure(elements * guards::SizeOf(tensor.dtype) == tensor.elements.size(), "a tensor is as large as its sizes say");
    Ensure(tensor.elements.empty() || (tensor.elements.data() >= bytes.data() &&
                                       tensor.elements.data() + tensor.elements.size() <= bytes.data() + bytes.size()),
           "a tensor lies inside the file");
  }
}

Buffer Seed(const std::string& header, std::string_view data) {
  const auto size = static_cast<uint64_t>(header.size());
  std::string text(reinterpret_cast<const char*>(&size), sizeof size);
  text += header;
  text += data;
  return Buffer(text.begin(), text.end());
}

}  // namespace

std::vector<Buffer> Seeds() {
  return {Seed("{}", ""),
          Seed(R"({"__metadata__":{"format":"pt"},"w":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},)"
               R"("b":{"dtype":"I8","shape":[3],"data_offsets":[8,11]},)"
               R"("odd":{"dtype":"F8_E4M3","shape":[1],"data_offsets":[11,12]}})",
               "8 bytes.abcd")};
}

}  // namespace ingot::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ingot::fuzz::Check({data, size});
  return 0;
}
