// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/until.h"
#include "cache/async/task.h"
#include "cache/s3/s3_client.h"

namespace ingot::cache {

/// What a server was seen to do with a small object of ours.
struct S3Abilities {
  bool can_write = false;
  bool can_read = false;
  bool can_delete = false;
  bool can_list = false;
  bool has_ranges = false;
  bool has_conditional_put = false;      ///< If-None-Match: * is honoured.
  bool has_conditional_replace = false;  ///< If-Match is honoured by writes.
  bool has_multipart = false;
  /// Refuses a body that is not what was announced, said in one of three ways.
  bool checks_signed_hash = false;
  bool checks_sha256 = false;
  bool checks_md5 = false;
  /// One line each for people; what does not work says why and what to do.
  std::vector<std::string> lines;

  /// All that Ingot cannot do without.
  bool is_enough() const { return can_write && can_read && can_delete; }
};

/// Tries the server with a small object under PREFIX/checks, which is gone afterwards; the client goes by what was
/// found from then on, and by what was not answered as before. Errors are only those of `until`: what does not work is
/// in the answer. `client` must live until the task has ended.
Task<S3Abilities> CheckS3(S3Client& client, Until until);
/// The part of it that is about conditions alone. An error, of those of S3Client::Send and ErrorOf, where one of its
/// requests was not answered: then nothing is learned.
Task<S3Abilities> CheckS3Conditions(S3Client& client, Until until);

}  // namespace ingot::cache
