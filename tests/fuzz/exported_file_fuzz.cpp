// SPDX-License-Identifier: Apache-2.0
// Exported files: as they come, and with the digest that fits the header as it is.
#include "client/lib/exported/exported_file.h"

#include "base/digest.h"
#include "client/lib/exported/size_rule.h"
#include "tests/fuzz/fuzz.h"

namespace ingot::fuzz {
namespace {

constexpr size_t kHeadBytes = 20, kDigestBytes = 32;

void CheckArguments(const client::CallSignature& arguments) {
  const auto again = client::CallSignature::Parse(arguments.ToJson());
  Ensure(again.has_value() && again->ToJson() == arguments.ToJson(), "what parses prints and parses again");
  const auto tensors = arguments.Match(*again);
  Ensure(tensors && tensors->size() == arguments.tensor_count, "a call has its own structure");
  for (uint32_t i = 0; i < tensors->size(); ++i) Ensure((*tensors)[i] == i, "its tensors stand where they are");
}

void Check(Bytes bytes) {
  const auto file = client::ParseExportedFile(bytes);
  if (!file) return;
  accepted = true;
  Ensure(!file->structures.empty(), "a file has an argument structure");
  size_t parts = 0;
  for (const client::ExportedWeight& weight : file->weights) {
    size_t elements = 1;
    for (const int64_t size : weight.sizes) elements *= static_cast<size_t>(size);
    Ensure(!weight.file.empty() || elements * guards::SizeOf(weight.dtype) == weight.elements.size(),
           "a weight inside is as large as its sizes say");
    Ensure(weight.strides.size() == weight.sizes.size(), "a weight has a stride for each size");
    parts += weight.elements.size();
  }
  for (const client::ExportedStructure& structure : file->structures) {
    Ensure(!structure.variants.empty(), "an argument structure has a variant");
    CheckArguments(structure.arguments);
    for (const client::ExportedVariant& variant : structure.variants) {
      parts += variant.artifact.size();
      for (const uint32_t number : variant.weights) Ensure(number < file->weights.size(), "a weight is in the file");
      const auto rule = client::SizeRule::Make(variant.proven, variant.range);
      if (!rule) continue;
      for (const std::vector<int64_t>& symbols : variant.proven) {
        Ensure(rule->Allows(symbols), "what is proved is allowed");
      }
    }
  }
  Ensure(parts <= bytes.size(), "parts lie inside the file");
}

/// `bytes` with the digest that fits its header.
Buffer Sealed(Bytes bytes) {
  Buffer sealed(bytes.begin(), bytes.end());
  const auto size = LoadLittle<uint64_t>(bytes, 12);
  const Bytes rest = bytes.subspan(kHeadBytes + kDigestBytes);
  if (size > rest.size()) return sealed;
  const std::string digest = DigestOf(rest.first(size)).ToHex();
  std::copy(digest.begin(), digest.end(), sealed.begin() + kHeadBytes);
  return sealed;
}

std::string Variant(const std::string& outputs, const std::string& weights) {
  return R"({"outputs":)" + outputs + R"(,"proven":[[2],[3]],"range":"s0 >= 2 and s0 <= 64","weights":)" + weights +
         "}";
}

Buffer Seed(const std::string& variants, const std::string& weights, const std::string& blobs, std::string_view parts) {
  const std::string header =
      R"({"name":"f","structures":[{"arguments":{"args":[{"t":"tensor","i":0,"dtype":"float32","rank":2},)"
      R"({"t":"list","c":[{"t":"int","v":-3},{"t":"float","v":"0x1.8p+1"},{"t":"named","m":"a","q":"B","c":[]}]}],)"
      R"("names":["x"],"kwargs":{"d":{"t":"dict","k":["a",1],"c":[{"t":"none"},{"t":"text","v":"t"}]}}},"variants":[)" +
      variants + R"(]}],"weights":[)" + weights + R"(],"blobs":[)" + blobs + "]}";
  const std::string head = "INGOTEXP";
  Buffer out(head.begin(), head.end());
  AppendLittle<uint32_t>(out, 3);
  AppendLittle<uint64_t>(out, header.size());
  const std::string rest = DigestOf(header).ToHex() + header + std::string(parts);
  out.insert(out.end(), rest.begin(), rest.end());
  return out;
}

std::string Blob(std::string_view content) {
  return R"({"bytes":)" + std::to_string(content.size()) + R"(,"digest":")" + DigestOf(content).ToHex() + "\"}";
}

}  // namespace

std::vector<Buffer> Seeds() {
  const std::string weight = R"({"path":"w","dtype":"float32","sizes":[1,2],"strides":[2,1]})";
  const std::string leaf = Variant(R"({"t":"leaf","i":0})", "[]"), list = Variant(R"({"t":"list","c":[]})", "[0]");
  const std::string far =
      R"({"path":"w","dtype":"float32","sizes":[2],"strides":[1],"file":"w.safetensors","tensor":"w","digest":"0"})";
  return {Seed(leaf, "", Blob("artifact"), "artifact"), Seed(list, far, Blob("artifact"), "artifact"),
          Seed(list + "," + leaf, weight, Blob("a") + "," + Blob("b") + "," + Blob("8 bytes."), "ab8 bytes.")};
}

}  // namespace ingot::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ingot;
  const Bytes bytes{data, size};
  fuzz::Check(bytes);
  if (size >= fuzz::kHeadBytes + fuzz::kDigestBytes) fuzz::Check(fuzz::Sealed(bytes));
  return 0;
}
