// SPDX-License-Identifier: Apache-2.0
#include "cache/trust/trust.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "base/clock.h"
#include "base/filesystem.h"
#include "cache/trust/trust_text.h"
#include "tools/ingot/table.h"
#include "tools/ingot/verb.h"

namespace ingot::tools {
namespace {

using cache::Judgement;
using cache::Provenance;
using cache::PublicKey;
using cache::Revocation;
using cache::Rotation;
using cache::SigningKey;
using cache::TimeRange;
using cache::TimeText;
using cache::TrustPolicy;
using cache::Verdict;

constexpr int64_t kOldKeyDays = 30;
constexpr uint64_t kArtifactBytesMax = 64ull << 30;
constexpr std::string_view kPrivateWord = "ingot-ed25519-private ";

Result<std::string> PathOf(const Arguments& arguments, const std::string& option, std::string_view name) {
  const std::string given = arguments.Text(option);
  if (!given.empty()) return given;
  TRY_ASSIGN(const std::string directory, cache::TrustDirectory());
  return fmt::format("{}/{}", directory, name);
}
Result<std::string> TrustPath(const Arguments& arguments) { return PathOf(arguments, "--file", "trust.toml"); }
Result<std::string> KeyPath(const Arguments& arguments) { return PathOf(arguments, "--private-key", "signing.key"); }

/// "a,b" as its words.
std::vector<std::string> WordsOf(const std::string& text) {
  std::vector<std::string> out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    if (end > at) out.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

Result<TimeRange> RangeOf(const Arguments& arguments) {
  TimeRange range;
  if (const std::string from = arguments.Text("--from"); !from.empty()) {
    TRY_ASSIGN(range.from_s, cache::TimeFromText(from));
  }
  if (const std::string until = arguments.Text("--until"); !until.empty()) {
    TRY_ASSIGN(range.until_s, cache::TimeFromText(until));
  }
  return range;
}

std::string RangeText(const TimeRange& range) {
  if (range.IsAll()) return "always";
  return fmt::format("{} .. {}", range.from_s == TimeRange().from_s ? "" : TimeText(range.from_s),
                     range.until_s == TimeRange().until_s ? "" : TimeText(range.until_s));
}

/// null where there is no bound.
void AddRange(Json& json, const TimeRange& range) {
  json["from"] = range.from_s == TimeRange().from_s ? Json() : Json(range.from_s);
  json["until"] = range.until_s == TimeRange().until_s ? Json() : Json(range.until_s);
}

Json KeyJson(const PublicKey& key) { return {{"name", key.name}, {"id", key.id().ToHex()}, {"public", key.ToLine()}}; }

Json RevocationJson(const Revocation& revocation) {
  Json json = {{"key", revocation.key ? revocation.key->ToHex() : ""},
               {"host", revocation.host},
               {"artifact", revocation.artifact ? revocation.artifact->ToHex() : ""},
               {"artifact_sha256", revocation.artifact_sha256 ? revocation.artifact_sha256->ToHex() : ""},
               {"graph", revocation.graph ? revocation.graph->ToHex() : ""},
               {"reason", revocation.reason},
               {"when", revocation.when_s}};
  AddRange(json, revocation.built);
  return json;
}

Json ProvenanceJson(const Provenance& provenance) {
  return {{"entry_key", provenance.entry_key.ToHex()},
          {"graph_key", provenance.graph_key.ToHex()},
          {"variant_sha256", provenance.variant.ToHex()},
          {"artifact", provenance.artifact.ToHex()},
          {"artifact_sha256", provenance.artifact_sha256.ToHex()},
          {"artifact_bytes", provenance.artifact_bytes},
          {"builder", provenance.builder.ToHex()},
          {"host", provenance.host},
          {"function", provenance.function},
          {"group", provenance.group},
          {"compiler", provenance.compiler},
          {"target", provenance.target},
          {"features", provenance.features},
          {"cost_s", static_cast<double>(provenance.cost_us) / 1e6},
          {"built", provenance.built_s},
          {"facts", provenance.facts}};
}

Status RunKeygen(Session& /*session*/, const Arguments& arguments) {
  TRY_ASSIGN(const std::string path, KeyPath(arguments));
  TRY_ASSIGN(const SigningKey key, SigningKey::Generate(arguments.Text("name")));
  TRY(RealFilesystem().MakeDirs(std::filesystem::absolute(path).parent_path().string()));
  TRY(key.Save(path));
  Json answer = KeyJson(key.public_key());
  answer["file"] = path;
  if (!PrintedJson(arguments, answer)) fmt::print("{}\n", key.public_key().ToLine());
  return {};
}

/// What a file begins with; nothing else of a private key is to come into ordinary memory.
Result<std::string> StartOf(const std::string& path, size_t bytes) {
  std::string out(bytes, '\0');
  std::ifstream file(path, std::ios::binary);
  file.rdbuf()->pubsetbuf(nullptr, 0);
  if (!file) return Error(Code::kNotFound, "cannot read " + path);
  file.read(out.data(), static_cast<std::streamsize>(bytes));
  out.resize(static_cast<size_t>(file.gcount()));
  return out;
}

/// A line that was given, or that stands in a file of that name.
Result<std::string> LineOf(const std::string& given) {
  if (given.starts_with("ingot-")) return given;
  TRY_ASSIGN(const std::string start, StartOf(given, kPrivateWord.size()));
  if (start == kPrivateWord) {
    return Error(Code::kInvalid,
                 fmt::format("{} is a private key: add the line that `ingot trust show {}` prints", given, given));
  }
  TRY_ASSIGN(const Buffer text, RealFilesystem().Read(given, 4096));
  return std::string(AsText(text));
}

Status RunAdd(Session& /*session*/, const Arguments& arguments) {
  TRY_ASSIGN(const std::string path, TrustPath(arguments));
  TRY_ASSIGN(const std::string line, LineOf(arguments.Text("key")));
  std::vector<std::string> domains = WordsOf(arguments.Text("--domain"));
  const bool is_rotation = line.starts_with("ingot-rotation");
  if (domains.empty() && !is_rotation) domains = {"all"};
  TRY_ASSIGN(const TimeRange built, RangeOf(arguments));
  TRY(cache::EditTrustText(path, [&](const std::string& text) {
    return cache::WithKey(text, line, domains, WordsOf(arguments.Text("--functions")), built);
  }));
  PublicKey key;
  if (is_rotation) {
    TRY_ASSIGN(const Rotation rotation, Rotation::FromLine(line));
    key = rotation.new_key;
  } else {
    TRY_ASSIGN(key, PublicKey::FromLine(line));
  }
  Json answer = KeyJson(key);
  answer["file"] = path;
  if (!PrintedJson(arguments, answer)) fmt::print("added key {} ({}) to {}\n", key.name, key.id().ToHex(), path);
  return {};
}

Status RunList(Session& /*session*/, const Arguments& arguments) {
  TRY_ASSIGN(const std::string path, TrustPath(arguments));
  TRY_ASSIGN(const std::string text, cache::ReadTrustText(path));
  TRY_ASSIGN(const TrustPolicy policy, TrustPolicy::Parse(text));
  Json answer = {{"file", path},
                 {"keys", Json::array()},
                 {"domains", Json::array()},
                 {"revocations", Json::array()},
                 {"warnings", policy.warnings()}};
  Table keys({"key", "id", "domains", "built", "state"});
  Table domains({"domain", "functions", "groups", "targets", "takes"});
  for (const cache::TrustedKey& key : policy.keys()) {
    const cache::KeyId id = key.key.id();
    bool is_revoked = false;
    for (const Revocation& revocation : policy.revocations()) {
      is_revoked |= revocation.built.IsAll() && revocation.HitsKeyAt(id, 0);
    }
    Json json = KeyJson(key.key);
    json["domains"] = key.domains;
    AddRange(json, key.built);
    json["follows"] = key.follows ? key.follows->ToHex() : "";
    json["revoked"] = is_revoked;
    answer["keys"].push_back(std::move(json));
    keys.Add({key.key.name, id.ToHex(), fmt::format("{}", fmt::join(key.domains, ",")), RangeText(key.built),
              is_revoked ? "revoked" : ""});
  }
  const auto patterns = [](const std::vector<std::string>& all) {
    return all.empty() ? "*" : fmt::format("{}", fmt::join(all, " "));
  };
  for (const cache::Domain& domain : policy.domains()) {
    const int64_t days = domain.age_max_s.value_or(0) / 86'400;
    answer["domains"].push_back({{"name", domain.name},
                                 {"functions", domain.functions},
                                 {"groups", domain.groups},
                                 {"targets", domain.targets},
                                 {"this_host_only", domain.this_host_only},
                                 {"age_max_days", days}});
    domains.Add({domain.name, patterns(domain.functions), patterns(domain.groups), patterns(domain.targets),
                 fmt::format("{}{}", domain.this_host_only ? "this host only" : "its keys",
                             days == 0 ? "" : fmt::format(", {} days", days))});
  }
  for (const Revocation& revocation : policy.revocations()) answer["revocations"].push_back(RevocationJson(revocation));
  if (PrintedJson(arguments, answer)) return {};
  fmt::print("{}\n", path);
  if (!policy.keys().empty()) keys.Print();
  if (!policy.domains().empty()) domains.Print();
  for (const Revocation& revocation : policy.revocations()) fmt::print("revoked: {}\n", revocation.ToText());
  for (const std::string& warning : policy.warnings()) fmt::print("warning: {}\n", warning);
  return {};
}

Status RunRevoke(Session& /*session*/, const Arguments& arguments) {
  TRY_ASSIGN(const std::string path, TrustPath(arguments));
  Revocation revocation;
  TRY_ASSIGN(revocation.built, RangeOf(arguments));
  revocation.host = arguments.Text("--host");
  revocation.reason = arguments.Text("--reason");
  revocation.when_s = SystemClock().now_s();
  if (const std::string hex = arguments.Text("--artifact"); hex.size() == 64) {
    TRY_ASSIGN(revocation.artifact_sha256, cache::Sha256::FromHex(hex));
  } else if (!hex.empty()) {
    TRY_ASSIGN(revocation.artifact, Digest::FromHex(hex));
  }
  if (const std::string hex = arguments.Text("--graph"); !hex.empty()) {
    TRY_ASSIGN(revocation.graph, Digest::FromHex(hex));
  }
  const std::string name = arguments.Text("--key");
  TRY(cache::EditTrustText(path, [&](const std::string& text) -> Result<std::string> {
    if (!name.empty()) {
      TRY_ASSIGN(const TrustPolicy policy, TrustPolicy::Parse(text));
      const Result<const cache::TrustedKey*> key = policy.Find(name);
      // A key that was taken out of the file can still be revoked, by its whole id.
      if (const Result<cache::KeyId> id = cache::KeyId::FromHex(name); !key && id) {
        revocation.key = *id;
      } else if (key) {
        revocation.key = (*key)->key.id();
      } else {
        return key.error();
      }
    }
    return cache::WithRevocation(text, revocation);
  }));
  Json answer = RevocationJson(revocation);
  answer["file"] = path;
  if (!PrintedJson(arguments, answer)) fmt::print("revoked in {}: {}\n", path, revocation.ToText());
  return {};
}

Status RunRotate(Session& /*session*/, const Arguments& arguments) {
  const std::string name = arguments.Text("name");
  TRY_ASSIGN(const std::string path, KeyPath(arguments));
  TRY_ASSIGN(const SigningKey old, SigningKey::Load(path));
  TRY_ASSIGN(const SigningKey next, SigningKey::Generate(name));
  int64_t from_s = SystemClock().now_s();
  if (const std::string text = arguments.Text("--from"); !text.empty()) {
    TRY_ASSIGN(from_s, cache::TimeFromText(text));
  }
  int64_t old_until_s = from_s + kOldKeyDays * 86'400;
  if (const std::string text = arguments.Text("--old-until"); !text.empty()) {
    TRY_ASSIGN(old_until_s, cache::TimeFromText(text));
  }
  TRY_ASSIGN(const Rotation rotation, Rotation::Make(old, next, from_s, old_until_s));
  std::string next_path = arguments.Text("--new-private-key");
  if (next_path.empty()) {
    next_path = (std::filesystem::absolute(path).parent_path() / (name + ".key")).string();
  }
  TRY(next.Save(next_path));
  Json answer = KeyJson(next.public_key());
  answer["file"] = next_path;
  answer["from"] = from_s;
  answer["old_until"] = old_until_s;
  answer["rotation"] = rotation.ToLine();
  if (!PrintedJson(arguments, answer)) fmt::print("{}\n", rotation.ToLine());
  return {};
}

void PrintFields(const Json& json) {
  for (const auto& [name, value] : json.items()) {
    const bool is_time = (name == "built" || name == "from" || name == "old_until") && value.is_number();
    fmt::print("{:<16} {}\n", name,
               is_time             ? TimeText(value.get<int64_t>())
               : value.is_string() ? value.get<std::string>()
                                   : value.dump());
  }
}

Status Show(const Arguments& arguments, const Json& answer) {
  if (!PrintedJson(arguments, answer)) PrintFields(answer);
  return {};
}

Status RunShow(Session& /*session*/, const Arguments& arguments) {
  const std::string path = arguments.Text("file");
  std::string text = path;
  if (!path.starts_with("ingot-")) {
    TRY_ASSIGN(const std::string start, StartOf(path, kPrivateWord.size()));
    if (start == kPrivateWord) {
      TRY_ASSIGN(const SigningKey key, SigningKey::Load(path));
      Json answer = KeyJson(key.public_key());
      answer["kind"] = "private_key";
      return Show(arguments, answer);
    }
    TRY_ASSIGN(const Buffer bytes, RealFilesystem().Read(path, 1 << 20));
    text = AsText(bytes);
  }
  if (text.starts_with("ingot-ed25519")) {
    TRY_ASSIGN(const PublicKey key, PublicKey::FromLine(text));
    Json answer = KeyJson(key);
    answer["kind"] = "public_key";
    return Show(arguments, answer);
  }
  if (text.starts_with("ingot-rotation")) {
    TRY_ASSIGN(const Rotation rotation, Rotation::FromLine(text));
    Json answer = KeyJson(rotation.new_key);
    answer["kind"] = "rotation";
    answer["old_key"] = rotation.old_key.ToHex();
    answer["from"] = rotation.from_s;
    answer["old_until"] = rotation.old_until_s;
    return Show(arguments, answer);
  }
  TRY_ASSIGN(const cache::Envelope envelope, cache::DecodeEnvelope(AsBytes(text)));
  TRY_ASSIGN(const Provenance provenance, cache::DecodeProvenance(envelope.provenance));
  Json answer = ProvenanceJson(provenance);
  answer["kind"] = "envelope";
  answer["key"] = envelope.key.ToHex();
  return Show(arguments, answer);
}

Code CodeOf(Verdict verdict) {
  switch (verdict) {
    case Verdict::kUnsigned:
    case Verdict::kUnknownKey:
    case Verdict::kAwaitsArtifact: return Code::kNotFound;
    case Verdict::kMalformed:
    case Verdict::kBadSignature:
    case Verdict::kOtherEntry:
    case Verdict::kOtherGraph:
    case Verdict::kOtherVariant:
    case Verdict::kOtherArtifact: return Code::kCorrupt;
    case Verdict::kOtherVersion: return Code::kIncompatible;
    case Verdict::kNoTrustFile: return Code::kUnavailable;
    default: return Code::kUnsupported;
  }
}

Status RunCheck(Session& /*session*/, const Arguments& arguments) {
  TRY_ASSIGN(const std::string path, TrustPath(arguments));
  TRY_ASSIGN(const Buffer envelope, RealFilesystem().Read(arguments.Text("envelope"), 1 << 20));
  std::optional<PublicKey> own;
  TRY_ASSIGN(const std::string key_path, KeyPath(arguments));
  if (RealFilesystem().Exists(key_path)) {
    TRY_ASSIGN(const SigningKey key, SigningKey::Load(key_path));
    own = key.public_key();
  }
  const std::string quarantine = (std::filesystem::path(path).parent_path() / "quarantine.toml").string();
  const cache::Trust trust({path, quarantine, own}, SystemClock());
  Judgement judgement = trust.JudgeEnvelope(envelope);
  if (const std::string artifact = arguments.Text("--artifact"); !artifact.empty()) {
    TRY_ASSIGN(const Buffer bytes, RealFilesystem().Read(artifact, kArtifactBytesMax));
    judgement = JudgeArtifact(std::move(judgement), bytes);
  }
  const std::string_view verdict = NameOf(judgement.verdict);
  Json answer = {{"verdict", verdict},
                 {"text", judgement.text},
                 {"provenance", judgement.provenance ? ProvenanceJson(*judgement.provenance) : Json()}};
  if (!PrintedJson(arguments, answer) && judgement.trusted()) fmt::print("{}: {}\n", verdict, judgement.text);
  if (judgement.trusted()) return {};
  return Error(CodeOf(judgement.verdict),
               fmt::format("{}: {}{}", verdict, judgement.text,
                           judgement.verdict == Verdict::kAwaitsArtifact
                               ? "; give the artifact with --artifact to have its bytes checked"
                               : ""));
}

Status RunRecall(Session& session, const Arguments& arguments) {
  TRY_ASSIGN(const Json answer, session.Ask("recall"));
  if (PrintedJson(arguments, answer)) return {};
  const Json& cluster = answer["cluster"];
  fmt::print("here: {} variants of {} entries and {} graphs taken back\n", answer["variants"].get<uint64_t>(),
             answer["entries"].get<uint64_t>(), answer["graphs"].get<uint64_t>());
  fmt::print("shared: {} of {} records changed, {} deleted, {} artifacts deleted\n",
             cluster["records_changed"].get<uint64_t>(), cluster["records_read"].get<uint64_t>(),
             cluster["records_deleted"].get<uint64_t>(), cluster["blobs"].get<uint64_t>());
  if (cluster["unreadable"] != 0) {
    fmt::print("{} shared records could not be read and were left alone\n", cluster["unreadable"].get<uint64_t>());
  }
  if (cluster["contended"] != 0) return Error(Code::kUnavailable, "others wrote meanwhile: run it again");
  return {};
}

}  // namespace

std::vector<Verb> TrustVerbs() {
  const Parameter file = {"--file", "The trust file (~/.config/ingot/trust.toml)", Parameter::kOptional};
  const Parameter private_key = {"--private-key", "File of the private key (~/.config/ingot/signing.key)",
                                 Parameter::kOptional};
  const Parameter from = {"--from", "From this time on: 2026-01-31, or 2026-01-31T12:00:00Z", Parameter::kOptional};
  const Parameter until = {"--until", "Before this time", Parameter::kOptional};
  return {
      {"keygen",
       "Makes a private key and prints its public line",
       {{"name", "What people call the key"}, private_key},
       true,
       RunKeygen},
      {"add",
       "Trusts a public key, or the key that a rotation brings",
       {{"key", "The line, or a file that holds it"},
        {"--domain", "Domains it may write, by comma; made where they are not there (all)", Parameter::kOptional},
        {"--functions", "Patterns of the functions of a new domain, by comma (all)", Parameter::kOptional},
        from,
        until,
        file},
       true,
       RunAdd},
      {"list", "Keys, domains and revocations", {file}, true, RunList},
      {"revoke",
       "Serves nothing any more that fits all that is given",
       {{"--key", "Name or id of a key", Parameter::kOptional},
        {"--host", "What the builder calls its machine", Parameter::kOptional},
        {"--artifact", "Digest or SHA-256 of an artifact", Parameter::kOptional},
        {"--graph", "Graph key", Parameter::kOptional},
        from,
        until,
        {"--reason", "Why, for people", Parameter::kOptional},
        file},
       true,
       RunRevoke},
      {"recall", "Takes what is revoked out of this machine's store and the shared tiers", {}, true, RunRecall},
      {"rotate",
       "Makes a key that follows the private key, and prints what readers add",
       {{"name", "What people call the new key"},
        {"--from", "When the new key begins (now)", Parameter::kOptional},
        {"--old-until", "When the old key ends (30 days later)", Parameter::kOptional},
        {"--new-private-key", "File of the new key (NAME.key beside the old one)", Parameter::kOptional},
        private_key},
       true,
       RunRotate},
      {"show", "What an envelope, a key or a rotation says", {{"file", "The file, or the line"}}, true, RunShow},
      {"check",
       "Judges an envelope by the trust file",
       {{"envelope", "File of the envelope"},
        {"--artifact", "File of the artifact that it is for", Parameter::kOptional},
        file,
        private_key},
       true,
       RunCheck},
  };
}

}  // namespace ingot::tools
