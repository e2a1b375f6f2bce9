// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <sys/stat.h>

#include <cstdio>

#include "base/clock.h"
#include "base/filesystem.h"
#include "cache/trust/signed_file.h"
#include "tools/ingot/verb.h"

namespace ingot::tools {
namespace {

constexpr uint64_t kFileBytesMax = 64ull << 30;

Status RunSign(Session& /*session*/, const Arguments& arguments) {
  const std::string path = arguments.Text("file");
  std::string key_path = arguments.Text("--private-key");
  if (key_path.empty()) {
    TRY_ASSIGN(const std::string directory, cache::TrustDirectory());
    key_path = directory + "/signing.key";
  }
  TRY_ASSIGN(const cache::SigningKey key, cache::SigningKey::Load(key_path));
  TRY_ASSIGN(const Buffer content, RealFilesystem().Read(path, kFileBytesMax));
  TRY_ASSIGN(const Buffer signature,
             cache::SignExportedFile(key, cache::SignedNameOf(path), content, SystemClock().now_s()));
  const std::string place = cache::SignaturePathOf(path);
  TRY(RealFilesystem().WriteAtomic(place, signature));
  // As public as what it signs.
  struct stat status{};
  if (stat(path.c_str(), &status) == 0) chmod(place.c_str(), status.st_mode & 0666);
  const Json answer = {{"file", path},
                       {"signature", place},
                       {"key", key.public_key().id().ToHex()},
                       {"sha256", cache::Sha256Of(content).ToHex()}};
  if (!PrintedJson(arguments, answer)) fmt::print("{}\n", place);
  return {};
}

}  // namespace

Verb SignVerb() {
  return {"sign",
          "Signs an exported file (model.ingot) for those who load it with a trust file",
          {{"file", "The file", Parameter::kRequired, values::kFile},
           {"--private-key", "The key; ~/.config/ingot/signing.key unless said", Parameter::kOptional, values::kFile}},
          true,
          RunSign};
}

}  // namespace ingot::tools
