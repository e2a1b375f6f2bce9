// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <optional>

#include "base/clock.h"
#include "base/filesystem.h"
#include "cache/trust/signed_file.h"
#include "tools/ingot/table.h"
#include "tools/ingot/verb.h"

namespace ingot::tools {
namespace {

constexpr uint64_t kFileBytesMax = 64ull << 30;
constexpr uint64_t kSignatureBytesMax = 1u << 20;

/// A file, or what comes in where its name is "-".
Result<Buffer> ContentOf(const std::string& path) {
  if (path != "-") return RealFilesystem().Read(path, kFileBytesMax);
  Buffer content;
  std::array<char, 1 << 16> piece;
  while (const size_t got = std::fread(piece.data(), 1, piece.size(), stdin)) {
    content.insert(content.end(), piece.data(), piece.data() + got);
  }
  return content;
}

/// An exported file against its signature and the trust file.
Status RunVerifyFile(const std::string& path, const Arguments& arguments) {
  std::string trust_path = arguments.Text("--trust"), name = arguments.Text("--name");
  std::string signature_path = arguments.Text("--signature");
  if (path == "-" && (name.empty() || signature_path.empty())) {
    return Error(Code::kInvalid, "a file that comes in by stdin has a --name and a --signature");
  }
  if (name.empty()) name = path;
  if (signature_path.empty()) signature_path = cache::SignaturePathOf(path);
  TRY_ASSIGN(const std::string directory, cache::TrustDirectory());
  if (trust_path.empty()) trust_path = directory + "/trust.toml";
  TRY_ASSIGN(const Buffer content, ContentOf(path));
  Buffer signature;
  if (Result<Buffer> read = RealFilesystem().Read(signature_path, kSignatureBytesMax); read) {
    signature = *std::move(read);
  } else if (read.error().code() != Code::kNotFound) {
    return read.error();
  }
  std::optional<cache::PublicKey> own;
  if (const std::string key_path = directory + "/signing.key"; RealFilesystem().Exists(key_path)) {
    TRY_ASSIGN(const cache::SigningKey key, cache::SigningKey::Load(key_path));
    own = key.public_key();
  }
  const std::string quarantine = (std::filesystem::path(trust_path).parent_path() / "quarantine.toml").string();
  const cache::Trust trust({trust_path, quarantine, own}, SystemClock());
  const cache::Judgement found = cache::JudgeExportedFile(trust, cache::SignedNameOf(name), content, signature);
  Json answer = {{"file", name}, {"verdict", cache::NameOf(found.verdict)}, {"text", found.text}};
  if (found.provenance) {
    answer["builder"] = found.provenance->builder.ToHex();
    answer["built"] = found.provenance->built_s;
    answer["sha256"] = found.provenance->artifact_sha256.ToHex();
  }
  if (!PrintedJson(arguments, answer) && found.trusted()) {
    fmt::print("{}: signed by key {}\n", name, found.provenance->builder.ToHex());
  }
  if (found.trusted()) return {};
  return Error(Code::kInvalid,
               fmt::format("{} is not trusted ({}): {}", name, cache::NameOf(found.verdict), found.text));
}

Status RunVerify(Session& session, const Arguments& arguments) {
  if (const std::string file = arguments.Text("file"); !file.empty()) return RunVerifyFile(file, arguments);
  TRY_ASSIGN(const Json answer, session.Ask("verify", {{"recompile", arguments.Flag("recompile")}}));
  const Json& problems = answer["problems"];
  if (!PrintedJson(arguments, answer)) {
    fmt::print("checked {} values, {}; compiled {} again\n", answer["checked"].dump(),
               BytesText(answer["bytes"].get<uint64_t>()), answer["recompiled"].dump());
    Table table({"table", "key", "problem"});
    for (const Json& problem : problems) {
      table.Add({problem["table"].get<std::string>(), problem["key"].get<std::string>(),
                 problem["message"].get<std::string>()});
    }
    if (!problems.empty()) table.Print();
  }
  if (problems.empty()) return {};
  return Error(Code::kCorrupt, fmt::format("{} values have problems", problems.size()));
}

}  // namespace

Verb VerifyVerb() {
  return {
      "verify",
      "Reads every stored value and checks it against its digest; with a file, whether it is signed by a trusted key",
      {{"file", "An exported file (model.ingot); - for stdin", Parameter::kOptional, values::kFile},
       {"--trust", "The trust file; ~/.config/ingot/trust.toml unless said", Parameter::kOptional, values::kFile},
       {"--signature", "Its signature; FILE.sig unless said", Parameter::kOptional, values::kFile},
       {"--name", "What it is called, where it is read from stdin", Parameter::kOptional, values::kFile},
       {"recompile", "Also compile every graph again and compare the bytes", Parameter::kFlag}},
      true,
      RunVerify,
      true};
}

}  // namespace ingot::tools
