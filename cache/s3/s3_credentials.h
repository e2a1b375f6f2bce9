// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/secret.h"

namespace ingot::cache {

/// Who asks an S3 store.
struct S3Credentials {
  std::string access_key;
  Secret secret;
  /// Of temporary credentials; empty otherwise.
  Secret token;
  /// In words, without anything secret: "the environment", "profile ci of /home/u/.aws/credentials".
  std::string source;
};

/// A variable of the environment.
using Environment = std::function<std::optional<std::string>(const char*)>;
std::optional<std::string> ProcessEnvironment(const char* name);

struct S3Account {
  /// A file as ~/.aws/credentials that only its owner can read. Empty: the usual places.
  std::string credentials_file;
  /// Empty: AWS_PROFILE, or "default".
  std::string profile;
};

/// Sections of a file as ~/.aws/credentials, and their values by name.
using ProfileSections = std::map<std::string, std::map<std::string, std::string>>;
/// kInvalid, naming the line but nothing of it: it is neither a section, a value, a comment nor indented.
Result<ProfileSections> ParseProfiles(std::string_view text);

/// From account.credentials_file or else, the first that has any: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and
/// AWS_SESSION_TOKEN; the profile in AWS_SHARED_CREDENTIALS_FILE or ~/.aws/credentials; the profile in AWS_CONFIG_FILE
/// or ~/.aws/config. kInvalid: none, half of them, a file that others can read or that cannot be read.
Result<S3Credentials> FindCredentials(const S3Account& account, const Environment& environment = ProcessEnvironment);
/// From AWS_REGION, AWS_DEFAULT_REGION, or the profile in the configuration file; else "us-east-1".
std::string FindRegion(const S3Account& account, const Environment& environment = ProcessEnvironment);

}  // namespace ingot::cache
