// SPDX-License-Identifier: Apache-2.0
#include "cache/s3/s3_credentials.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "base/bytes.h"
#include "base/filesystem.h"

namespace ingot::cache {
namespace {

constexpr uint64_t kFileBytesMax = 1u << 20;

std::string_view WithoutSpaces(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

std::string Variable(const Environment& environment, const char* name) { return environment(name).value_or(""); }

std::string HomeFile(const Environment& environment, const char* variable, const char* name) {
  std::string path = Variable(environment, variable);
  if (!path.empty()) return path;
  const std::string home = Variable(environment, "HOME");
  return home.empty() ? "" : home + "/.aws/" + name;
}

std::string ProfileName(const S3Account& account, const Environment& environment) {
  if (!account.profile.empty()) return account.profile;
  const std::string name = Variable(environment, "AWS_PROFILE");
  return name.empty() ? "default" : name;
}

Result<ProfileSections> ReadProfiles(const std::string& path) {
  TRY_ASSIGN(const Buffer bytes, RealFilesystem().Read(path, kFileBytesMax));
  Result<ProfileSections> sections = ParseProfiles(AsText(bytes));
  if (!sections) return std::move(sections).error().Wrap(path);
  return sections;
}

Status CheckPrivate(const std::string& path) {
  struct stat facts;
  if (stat(path.c_str(), &facts) != 0) return ErrorFromErrno(errno, "stat " + path);
  if ((facts.st_mode & 077) != 0) {
    return Error(Code::kInvalid, fmt::format("{} holds credentials and has mode {:04o}, so that others can read it; "
                                             "chmod 600 {}",
                                             path, facts.st_mode & 07777, path));
  }
  if (facts.st_uid != geteuid() && facts.st_uid != 0) {
    return Error(Code::kInvalid,
                 fmt::format("{} holds credentials and belongs to user {}, not to you", path, facts.st_uid));
  }
  return {};
}

/// The credentials of a section; nothing where it has none.
Result<std::optional<S3Credentials>> OfSection(const ProfileSections& sections, const std::string& section,
                                               const std::string& source) {
  const auto at = sections.find(section);
  if (at == sections.end()) return std::optional<S3Credentials>();
  const auto value = [&](const char* name) {
    const auto found = at->second.find(name);
    return found == at->second.end() ? std::string() : found->second;
  };
  S3Credentials out{value("aws_access_key_id"), Secret(value("aws_secret_access_key")),
                    Secret(value("aws_session_token")), source};
  if (out.access_key.empty() && out.secret.empty()) return std::optional<S3Credentials>();
  if (out.access_key.empty() || out.secret.empty()) {
    return Error(Code::kInvalid, fmt::format("{} has only one of aws_access_key_id and aws_secret_access_key", source));
  }
  return std::optional(std::move(out));
}

}  // namespace

std::optional<std::string> ProcessEnvironment(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr) return std::nullopt;
  return value;
}

Result<ProfileSections> ParseProfiles(std::string_view text) {
  ProfileSections sections;
  std::map<std::string, std::string>* section = nullptr;
  for (size_t at = 0, number = 1; at < text.size(); ++number) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    at = end + 1;
    const std::string_view trimmed = WithoutSpaces(line);
    if (trimmed.empty() || trimmed[0] == '#' || trimmed[0] == ';') continue;
    if (trimmed[0] == '[') {
      const auto close = trimmed.find(']');
      if (close == std::string_view::npos) return Error(Code::kInvalid, fmt::format("line {}: no ] after [", number));
      section = &sections[std::string(WithoutSpaces(trimmed.substr(1, close - 1)))];
      continue;
    }
    // Settings of one service stand indented under its name.
    if (line[0] == ' ' || line[0] == '\t') continue;
    const auto equals = trimmed.find('=');
    if (equals == std::string_view::npos || section == nullptr) {
      return Error(Code::kInvalid, fmt::format("line {}: neither [section] nor name = value", number));
    }
    (*section)[std::string(WithoutSpaces(trimmed.substr(0, equals)))] = WithoutSpaces(trimmed.substr(equals + 1));
  }
  return sections;
}

Result<S3Credentials> FindCredentials(const S3Account& account, const Environment& environment) {
  const std::string profile = ProfileName(account, environment);
  if (!account.credentials_file.empty()) {
    TRY(CheckPrivate(account.credentials_file));
    TRY_ASSIGN(const ProfileSections sections, ReadProfiles(account.credentials_file));
    const std::string source = fmt::format("profile {} of {}", profile, account.credentials_file);
    TRY_ASSIGN(std::optional<S3Credentials> found, OfSection(sections, profile, source));
    if (found) return *std::move(found);
    return Error(Code::kInvalid, fmt::format("{} has no profile {} with aws_access_key_id and aws_secret_access_key",
                                             account.credentials_file, profile));
  }
  const std::string key = Variable(environment, "AWS_ACCESS_KEY_ID");
  const std::string secret = Variable(environment, "AWS_SECRET_ACCESS_KEY");
  // Who asks for a profile means it.
  if (account.profile.empty() && !(key.empty() && secret.empty())) {
    if (key.empty() || secret.empty()) {
      return Error(Code::kInvalid, "the environment has only one of AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY");
    }
    return S3Credentials{key, Secret(secret), Secret(Variable(environment, "AWS_SESSION_TOKEN")), "the environment"};
  }
  const std::string shared = HomeFile(environment, "AWS_SHARED_CREDENTIALS_FILE", "credentials");
  const std::string config = HomeFile(environment, "AWS_CONFIG_FILE", "config");
  for (const auto& [path, section] :
       {std::pair(shared, profile), std::pair(config, profile == "default" ? profile : "profile " + profile)}) {
    if (path.empty() || !RealFilesystem().Exists(path)) continue;
    TRY_ASSIGN(const ProfileSections sections, ReadProfiles(path));
    TRY_ASSIGN(std::optional<S3Credentials> found,
               OfSection(sections, section, fmt::format("profile {} of {}", profile, path)));
    if (found) return *std::move(found);
  }
  return Error(
      Code::kInvalid,
      fmt::format("no S3 credentials: neither AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment nor "
                  "profile {} in {} or {}",
                  profile, shared, config));
}

std::string FindRegion(const S3Account& account, const Environment& environment) {
  for (const char* name : {"AWS_REGION", "AWS_DEFAULT_REGION"}) {
    std::string region = Variable(environment, name);
    if (!region.empty()) return region;
  }
  const std::string profile = ProfileName(account, environment);
  const std::string config = HomeFile(environment, "AWS_CONFIG_FILE", "config");
  if (!config.empty() && RealFilesystem().Exists(config)) {
    if (const Result<ProfileSections> sections = ReadProfiles(config)) {
      const auto section = sections->find(profile == "default" ? profile : "profile " + profile);
      if (section != sections->end()) {
        const auto region = section->second.find("region");
        if (region != section->second.end() && !region->second.empty()) return region->second;
      }
    }
  }
  return "us-east-1";
}

}  // namespace ingot::cache
