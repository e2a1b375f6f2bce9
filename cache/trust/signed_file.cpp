// SPDX-License-Identifier: Apache-2.0
#include "cache/trust/signed_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <filesystem>

namespace ingot::cache {
namespace {

std::string HostName() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? std::string(name.data()) : std::string();
}

}  // namespace

std::string SignaturePathOf(const std::string& path) { return path + ".sig"; }

std::string SignedNameOf(const std::string& path) { return std::filesystem::path(path).filename().string(); }

Result<Buffer> SignExportedFile(const SigningKey& key, const std::string& name, Bytes content, int64_t now_s) {
  Provenance provenance;
  provenance.artifact = DigestOf(content);
  provenance.artifact_sha256 = Sha256Of(content);
  provenance.artifact_bytes = content.size();
  provenance.host = HostName();
  provenance.function = name;
  provenance.built_s = now_s;
  return SignProvenance(key, std::move(provenance), Statement::kExportedFile);
}

Judgement JudgeExportedFile(const Trust& trust, const std::string& name, Bytes content, Bytes signature) {
  Judgement judgement = JudgeArtifact(trust.JudgeEnvelope(signature, Statement::kExportedFile), content);
  if (!judgement.trusted() || judgement.provenance->function == name) return judgement;
  judgement.verdict = Verdict::kOtherEntry;
  judgement.text = fmt::format("signed as '{}', found as '{}': somebody put it where it does not belong, or renamed it",
                               judgement.provenance->function, name);
  return judgement;
}

}  // namespace ingot::cache
