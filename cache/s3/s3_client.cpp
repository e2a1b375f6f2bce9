// SPDX-License-Identifier: Apache-2.0
#include "cache/s3/s3_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <ctime>
#include <random>

#include "base/clock.h"
#include "cache/async/waiter.h"
#include "cache/net/loopback.h"
#include "cache/s3/payload_hash.h"
#include "cache/s3/s3_xml.h"
#include "cache/trust/sha256.h"

namespace ingot::cache {
namespace {

constexpr std::chrono::seconds kUnheardMax{10};

bool IsUnreserved(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
         c == '.' || c == '~';
}

/// Without the port, and without the brackets of an IPv6 address.
std::string_view HostOf(std::string_view authority) {
  if (authority.starts_with('[')) return authority.substr(1, authority.find(']') - 1);
  return authority.substr(0, authority.find(':'));
}

std::string_view ActionOf(std::string_view method) {
  if (method == "PUT" || method == "POST") return "s3:PutObject";
  if (method == "DELETE") return "s3:DeleteObject";
  return "s3:GetObject (and s3:ListBucket, without which what is missing looks forbidden)";
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

bool MayBeUnknown(const HttpResponse& response) {
  return response.head.status == 501 || (response.head.status == 400 && CodeOf(response) != "BadDigest");
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
  if (is_plain && !options.is_plain_allowed && !IsLoopback(HostOf(host))) {
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
  if (!credentials_.token.empty()) request.fields.emplace_back("x-amz-security-token", credentials_.token.Reveal());
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
  if (found->access_key == credentials_.access_key && found->token.Reveal() == credentials_.token.Reveal())
    return false;
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
      fmt::format("list-type=2&max-keys={}&prefix={}&start-after={}", std::clamp<size_t>(limit, 1, kS3NamesOnAPage),
                  EncodeForUrl(prefix, false), EncodeForUrl(after.empty() ? prefix : after, false));
  asked.answer_bytes_max = kS3ListBytesMax;
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

}  // namespace ingot::cache
