// SPDX-License-Identifier: Apache-2.0
#include "cache/s3_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <ctime>
#include <random>

#include "base/clock.h"
#include "cache/payload_hash.h"
#include "cache/s3_xml.h"
#include "cache/sha256.h"
#include "cache/waiter.h"

namespace ingot::cache {
namespace {

constexpr size_t kListBytesMax = 4u << 20;
constexpr size_t kNamesOnAPage = 1000;
constexpr std::chrono::seconds kUnheardMax{10};
constexpr std::string_view kCheckText = "ingot checks what this server can do";

bool IsUnreserved(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
         c == '.' || c == '~';
}

bool IsLoopback(std::string_view host) { return host == "localhost" || host == "[::1]" || host.starts_with("127."); }

std::string_view ActionOf(std::string_view method) {
  if (method == "PUT" || method == "POST") return "s3:PutObject";
  if (method == "DELETE") return "s3:DeleteObject";
  return "s3:GetObject (and s3:ListBucket, without which what is missing looks forbidden)";
}

/// Whether the answer to a write may mean that the server does not know a field of it.
bool MayBeUnknown(const HttpResponse& response) {
  return response.head.status == 501 || (response.head.status == 400 && CodeOf(response) != "BadDigest");
}

std::vector<std::pair<std::string, std::string>> FieldsOfChecksum(Bytes body, bool by_sha256, bool by_md5) {
  if (by_sha256) return {{"x-amz-checksum-sha256", Base64Of(Sha256Of(body).view())}};
  if (by_md5) return {{"Content-MD5", Md5Base64(body)}};
  return {};
}

}  // namespace

std::string EncodeForUrl(std::string_view text, bool keeps_slashes) {
  std::string out;
  for (const char c : text) {
    if (IsUnreserved(c) || (keeps_slashes && c == '/')) {
      out += c;
    } else {
      out += fmt::format("%{:02X}", static_cast<uint8_t>(c));
    }
  }
  return out;
}

std::optional<int64_t> TimeOfText(const std::string& text) {
  std::tm time{};
  if (strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &time) == nullptr) return std::nullopt;
  return timegm(&time);
}

bool MayPass(int status) {
  return status == 408 || status == 429 || status == 500 || status == 502 || status == 503 || status == 504;
}

std::string CodeOf(const HttpResponse& response) {
  const Result<XmlElement> xml = ParseXml(AsText(response.body));
  return xml && xml->name == "Error" ? std::string(xml->TextOf("Code")) : "";
}

std::string PlainText(std::string_view text) {
  std::string out(text.substr(0, 300));
  for (char& c : out) {
    if (static_cast<uint8_t>(c) < ' ' || c == 127) c = ' ';
  }
  return out;
}

S3Client::S3Client(S3Options options, S3Credentials credentials, Environment environment)
    : options_(std::move(options)), environment_(std::move(environment)), credentials_(std::move(credentials)) {}

Result<std::unique_ptr<S3Client>> S3Client::Open(S3Options options, const Environment& environment) {
  while (options.endpoint.ends_with('/')) options.endpoint.pop_back();
  const bool is_plain = options.endpoint.starts_with("http://");
  if (!is_plain && !options.endpoint.starts_with("https://")) {
    return Error(Code::kInvalid, "the endpoint of an S3 store is https://HOST or https://HOST:PORT");
  }
  const std::string scheme = is_plain ? "http://" : "https://";
  const std::string host = options.endpoint.substr(scheme.size());
  if (host.empty() || host.find_first_of("/?#@ ") != std::string::npos) {
    return Error(Code::kInvalid,
                 "the endpoint of an S3 store is https://HOST or https://HOST:PORT, without path, "
                 "query, name or password");
  }
  if (is_plain && !options.is_plain_allowed && !IsLoopback(host)) {
    return Error(Code::kInvalid,
                 fmt::format("the endpoint {} is not encrypted, and {} is another machine; use https://, "
                             "or allow it by name",
                             options.endpoint, host));
  }
  if (options.bucket.empty() || options.bucket != EncodeForUrl(options.bucket, false)) {
    return Error(Code::kInvalid, fmt::format("\"{}\" is no name of a bucket", options.bucket));
  }
  while (options.prefix.starts_with('/')) options.prefix.erase(0, 1);
  while (options.prefix.ends_with('/')) options.prefix.pop_back();
  if (options.attempts_max == 0) return Error(Code::kInvalid, "attempts_max is 0: nothing would be asked");
  if (options.http.ca_file.empty()) options.http.ca_file = environment("AWS_CA_BUNDLE").value_or("");
  if (options.region.empty()) options.region = FindRegion(options.account, environment);
  TRY_ASSIGN(S3Credentials credentials, FindCredentials(options.account, environment));
  std::unique_ptr<S3Client> client(new S3Client(std::move(options), std::move(credentials), environment));
  const S3Options& o = client->options_;
  client->base_url_ = o.is_path_style ? o.endpoint + "/" + o.bucket : scheme + o.bucket + "." + host;
  client->place_ = fmt::format("{}/{}{}{}", o.endpoint, o.bucket, o.prefix.empty() ? "" : "/", o.prefix);
  TRY_ASSIGN(client->http_, HttpClient::Start(o.http));
  return client;
}

std::string S3Client::KeyOf(std::string_view rest) const {
  return fmt::format("{}{}{}", options_.prefix, options_.prefix.empty() ? "" : "/", rest);
}

std::string S3Client::UrlOf(const std::string& key, const std::string& query) const {
  return base_url_ + "/" + EncodeForUrl(key, true) + (query.empty() ? "" : "?" + query);
}

HttpRequest S3Client::Signed(const S3Request& asked) const {
  HttpRequest request;
  request.method = asked.method;
  request.url = UrlOf(asked.key, asked.query);
  request.fields = asked.fields;
  request.body = asked.body;
  request.body_owner = asked.body_owner;
  request.body_bytes_max = asked.answer_bytes_max;
  request.place = asked.place;
  request.fields.emplace_back("x-amz-content-sha256",
                              asked.body_sha256.empty() ? Sha256Of(asked.body).ToHex() : asked.body_sha256);
  MutexLock lock(mutex_);
  request.signature = HttpSignature{options_.region, "s3", credentials_.access_key, credentials_.secret};
  if (!credentials_.token.empty()) request.fields.emplace_back("x-amz-security-token", credentials_.token);
  return request;
}

Task<HttpResponse> S3Client::SendOnce(std::shared_ptr<const S3Request> asked, Until until, HttpProgress* progress) {
  ++requests_;
  HttpRequest request = Signed(*asked);
  bytes_written_ += request.body.size();
  Result<HttpResponse> response = co_await http_->Send(std::move(request), std::move(until), progress);
  if (!response) {
    if (response.error().code() == Code::kUnavailable) {
      MutexLock lock(mutex_);
      last_error_ = response.error().message();
    }
    co_return std::move(response).error();
  }
  bytes_read_ += response->body.size();
  co_return std::move(response);
}

Task<void> S3Client::Pause(uint32_t attempt, std::chrono::seconds asked, Error why, Until until) {
  static thread_local std::mt19937_64 random{std::random_device()()};
  const auto longest =
      std::min<std::chrono::nanoseconds>(options_.pause * (1u << std::min(attempt, 16u)), options_.pause_max);
  // Half of it is chance: clients that failed together do not come back together.
  const auto jitter = std::uniform_int_distribution<int64_t>(longest.count() / 2, longest.count())(random);
  const auto time = std::max<std::chrono::nanoseconds>(std::chrono::nanoseconds(jitter), asked);
  if (time >= until.Left()) co_return why;
  ++retries_;
  const auto waiter = std::make_shared<Waiter>();
  Until pause = until.AtMost(time);
  Ignore(co_await Waiter::Wait(waiter, std::move(pause)), "nobody wakes it: time does, or the stop token");
  co_return until.Check();
}

bool S3Client::RenewCredentials(const HttpResponse& response) {
  if (response.head.status != 400 && response.head.status != 403) return false;
  const std::string code = CodeOf(response);
  if (code != "ExpiredToken" && code != "InvalidAccessKeyId" && code != "TokenRefreshRequired") return false;
  Result<S3Credentials> found = FindCredentials(options_.account, environment_);
  if (!found) return false;
  MutexLock lock(mutex_);
  if (found->access_key == credentials_.access_key && found->token == credentials_.token) return false;
  credentials_ = *std::move(found);
  return true;
}

Task<HttpResponse> S3Client::Send(S3Request asked, Until until) {
  const auto request = std::make_shared<const S3Request>(std::move(asked));
  for (uint32_t attempt = 0;; ++attempt) {
    Result<HttpResponse> response = co_await SendOnce(request, until, nullptr);
    std::chrono::seconds wait{0};
    std::optional<Error> why;
    if (!response) {
      if (response.error().code() != Code::kUnavailable) co_return std::move(response).error();
      why = std::move(response).error();
    } else {
      const int status = response->head.status;
      const bool is_late = status == 400 && CodeOf(*response) == "RequestTimeout";
      const bool is_contended = status == 409 && CodeOf(*response) == "ConditionalRequestConflict";
      if (!MayPass(status) && !is_late && !is_contended) {
        if (!RenewCredentials(*response)) co_return std::move(response);
        if (attempt + 1 < options_.attempts_max) continue;
      }
      wait = response->retry_after;
      why = ErrorOf(*request, *response);
    }
    if (attempt + 1 >= options_.attempts_max) co_return *std::move(why);
    CO_TRY(co_await Pause(attempt, wait, *std::move(why), until));
  }
}

Error S3Client::ErrorOf(const S3Request& asked, const HttpResponse& response) const {
  const std::string what =
      fmt::format("{} {} of {}", asked.method, asked.key.empty() ? "a listing" : asked.key, place_);
  std::string code;
  std::string said;
  std::string region(response.head.Get("x-amz-bucket-region"));
  const Result<XmlElement> xml = ParseXml(AsText(response.body));
  if (xml && xml->name == "Error") {
    code = xml->TextOf("Code");
    said = xml->TextOf("Message");
    if (region.empty()) region = xml->TextOf("Region");
  }
  const int status = response.head.status;
  std::string text = fmt::format("{}: the server answered {}", what, status);
  if (!code.empty()) text += fmt::format(" {}", PlainText(code));
  if (!said.empty()) text += fmt::format(" ({})", PlainText(said));
  std::string source;
  {
    MutexLock lock(mutex_);
    source = credentials_.source;
  }
  if (code == "RequestTimeTooSkewed") {
    const std::time_t now = SystemClock().now_s();
    std::tm parts{};
    gmtime_r(&now, &parts);
    std::array<char, 64> here{};
    std::strftime(here.data(), here.size(), "%F %T", &parts);
    text += fmt::format(
        "; this machine's clock differs from the server's by more than it accepts: here it is {} UTC, "
        "there {}; set the clock",
        here.data(), PlainText(response.head.Get("date")));
  } else if (code == "SignatureDoesNotMatch") {
    text += fmt::format("; the secret key of {} does not belong to its access key, or the region is not \"{}\"", source,
                        options_.region);
  } else if (code == "InvalidAccessKeyId" || code == "ExpiredToken") {
    text += fmt::format("; the credentials are those of {}: renew them", source);
  } else if (code == "NoSuchBucket") {
    text += fmt::format("; create the bucket \"{}\" or name another", options_.bucket);
  } else if (status == 401 || status == 403) {
    text += fmt::format("; the credentials are those of {}: allow them {} on bucket \"{}\", or use others", source,
                        ActionOf(asked.method), options_.bucket);
  } else if (status == 301 || status == 307 || status == 308 || code == "AuthorizationHeaderMalformed") {
    text +=
        region.empty()
            ? fmt::format("; the bucket is elsewhere: check endpoint, region (\"{}\") and path style", options_.region)
            : fmt::format("; the bucket is in region \"{}\", configured is \"{}\"", PlainText(region), options_.region);
  }
  MutexLock lock(mutex_);
  last_error_ = text;
  return Error(Code::kUnavailable, std::move(text));
}

void S3Client::SendUnheard(const S3Request& request) { http_->SendUnheard(Signed(request), kUnheardMax); }

std::vector<std::pair<std::string, std::string>> S3Client::ChecksumFields(Bytes body) const {
  return FieldsOfChecksum(body, sends_sha256_, sends_md5_);
}

Task<S3Written> S3Client::Put(S3Request request, S3Condition condition, Until until) {
  using Kind = S3Condition::Kind;
  request.method = "PUT";
  // Servers that refuse what they do not know are asked without it. What it was is learned from the write that they
  // take, so nothing from a refusal with another reason. A condition that is known to be honoured is never left out.
  struct Form {
    bool is_conditional = false, has_sha256 = false;
  };
  const Form all{condition.kind != Kind::kNone && tries_conditional_put_, sends_sha256_};
  const bool can_leave_condition = all.is_conditional && !has_conditional_put_;
  std::vector<Form> forms{all};
  if (can_leave_condition) forms.push_back({false, all.has_sha256});
  if (all.has_sha256) forms.push_back({all.is_conditional, false});
  if (can_leave_condition && all.has_sha256) forms.push_back({false, false});
  for (size_t i = 0;; ++i) {
    const Form& form = forms[i];
    const bool lacks_sha256 = all.has_sha256 && !form.has_sha256;
    S3Request asked = request;
    const auto sums = FieldsOfChecksum(asked.body, form.has_sha256, lacks_sha256 || sends_md5_);
    asked.fields.insert(asked.fields.end(), sums.begin(), sums.end());
    asked.fields.emplace_back("Content-Type", "application/octet-stream");
    if (form.is_conditional && condition.kind == Kind::kAbsent) asked.fields.emplace_back("If-None-Match", "*");
    if (form.is_conditional && condition.kind == Kind::kTag) asked.fields.emplace_back("If-Match", condition.tag);
    CO_TRY_ASSIGN(const HttpResponse response, co_await Send(asked, until));
    const int status = response.head.status;
    const bool is_gone = status == 404 && condition.kind == Kind::kTag && CodeOf(response) != "NoSuchBucket";
    const bool does_not_hold = form.is_conditional && (status == 412 || is_gone);
    if (response.head.is_success() || does_not_hold) {
      if (all.is_conditional && !form.is_conditional) tries_conditional_put_ = false;
      if (lacks_sha256) {
        sends_sha256_ = false;
        sends_md5_ = true;
      }
      co_return S3Written{!does_not_hold, form.is_conditional};
    }
    if (!MayBeUnknown(response) || i + 1 == forms.size()) co_return ErrorOf(asked, response);
  }
}

Task<S3Listing> S3Client::List(std::string prefix, std::string after, size_t limit, Until until) {
  S3Request asked;
  // In the order of names, which the signature wants.
  asked.query =
      fmt::format("list-type=2&max-keys={}&prefix={}&start-after={}", std::clamp<size_t>(limit, 1, kNamesOnAPage),
                  EncodeForUrl(prefix, false), EncodeForUrl(after.empty() ? prefix : after, false));
  asked.answer_bytes_max = kListBytesMax;
  CO_TRY_ASSIGN(const HttpResponse response, co_await Send(asked, until));
  if (!response.head.is_success()) co_return ErrorOf(asked, response);
  const Result<XmlElement> xml = ParseXml(AsText(response.body));
  if (!xml || xml->name != "ListBucketResult") {
    co_return Error(Code::kUnavailable, fmt::format("{} answered a listing with something else", place_));
  }
  S3Listing out;
  for (const XmlElement& row : xml->children) {
    if (row.name != "Contents") continue;
    std::string key(row.TextOf("Key"));
    if (key <= after || !key.starts_with(prefix)) continue;
    S3Listing::Row one{std::move(key)};
    const std::string bytes(row.TextOf("Size"));
    std::from_chars(bytes.data(), bytes.data() + bytes.size(), one.bytes);
    one.modified_s = TimeOfText(std::string(row.TextOf("LastModified"))).value_or(0);
    out.rows.push_back(std::move(one));
  }
  out.has_more = xml->TextOf("IsTruncated") == "true" && !out.rows.empty();
  co_return out;
}

std::string S3Client::Describe() const {
  MutexLock lock(mutex_);
  std::string text = fmt::format("s3 {} (region {}, credentials of {})", place_, options_.region, credentials_.source);
  if (!last_error_.empty()) text += "; last error: " + last_error_;
  return text;
}

S3Request S3Client::CheckObject() const {
  const auto owner = std::make_shared<const std::string>(kCheckText);
  S3Request put;
  put.method = "PUT";
  put.key = KeyOf(fmt::format("checks/{:016x}", std::random_device()() | uint64_t{std::random_device()()} << 32));
  put.body = AsBytes(*owner);
  put.body_owner = owner;
  put.fields.emplace_back("Content-Type", "application/octet-stream");
  return put;
}

Task<S3Client::Answer> S3Client::TryCondition(S3Request put, const char* field, std::string value, Until until) {
  S3Request asked = put;
  asked.fields.emplace_back(field, std::move(value));
  CO_TRY_ASSIGN(const HttpResponse response, co_await Send(asked, until));
  if (response.head.is_success()) co_return Answer::kWritten;
  if (response.head.status == 412) co_return Answer::kDoesNotHold;
  if (!MayBeUnknown(response)) co_return ErrorOf(asked, response);
  // It was the condition where the same write is taken without it.
  CO_TRY_ASSIGN(const HttpResponse plain, co_await Send(put, until));
  if (!plain.head.is_success()) co_return ErrorOf(put, plain);
  co_return Answer::kUnknown;
}

Task<void> S3Client::TryConditions(S3Request put, S3Abilities& out, Until until) {
  CO_TRY_ASSIGN(const Answer absent, co_await TryCondition(put, "If-None-Match", "*", until));
  const std::string nobodys = "\"00000000000000000000000000000000\"";
  CO_TRY_ASSIGN(const Answer other, co_await TryCondition(put, "If-Match", nobodys, until));
  bool takes_right_one = false;
  // Twice: the first may have been done, given the object another tag, and been sent again since its answer was lost.
  for (int i = 0; i < 2 && other == Answer::kDoesNotHold && !takes_right_one; ++i) {
    S3Request look;
    look.method = "HEAD";
    look.key = put.key;
    CO_TRY_ASSIGN(const HttpResponse head, co_await Send(look, until));
    if (!head.head.is_success()) co_return ErrorOf(look, head);
    const std::string tag(head.head.Get("etag"));
    if (tag.empty()) break;
    CO_TRY_ASSIGN(const Answer same, co_await TryCondition(put, "If-Match", tag, until));
    takes_right_one = same == Answer::kWritten;
  }
  out.has_conditional_put = absent == Answer::kDoesNotHold;
  out.has_conditional_replace = takes_right_one;
  tries_conditional_put_ = out.has_conditional_put;
  has_conditional_put_ = out.has_conditional_put;
  co_return Status();
}

Task<S3Abilities> S3Client::CheckConditions(Until until) {
  S3Abilities out;
  const S3Request put = CheckObject();
  CO_TRY_ASSIGN(const HttpResponse written, co_await Send(put, until));
  if (!written.head.is_success()) co_return ErrorOf(put, written);
  const Status tried = co_await TryConditions(put, out, until);
  S3Request remove;
  remove.method = "DELETE";
  remove.key = put.key;
  SendUnheard(remove);
  CO_TRY(tried);
  co_return out;
}

Task<S3Abilities> S3Client::Check(Until until) {
  S3Abilities out;
  const std::string text(kCheckText);
  const S3Request put = CheckObject();
  const auto say = [&out](bool holds, const std::string& what, const std::string& otherwise) {
    out.lines.push_back(holds ? what + ": yes" : what + ": no; " + otherwise);
  };
  const auto why = [this](const S3Request& asked, const Result<HttpResponse>& response) {
    if (!response) return response.error().message();
    if (response->head.is_success()) return std::string("other bytes came back than were written");
    return ErrorOf(asked, *response).message();
  };
  // Each step: an answer, or the error as words. Only the end of `until` ends the check.
  Result<HttpResponse> written = co_await Send(put, until);
  CO_TRY(until.Check());
  out.can_write = written && written->head.is_success();
  say(out.can_write, "write", why(put, written));
  if (!out.can_write) co_return out;

  S3Request get;
  get.key = put.key;
  Result<HttpResponse> read = co_await Send(get, until);
  CO_TRY(until.Check());
  out.can_read = read && read->head.is_success() && AsText(read->body) == text;
  say(out.can_read, "read", why(get, read));

  get.fields.emplace_back("Range", "bytes=6-11");
  Result<HttpResponse> range = co_await Send(get, until);
  CO_TRY(until.Check());
  out.has_ranges = range && range->head.status == 206 && AsText(range->body) == text.substr(6, 6);
  say(out.has_ranges, "ranges", "objects are read in one piece");

  const Status tried = co_await TryConditions(put, out, until);
  CO_TRY(until.Check());
  if (tried) {
    say(out.has_conditional_put, "conditional writes",
        "the server is asked before each write whether the object is there");
    say(out.has_conditional_replace, "conditional replacement",
        "two who change a record of the index at once may lose what one of them wrote");
  } else {
    out.lines.push_back("conditional writes: not known; " + tried.error().message());
  }

  S3Request wrong = put;
  const std::string other = "ingot checks what this server can dO";
  wrong.body_sha256 = Sha256Of(AsBytes(other)).ToHex();
  Result<HttpResponse> hash = co_await Send(wrong, until);
  CO_TRY(until.Check());
  out.checks_signed_hash = hash && hash->head.status >= 400 && hash->head.status < 500;
  wrong = put;
  wrong.fields.emplace_back("x-amz-checksum-sha256", Base64Of(Sha256Of(AsBytes(other)).view()));
  Result<HttpResponse> sha256 = co_await Send(wrong, until);
  CO_TRY(until.Check());
  out.checks_sha256 = sha256 && sha256->head.status == 400;
  wrong = put;
  wrong.fields.emplace_back("Content-MD5", Md5Base64(AsBytes(other)));
  Result<HttpResponse> md5 = co_await Send(wrong, until);
  CO_TRY(until.Check());
  out.checks_md5 = md5 && md5->head.status == 400;
  // A right one must be taken, or it is of no use.
  S3Request right = put;
  right.fields.emplace_back("x-amz-checksum-sha256", Base64Of(Sha256Of(put.body).view()));
  Result<HttpResponse> taken = co_await Send(right, until);
  CO_TRY(until.Check());
  const bool takes_sha256 = taken && taken->head.is_success();
  out.checks_sha256 = out.checks_sha256 && takes_sha256;
  out.lines.push_back(fmt::format(
      "refuses bodies that were damaged on their way: by the signature {}, by x-amz-checksum-sha256 {}, "
      "by Content-MD5 {}",
      out.checks_signed_hash ? "yes" : "no", out.checks_sha256 ? "yes" : "no", out.checks_md5 ? "yes" : "no"));

  S3Request upload;
  upload.method = "POST";
  upload.key = put.key;
  upload.query = "uploads=";
  Result<HttpResponse> begun = co_await Send(upload, until);
  CO_TRY(until.Check());
  if (begun && begun->head.is_success()) {
    const Result<XmlElement> xml = ParseXml(AsText(begun->body));
    S3Request end;
    end.method = "DELETE";
    end.key = put.key;
    end.query = "uploadId=" + EncodeForUrl(xml ? xml->TextOf("UploadId") : "", false);
    Result<HttpResponse> ended = co_await Send(end, until);
    CO_TRY(until.Check());
    out.has_multipart = ended && ended->head.is_success();
  }
  say(out.has_multipart, "uploads in parts",
      fmt::format("blobs above {} MiB cannot be stored", options_.multipart_bytes_min >> 20));

  S3Request list;
  list.query = fmt::format("list-type=2&max-keys=1&prefix={}", EncodeForUrl(put.key, false));
  Result<HttpResponse> listed = co_await Send(list, until);
  CO_TRY(until.Check());
  if (listed && listed->head.is_success()) {
    const Result<XmlElement> xml = ParseXml(AsText(listed->body));
    out.can_list = xml && std::ranges::any_of(xml->children, [&](const XmlElement& row) {
                     return row.name == "Contents" && row.TextOf("Key") == put.key;
                   });
  }
  say(out.can_list, "list", "allow s3:ListBucket; what is missing looks forbidden without it");

  S3Request remove;
  remove.method = "DELETE";
  remove.key = put.key;
  Result<HttpResponse> removed = co_await Send(remove, until);
  CO_TRY(until.Check());
  out.can_delete = removed && removed->head.is_success();
  say(out.can_delete, "delete", why(remove, removed));

  // Where one of them was not answered, writes go as they did.
  if (hash && sha256 && md5 && taken) {
    sends_sha256_ = takes_sha256 && (out.checks_sha256 || !out.checks_signed_hash);
    sends_md5_ = !out.checks_sha256 && !out.checks_signed_hash && out.checks_md5;
  }
  co_return out;
}

}  // namespace ingot::cache
