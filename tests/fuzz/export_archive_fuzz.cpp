// SPDX-License-Identifier: Apache-2.0
// Archives of torch.export (.pt2) from strangers: the zip file as it comes, and a sound one around a model's text.
#include "client/archive/export_archive.h"

#include <fstream>

#include "base/temp_dir.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/client/archive_records.h"

namespace ingot::fuzz {
namespace {

const std::string& Path() {
  static const TempDir folder;
  static const std::string path = folder / "m.pt2";
  return path;
}

void Check() {
  auto archive = client::ExportArchive::Open(Path());
  if (!archive) return;
  Ensure(archive->symbols().size() <= 64, "a small archive has few symbols");
  std::vector<int64_t> values;
  for (const client::ArchiveSymbol& symbol : archive->symbols()) {
    Ensure(!symbol.max || symbol.min <= *symbol.max, "a symbol has a value");
    values.push_back(symbol.min < 3 && (!symbol.max || *symbol.max >= 3) ? 3 : symbol.min);
    if (values.back() > 64) return;  // Its tensors would be as large as somebody liked.
  }
  const auto recording = archive->Record(values, archive->symbols());
  accepted |= recording.has_value();
  Ensure(!recording || !recording->empty(), "a run that ends is recorded");
}

}  // namespace

std::vector<Buffer> Seeds() {
  const std::string model = client::ArchiveModel().dump();
  client::WriteArchive(Path(), model);
  std::ifstream file(Path(), std::ios::binary);
  return {Buffer(model.begin(), model.end()), Buffer(std::istreambuf_iterator<char>(file), {})};
}

}  // namespace ingot::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ingot;
  std::ofstream(fuzz::Path(), std::ios::binary).write(reinterpret_cast<const char*>(data), static_cast<long>(size));
  fuzz::Check();
  client::WriteArchive(fuzz::Path(), AsText({data, size}));
  fuzz::Check();
  return 0;
}
