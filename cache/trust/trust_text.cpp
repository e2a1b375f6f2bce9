// SPDX-License-Identifier: Apache-2.0
#include "cache/trust/trust_text.h"

#include <fmt/format.h>

#include <toml++/toml.h>
#include <algorithm>
#include <chrono>

#include "cache/trust/field_reader.h"

namespace ingot::cache {
namespace {

Result<toml::table> ParseToml(std::string_view text, const std::string& file) {
  try {
    return toml::parse(text);
  } catch (const toml::parse_error& error) {
    return Error(Code::kInvalid, fmt::format("{}, line {}: {}", file, error.source().begin.line, error.description()));
  }
}

}  // namespace

/// Reads a trust file's text into a policy. Words that begin with x- are anybody's; all others must be known.
class PolicyReader {
 public:
  explicit PolicyReader(std::string file) : file_(std::move(file)) {}

  Status Read(std::string_view text, bool may_trust, TrustPolicy& out) {
    TRY_ASSIGN(const toml::table root, ParseToml(text, file_));
    const toml::node* const version = root.get("version");
    if (version == nullptr || version->value_exact<int64_t>() != 1) {
      return Error(version == nullptr ? Code::kInvalid : Code::kIncompatible,
                   file_ + ": does not say 'version = 1', which is what this build reads");
    }
    for (const auto& [word, node] : root) {
      const std::string_view name = word.str();
      if (name == "version" || name.starts_with("x-")) continue;
      if (name == "revocation") {
        TRY(EachTable(node, name, [&](const toml::table& table) { return ReadRevocation(table, out); }));
      } else if (may_trust && name == "domain") {
        TRY(EachTable(node, name, [&](const toml::table& table) { return ReadDomain(table, out); }));
      } else if (may_trust && name == "key") {
        TRY(EachTable(node, name, [&](const toml::table& table) { return ReadKey(table, out); }));
      } else if (may_trust && name == "rotation") {
        TRY(EachTable(node, name, [&](const toml::table& table) { return ReadRotation(table, out); }));
      } else {
        return Fail(node, fmt::format("'{}' is {}; words of your own begin with x-", name,
                                      may_trust ? "none of version, key, rotation, domain, revocation"
                                                : "no version or revocation, and a quarantine file only revokes"));
      }
    }
    for (const TrustedKey& key : out.keys_) {
      for (const std::string& domain : key.domains) {
        const bool is_there = std::any_of(out.domains_.begin(), out.domains_.end(),
                                          [&](const Domain& other) { return other.name == domain; });
        if (!is_there) {
          return Error(Code::kInvalid,
                       fmt::format("{}: key {} is for domain '{}', which is not there", file_, key.key.name, domain));
        }
      }
    }
    return {};
  }

  static void Finish(TrustPolicy& out, std::optional<PublicKey> own) {
    out.own_ = std::move(own);
    out.FollowRotations();
  }

 private:
  Error Fail(const toml::node& node, const std::string& what) const {
    return Error(Code::kInvalid, fmt::format("{}, line {}: {}", file_, node.source().begin.line, what));
  }

  template <typename Fn>
  Status EachTable(const toml::node& node, std::string_view name, const Fn& read) {
    const toml::array* const tables = node.as_array();
    if (tables == nullptr) return Fail(node, fmt::format("write [[{}]]", name));
    for (const toml::node& element : *tables) {
      if (!element.is_table()) return Fail(element, fmt::format("write [[{}]]", name));
      TRY(read(*element.as_table()));
    }
    return {};
  }

  /// The values of a table's words; a word that no Take has asked for is refused by Rest.
  class Words {
   public:
    Words(const PolicyReader& reader, const toml::table& table) : reader_(reader), table_(table) {}

    const toml::node* Find(std::string_view name) {
      taken_.emplace_back(name);
      return table_.get(name);
    }
    Status Text(std::string_view name, std::string& out) {
      const toml::node* const node = Find(name);
      if (node == nullptr) return {};
      const std::optional<std::string> text = node->value_exact<std::string>();
      if (!text || !IsPlainText(*text)) return reader_.Fail(*node, fmt::format("'{}' is no plain text", name));
      out = *text;
      return {};
    }
    Status Texts(std::string_view name, std::vector<std::string>& out) {
      const toml::node* const node = Find(name);
      if (node == nullptr) return {};
      const Error wrong = reader_.Fail(*node, fmt::format("'{}' is no list of plain texts", name));
      if (!node->is_array()) return wrong;
      for (const toml::node& element : *node->as_array()) {
        const std::optional<std::string> text = element.value_exact<std::string>();
        if (!text || !IsPlainText(*text)) return wrong;
        out.push_back(*text);
      }
      // An empty list would be "none" to who wrote it, and "all" to who reads it.
      if (out.empty()) return reader_.Fail(*node, fmt::format("'{}' is empty: leave it out where all are meant", name));
      return {};
    }
    Status Time(std::string_view name, int64_t& out) {
      const toml::node* const node = Find(name);
      if (node == nullptr) return {};
      const std::optional<int64_t> time = SecondsOf(*node);
      if (!time) {
        return reader_.Fail(*node, fmt::format("'{}' is no time: write 2026-01-31T12:00:00Z, or 2026-01-31", name));
      }
      out = *time;
      return {};
    }
    Status Range(TimeRange& out) {
      TRY(Time("from", out.from_s));
      TRY(Time("until", out.until_s));
      if (out.from_s >= out.until_s) return reader_.Fail(table_, "'until' is not after 'from'");
      return {};
    }
    Status Rest() const {
      for (const auto& [word, node] : table_) {
        const std::string_view name = word.str();
        if (name.starts_with("x-") || std::find(taken_.begin(), taken_.end(), name) != taken_.end()) continue;
        return reader_.Fail(node, fmt::format("'{}' is not known here ({}); words of your own begin with x-", name,
                                              fmt::join(taken_, ", ")));
      }
      return {};
    }

   private:
    const PolicyReader& reader_;
    const toml::table& table_;
    std::vector<std::string> taken_;
  };

 public:
  static std::optional<int64_t> SecondsOf(const toml::node& node) {
    const auto days = [](const toml::date& date) {
      return std::chrono::sys_days(std::chrono::year(date.year) / date.month / date.day).time_since_epoch().count();
    };
    if (const auto date = node.value_exact<toml::date>()) return int64_t{days(*date)} * 86'400;
    const auto time = node.value_exact<toml::date_time>();
    // Without an offset it would be another time on each machine.
    if (!time || !time->offset) return std::nullopt;
    return int64_t{days(time->date)} * 86'400 + time->time.hour * 3600 + time->time.minute * 60 + time->time.second -
           time->offset->minutes * 60;
  }

 private:
  Status ReadKey(const toml::table& table, TrustPolicy& out) {
    Words words(*this, table);
    std::string line;
    TrustedKey key;
    TRY(words.Text("public", line));
    TRY(words.Texts("domains", key.domains));
    TRY(words.Range(key.built));
    TRY(words.Rest());
    Result<PublicKey> read = PublicKey::FromLine(line);
    if (!read) return Fail(table, read.error().message());
    key.key = std::move(*read);
    if (out.Find(key.key.id()) != nullptr) {
      return Fail(table, fmt::format("key {} ({}) is listed twice", key.key.name, key.key.id().ToHex()));
    }
    out.keys_.push_back(std::move(key));
    return {};
  }

  Status ReadRotation(const toml::table& table, TrustPolicy& out) {
    Words words(*this, table);
    std::string line;
    TRY(words.Text("statement", line));
    TRY(words.Rest());
    Result<Rotation> read = Rotation::FromLine(line);
    if (!read) return Fail(table, read.error().message());
    out.rotations_.push_back(std::move(*read));
    return {};
  }

  Status ReadDomain(const toml::table& table, TrustPolicy& out) {
    Words words(*this, table);
    Domain domain;
    TRY(words.Text("name", domain.name));
    TRY(words.Texts("functions", domain.functions));
    TRY(words.Texts("groups", domain.groups));
    TRY(words.Texts("targets", domain.targets));
    if (const toml::node* const node = words.Find("this_host_only")) {
      const std::optional<bool> only = node->value_exact<bool>();
      if (!only) return Fail(*node, "'this_host_only' is neither true nor false");
      domain.this_host_only = *only;
    }
    if (const toml::node* const node = words.Find("age_max_days")) {
      const std::optional<int64_t> days = node->value_exact<int64_t>();
      if (!days || *days < 1 || *days > 36'500) return Fail(*node, "'age_max_days' is no number from 1 to 36500");
      domain.age_max_s = *days * 86'400;
    }
    TRY(words.Rest());
    if (domain.name.empty()) return Fail(table, "a domain has a 'name'");
    for (const Domain& other : out.domains_) {
      if (other.name == domain.name) return Fail(table, fmt::format("domain '{}' is there twice", domain.name));
    }
    out.domains_.push_back(std::move(domain));
    return {};
  }

  template <typename T>
  Status ReadName(Words& words, const toml::table& table, std::string_view name, std::optional<T>& out) {
    std::string hex;
    TRY(words.Text(name, hex));
    if (!table.contains(name)) return {};
    const Result<T> read = T::FromHex(hex);
    if (!read) return Fail(table, fmt::format("'{}': {}", name, read.error().message()));
    out = *read;
    return {};
  }

  Status ReadRevocation(const toml::table& table, TrustPolicy& out) {
    Words words(*this, table);
    Revocation revocation;
    TRY(ReadName(words, table, "key", revocation.key));
    TRY(words.Text("host", revocation.host));
    if (table.contains("host") && revocation.host.empty()) return Fail(table, "'host' is empty");
    TRY(ReadName(words, table, "artifact", revocation.artifact));
    TRY(ReadName(words, table, "artifact_sha256", revocation.artifact_sha256));
    TRY(ReadName(words, table, "graph", revocation.graph));
    TRY(words.Range(revocation.built));
    TRY(words.Text("reason", revocation.reason));
    TRY(words.Time("when", revocation.when_s));
    TRY(words.Rest());
    if (!revocation.SaysSomething()) {
      return Fail(table, "a revocation says what: key, host, artifact, artifact_sha256, graph, from or until");
    }
    out.revocations_.push_back(std::move(revocation));
    return {};
  }

  const std::string file_;
};

namespace {

/// A TOML string.
std::string Quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

std::string QuotedList(const std::vector<std::string>& texts) {
  std::string out;
  for (const std::string& text : texts) out += (out.empty() ? "" : ", ") + Quoted(text);
  return "[" + out + "]";
}

std::string RangeText(const TimeRange& range) {
  std::string out;
  if (range.from_s != TimeRange().from_s) out += fmt::format("from = {}\n", TimeText(range.from_s));
  if (range.until_s != TimeRange().until_s) out += fmt::format("until = {}\n", TimeText(range.until_s));
  return out;
}

/// `text` with a table at its end.
std::string Append(std::string text, std::string_view table) {
  if (!text.empty() && !text.ends_with('\n')) text += '\n';
  if (!text.empty()) text += '\n';
  return text.append(table);
}

/// Where the first [[domain]] and the comment above it begin, or nothing.
std::optional<size_t> StartOfDomains(std::string_view text) {
  const Result<toml::table> parsed = ParseToml(text, "trust file");
  if (!parsed || !parsed->contains("domain")) return std::nullopt;
  const toml::array* const domains = parsed->get("domain")->as_array();
  if (domains == nullptr || domains->empty()) return std::nullopt;
  std::vector<size_t> starts = {0};
  for (size_t at = 0; (at = text.find('\n', at)) != text.npos;) starts.push_back(++at);
  size_t line = domains->front().source().begin.line - 1;
  while (line > 0 && text.substr(starts[line - 1]).starts_with('#')) --line;
  return starts[line];
}

Result<std::string> Checked(std::string text) {
  TRY(TrustPolicy::Parse(text));
  return text;
}

}  // namespace

Result<TrustPolicy> TrustPolicy::Parse(std::string_view text, std::string_view quarantine,
                                       std::optional<PublicKey> own) {
  TrustPolicy out;
  TRY(PolicyReader("trust file").Read(text, /*may_trust=*/true, out));
  if (!quarantine.empty()) TRY(PolicyReader("quarantine file").Read(quarantine, /*may_trust=*/false, out));
  Hasher hasher;
  hasher.AddField(text);
  hasher.AddField(quarantine);
  hasher.AddField(own ? own->ToLine() : "");
  out.digest_ = hasher.Finish();
  PolicyReader::Finish(out, std::move(own));
  return out;
}

Result<std::string> WithKey(std::string_view text, std::string_view line, const std::vector<std::string>& domains,
                            const std::vector<std::string>& functions, const TimeRange& built) {
  TRY_ASSIGN(const TrustPolicy policy, TrustPolicy::Parse(text));
  std::string out(text);
  if (line.starts_with("ingot-rotation")) {
    TRY_ASSIGN(const Rotation rotation, Rotation::FromLine(line));
    if (!domains.empty() || !functions.empty() || !built.IsAll()) {
      return Error(Code::kInvalid, "a rotation gives the new key what the old one has: leave out domains and times");
    }
    if (policy.Find(rotation.old_key) == nullptr) {
      return Error(Code::kNotFound, fmt::format("the rotation is signed by key {}, which is not in the trust file: "
                                                "add the new key by its own line where you trust it",
                                                rotation.old_key.ToHex()));
    }
    out = Append(std::move(out), fmt::format("[[rotation]]\nstatement = {}\n", Quoted(rotation.ToLine())));
    TRY_ASSIGN(const TrustPolicy after, TrustPolicy::Parse(out));
    if (after.warnings().size() > policy.warnings().size()) return Error(Code::kInvalid, after.warnings().back());
    return out;
  }
  TRY_ASSIGN(const PublicKey key, PublicKey::FromLine(line));
  for (const std::string& name : domains) {
    const bool is_there = std::any_of(policy.domains().begin(), policy.domains().end(),
                                      [&](const Domain& domain) { return domain.name == name; });
    if (is_there && !functions.empty()) {
      return Error(Code::kInvalid, fmt::format("domain '{}' is there already: change its functions in the file", name));
    }
    if (is_there) continue;
    std::string table = fmt::format("[[domain]]\nname = {}\n", Quoted(name));
    if (!functions.empty()) table += fmt::format("functions = {}\n", QuotedList(functions));
    const std::optional<size_t> first = functions.empty() ? std::nullopt : StartOfDomains(out);
    if (first) {
      out.insert(*first, table + "\n");
    } else {
      out = Append(std::move(out), table);
    }
  }
  std::string table = fmt::format("[[key]]\npublic = {}\n", Quoted(key.ToLine()));
  if (!domains.empty()) table += fmt::format("domains = {}\n", QuotedList(domains));
  return Checked(Append(std::move(out), table + RangeText(built)));
}

Result<std::string> WithRevocation(std::string_view text, const Revocation& revocation) {
  TRY(TrustPolicy::Parse(text));
  std::string table = "[[revocation]]\n";
  const auto add = [&](std::string_view name, const std::string& value) {
    if (!value.empty()) table += fmt::format("{} = {}\n", name, Quoted(value));
  };
  add("key", revocation.key ? revocation.key->ToHex() : "");
  add("host", revocation.host);
  add("artifact", revocation.artifact ? revocation.artifact->ToHex() : "");
  add("artifact_sha256", revocation.artifact_sha256 ? revocation.artifact_sha256->ToHex() : "");
  add("graph", revocation.graph ? revocation.graph->ToHex() : "");
  table += RangeText(revocation.built);
  add("reason", revocation.reason);
  table += fmt::format("when = {}\n", TimeText(revocation.when_s));
  return Checked(Append(std::string(text), table));
}

std::string EmptyTrustText() {
  return "# Who may write what this machine runs: `ingot trust`, docs/trust.md.\nversion = 1\n";
}

Result<int64_t> TimeFromText(std::string_view text) {
  const Result<toml::table> parsed = ParseToml(fmt::format("time = {}\n", text), "time");
  if (parsed && parsed->size() == 1) {
    if (const std::optional<int64_t> time = PolicyReader::SecondsOf(*parsed->get("time"))) return *time;
  }
  return Error(Code::kInvalid, fmt::format("'{}' is no time: write 2026-01-31, or 2026-01-31T12:00:00Z", text));
}

}  // namespace ingot::cache
