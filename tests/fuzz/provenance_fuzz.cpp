// SPDX-License-Identifier: Apache-2.0
// Envelopes, the provenance inside, and lines of keys and rotations: all that is read before a signature was found
// good, and what a key that is trusted may sign.
#include "cache/trust/rotation.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/cache/fake_provenance.h"

namespace ingot::fuzz {
namespace {

using cache::DecodeEnvelope;
using cache::DecodeProvenance;
using cache::Envelope;
using cache::FakeKey;
using cache::FakeProvenance;
using cache::FakeReceived;
using cache::Provenance;
using cache::PublicKey;
using cache::Rotation;
using cache::SigningKey;
using cache::TrustPolicy;
using cache::Verdict;

const SigningKey& Key() {
  static const SigningKey key = FakeKey(1, "ci");
  return key;
}

Buffer SignedEnvelope() { return std::move(*SignProvenance(Key(), FakeProvenance())); }

/// One key that may write everything.
const TrustPolicy& Policy() {
  static const TrustPolicy policy = std::move(
      *TrustPolicy::Parse("version = 1\n[[domain]]\nname = \"all\"\n[[key]]\ndomains = [\"all\"]\npublic = \"" +
                          Key().public_key().ToLine() + "\"\n"));
  return policy;
}

bool CheckProvenance(Bytes bytes) {
  const Result<Provenance> read = DecodeProvenance(bytes);
  if (!read) return false;
  const Result<Buffer> again = EncodeProvenance(*read);
  Ensure(again.has_value() && AsText(*again) == AsText(bytes), "what decodes is canonical");
  return true;
}

bool CheckEnvelope(Bytes bytes) {
  const Result<Envelope> read = DecodeEnvelope(bytes);
  const auto judgement = Policy().JudgeEnvelope(bytes, cache::kFakeBuilt_s);
  static const Buffer genuine = SignedEnvelope();
  Ensure(judgement.verdict != Verdict::kTrusted, "nothing is trusted without its artifact");
  Ensure((judgement.verdict == Verdict::kAwaitsArtifact) == (AsText(bytes) == AsText(genuine)),
         "only what was signed gets as far as the artifact");
  Ensure(!judgement.text.empty(), "a judgement has words");
  if (!read) return false;
  Ensure(AsText(EncodeEnvelope(*read)) == AsText(bytes), "what decodes is canonical");
  CheckProvenance(read->provenance);
  return true;
}

bool CheckLines(std::string_view line) {
  if (line.ends_with('\n')) return false;
  if (const Result<PublicKey> key = PublicKey::FromLine(line)) {
    Ensure(key->ToLine() == line, "a key's line comes back");
    return true;
  }
  const Result<Rotation> rotation = Rotation::FromLine(line);
  if (!rotation) return false;
  Ensure(rotation->ToLine() == line, "a rotation's line comes back");
  return true;
}

Buffer TextOf(const std::string& text) { return Buffer(text.begin(), text.end()); }

}  // namespace

std::vector<Buffer> Seeds() {
  Provenance later = FakeProvenance();
  later.minor = 1;
  later.later = {{20, {1, 2}}};
  const SigningKey next = FakeKey(2, "next");
  return {std::move(*EncodeProvenance(FakeProvenance())),
          std::move(*EncodeProvenance(Provenance())),
          std::move(*EncodeProvenance(later)),
          SignedEnvelope(),
          TextOf(Key().public_key().ToLine()),
          TextOf(Rotation::Make(Key(), next, 10, 20)->ToLine())};
}

}  // namespace ingot::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ingot;
  const Bytes bytes(data, size);
  fuzz::accepted |= fuzz::CheckProvenance(bytes);
  fuzz::accepted |= fuzz::CheckEnvelope(bytes);
  fuzz::accepted |= fuzz::CheckLines(AsText(bytes));
  return 0;
}
