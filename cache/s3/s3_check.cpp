// SPDX-License-Identifier: Apache-2.0
#include "cache/s3/s3_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>

#include "cache/s3/payload_hash.h"
#include "cache/s3/s3_xml.h"
#include "cache/trust/sha256.h"

namespace ingot::cache {
namespace {

constexpr std::string_view kCheckText = "ingot checks what this server can do";

/// A small object of no meaning.
S3Request CheckObject(const S3Client& client) {
  const auto owner = std::make_shared<const std::string>(kCheckText);
  S3Request put;
  put.method = "PUT";
  put.key =
      client.KeyOf(fmt::format("checks/{:016x}", std::random_device()() | uint64_t{std::random_device()()} << 32));
  put.body = AsBytes(*owner);
  put.body_owner = owner;
  put.fields.emplace_back("Content-Type", "application/octet-stream");
  return put;
}

/// What a server says to a write under a condition.
enum class Answer : uint8_t { kWritten, kDoesNotHold, kUnknown };

/// `put` must be one that is taken without the condition. An error where nobody said anything about the condition:
/// nothing is known then.
Task<Answer> TryCondition(S3Client& client, S3Request put, const char* field, std::string value, Until until) {
  S3Request asked = put;
  asked.fields.emplace_back(field, std::move(value));
  CO_TRY_ASSIGN(const HttpResponse response, co_await client.Send(asked, until));
  if (response.head.is_success()) co_return Answer::kWritten;
  if (response.head.status == 412) co_return Answer::kDoesNotHold;
  if (!MayBeUnknown(response)) co_return client.ErrorOf(asked, response);
  // It was the condition where the same write is taken without it.
  CO_TRY_ASSIGN(const HttpResponse plain, co_await client.Send(put, until));
  if (!plain.head.is_success()) co_return client.ErrorOf(put, plain);
  co_return Answer::kUnknown;
}

/// `put` has been written once. Learns all or, with an error, nothing.
Task<void> TryConditions(S3Client& client, S3Request put, S3Abilities& out, Until until) {
  CO_TRY_ASSIGN(const Answer absent, co_await TryCondition(client, put, "If-None-Match", "*", until));
  const std::string nobodys = "\"00000000000000000000000000000000\"";
  CO_TRY_ASSIGN(const Answer other, co_await TryCondition(client, put, "If-Match", nobodys, until));
  bool takes_right_one = false;
  // Twice: the first may have been done, given the object another tag, and been sent again since its answer was lost.
  for (int i = 0; i < 2 && other == Answer::kDoesNotHold && !takes_right_one; ++i) {
    S3Request look;
    look.method = "HEAD";
    look.key = put.key;
    CO_TRY_ASSIGN(const HttpResponse head, co_await client.Send(look, until));
    if (!head.head.is_success()) co_return client.ErrorOf(look, head);
    const std::string tag(head.head.Get("etag"));
    if (tag.empty()) break;
    CO_TRY_ASSIGN(const Answer same, co_await TryCondition(client, put, "If-Match", tag, until));
    takes_right_one = same == Answer::kWritten;
  }
  out.has_conditional_put = absent == Answer::kDoesNotHold;
  out.has_conditional_replace = takes_right_one;
  client.LearnConditions(out.has_conditional_put);
  co_return Status();
}

void Say(S3Abilities& out, bool holds, const std::string& what, const std::string& otherwise) {
  out.lines.push_back(holds ? what + ": yes" : what + ": no; " + otherwise);
}

std::string WhyNot(const S3Client& client, const S3Request& asked, const Result<HttpResponse>& response) {
  if (!response) return response.error().message();
  if (response->head.is_success()) return "other bytes came back than were written";
  return client.ErrorOf(asked, *response).message();
}

// The steps of CheckS3 once `put` has been written. Errors are only those of `until`.

Task<void> TryReading(S3Client& client, S3Request put, S3Abilities& out, Until until) {
  const std::string text(kCheckText);
  S3Request get;
  get.key = put.key;
  Result<HttpResponse> read = co_await client.Send(get, until);
  CO_TRY(until.Check());
  out.can_read = read && read->head.is_success() && AsText(read->body) == text;
  Say(out, out.can_read, "read", WhyNot(client, get, read));

  get.fields.emplace_back("Range", "bytes=6-11");
  Result<HttpResponse> range = co_await client.Send(get, until);
  CO_TRY(until.Check());
  out.has_ranges = range && range->head.status == 206 && AsText(range->body) == text.substr(6, 6);
  Say(out, out.has_ranges, "ranges", "objects are read in one piece");
  co_return Status();
}

/// Whether a right SHA-256 is taken; nullopt: one of the requests was not answered.
Task<std::optional<bool>> TryChecksums(S3Client& client, S3Request put, S3Abilities& out, Until until) {
  S3Request wrong = put;
  const std::string other = "ingot checks what this server can dO";
  wrong.body_sha256 = Sha256Of(AsBytes(other)).ToHex();
  Result<HttpResponse> hash = co_await client.Send(wrong, until);
  CO_TRY(until.Check());
  out.checks_signed_hash = hash && hash->head.status >= 400 && hash->head.status < 500;
  wrong = put;
  wrong.fields.emplace_back("x-amz-checksum-sha256", Base64Of(Sha256Of(AsBytes(other)).view()));
  Result<HttpResponse> sha256 = co_await client.Send(wrong, until);
  CO_TRY(until.Check());
  out.checks_sha256 = sha256 && sha256->head.status == 400;
  wrong = put;
  wrong.fields.emplace_back("Content-MD5", Md5Base64(AsBytes(other)));
  Result<HttpResponse> md5 = co_await client.Send(wrong, until);
  CO_TRY(until.Check());
  out.checks_md5 = md5 && md5->head.status == 400;
  // A right one must be taken, or it is of no use.
  S3Request right = put;
  right.fields.emplace_back("x-amz-checksum-sha256", Base64Of(Sha256Of(put.body).view()));
  Result<HttpResponse> taken = co_await client.Send(right, until);
  CO_TRY(until.Check());
  const bool takes_sha256 = taken && taken->head.is_success();
  out.checks_sha256 = out.checks_sha256 && takes_sha256;
  out.lines.push_back(fmt::format(
      "refuses bodies that were damaged on their way: by the signature {}, by x-amz-checksum-sha256 {}, "
      "by Content-MD5 {}",
      out.checks_signed_hash ? "yes" : "no", out.checks_sha256 ? "yes" : "no", out.checks_md5 ? "yes" : "no"));
  std::optional<bool> answer;
  if (hash && sha256 && md5 && taken) answer = takes_sha256;
  co_return answer;
}

Task<void> TryUpload(S3Client& client, S3Request put, S3Abilities& out, Until until) {
  S3Request upload;
  upload.method = "POST";
  upload.key = put.key;
  upload.query = "uploads=";
  Result<HttpResponse> begun = co_await client.Send(upload, until);
  CO_TRY(until.Check());
  if (begun && begun->head.is_success()) {
    const Result<XmlElement> xml = ParseXml(AsText(begun->body));
    S3Request end;
    end.method = "DELETE";
    end.key = put.key;
    end.query = "uploadId=" + EncodeForUrl(xml ? xml->TextOf("UploadId") : "", false);
    Result<HttpResponse> ended = co_await client.Send(end, until);
    CO_TRY(until.Check());
    out.has_multipart = ended && ended->head.is_success();
  }
  Say(out, out.has_multipart, "uploads in parts",
      fmt::format("blobs above {} MiB cannot be stored", client.options().multipart_bytes_min >> 20));
  co_return Status();
}

Task<void> TryListing(S3Client& client, S3Request put, S3Abilities& out, Until until) {
  S3Request list;
  list.query = fmt::format("list-type=2&max-keys=1&prefix={}", EncodeForUrl(put.key, false));
  Result<HttpResponse> listed = co_await client.Send(list, until);
  CO_TRY(until.Check());
  if (listed && listed->head.is_success()) {
    const Result<XmlElement> xml = ParseXml(AsText(listed->body));
    out.can_list = xml && std::ranges::any_of(xml->children, [&](const XmlElement& row) {
                     return row.name == "Contents" && row.TextOf("Key") == put.key;
                   });
  }
  Say(out, out.can_list, "list", "allow s3:ListBucket; what is missing looks forbidden without it");
  co_return Status();
}

}  // namespace

Task<S3Abilities> CheckS3Conditions(S3Client& client, Until until) {
  S3Abilities out;
  const S3Request put = CheckObject(client);
  CO_TRY_ASSIGN(const HttpResponse written, co_await client.Send(put, until));
  if (!written.head.is_success()) co_return client.ErrorOf(put, written);
  const Status tried = co_await TryConditions(client, put, out, until);
  S3Request remove;
  remove.method = "DELETE";
  remove.key = put.key;
  client.SendUnheard(remove);
  CO_TRY(tried);
  co_return out;
}

Task<S3Abilities> CheckS3(S3Client& client, Until until) {
  S3Abilities out;
  const S3Request put = CheckObject(client);
  // Each step: an answer, or the error as words. Only the end of `until` ends the check.
  Result<HttpResponse> written = co_await client.Send(put, until);
  CO_TRY(until.Check());
  out.can_write = written && written->head.is_success();
  Say(out, out.can_write, "write", WhyNot(client, put, written));
  if (!out.can_write) co_return out;

  CO_TRY(co_await TryReading(client, put, out, until));
  const Status tried = co_await TryConditions(client, put, out, until);
  CO_TRY(until.Check());
  if (tried) {
    Say(out, out.has_conditional_put, "conditional writes",
        "the server is asked before each write whether the object is there");
    Say(out, out.has_conditional_replace, "conditional replacement",
        "two who change a record of the index at once may lose what one of them wrote");
  } else {
    out.lines.push_back("conditional writes: not known; " + tried.error().message());
  }
  CO_TRY_ASSIGN(const std::optional<bool> takes_sha256, co_await TryChecksums(client, put, out, until));
  CO_TRY(co_await TryUpload(client, put, out, until));
  CO_TRY(co_await TryListing(client, put, out, until));

  S3Request remove;
  remove.method = "DELETE";
  remove.key = put.key;
  Result<HttpResponse> removed = co_await client.Send(remove, until);
  CO_TRY(until.Check());
  out.can_delete = removed && removed->head.is_success();
  Say(out, out.can_delete, "delete", WhyNot(client, remove, removed));

  // Where one of them was not answered, writes go as they did.
  if (takes_sha256) {
    client.LearnChecksums(*takes_sha256 && (out.checks_sha256 || !out.checks_signed_hash),
                          !out.checks_sha256 && !out.checks_signed_hash && out.checks_md5);
  }
  co_return out;
}

}  // namespace ingot::cache
