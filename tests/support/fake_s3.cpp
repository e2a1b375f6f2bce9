// SPDX-License-Identifier: Apache-2.0
#include "tests/support/fake_s3.h"

#include <fmt/format.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <csignal>
#include <ctime>
#include <set>

namespace ingot::support {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;
using Request = http::request<http::string_body>;
using Fields = std::map<std::string, std::string>;

std::string Hex(const std::string& bytes) {
  std::string out;
  for (const char c : bytes) out += fmt::format("{:02x}", static_cast<uint8_t>(c));
  return out;
}

std::string HashOf(const EVP_MD* kind, const std::string& bytes) {
  std::string out(EVP_MAX_MD_SIZE, 0);
  unsigned size = 0;
  EVP_Digest(bytes.data(), bytes.size(), reinterpret_cast<uint8_t*>(out.data()), &size, kind, nullptr);
  out.resize(size);
  return out;
}

std::string Base64(const std::string& bytes) {
  std::string out(4 * ((bytes.size() + 2) / 3) + 1, 0);
  out.resize(EVP_EncodeBlock(reinterpret_cast<uint8_t*>(out.data()), reinterpret_cast<const uint8_t*>(bytes.data()),
                             static_cast<int>(bytes.size())));
  return out;
}

std::string Mac(const std::string& key, const std::string& text) {
  std::string out(EVP_MAX_MD_SIZE, 0);
  unsigned size = 0;
  HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), reinterpret_cast<const uint8_t*>(text.data()),
       text.size(), reinterpret_cast<uint8_t*>(out.data()), &size);
  out.resize(size);
  return out;
}

std::string Decode(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size()) {
      out += static_cast<char>(std::stoi(text.substr(i + 1, 2), nullptr, 16));
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

std::string Encode(const std::string& text, bool keeps_slashes) {
  std::string out;
  for (const char c : text) {
    if (std::isalnum(static_cast<uint8_t>(c)) || c == '-' || c == '_' || c == '.' || c == '~' ||
        (keeps_slashes && c == '/')) {
      out += c;
    } else {
      out += fmt::format("%{:02X}", static_cast<uint8_t>(c));
    }
  }
  return out;
}

std::vector<std::string> Split(const std::string& text, char by) {
  std::vector<std::string> out;
  size_t at = 0;
  while (true) {
    const size_t end = text.find(by, at);
    out.push_back(text.substr(at, end - at));
    if (end == std::string::npos) return out;
    at = end + 1;
  }
}

std::string Trim(const std::string& text) {
  const auto first = text.find_first_not_of(" \t");
  return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

struct Target {
  std::string path;
  Fields query;
};
Target TargetOf(const Request& request) {
  const std::string target(request.target());
  const size_t mark = target.find('?');
  Target out{target.substr(0, mark), {}};
  if (mark == std::string::npos) return out;
  for (const std::string& item : Split(target.substr(mark + 1), '&')) {
    const size_t equals = item.find('=');
    out.query[Decode(item.substr(0, equals))] = equals == std::string::npos ? "" : Decode(item.substr(equals + 1));
  }
  return out;
}

std::string Field(const Request& request, const std::string& name) { return std::string(request[name]); }

struct Reply {
  int status = 200;
  Fields fields;
  std::string body;
  bool has_body = true;
};

Reply Problem(int status, const std::string& code, const std::string& message) {
  return {status,
          {{"Content-Type", "application/xml"}},
          fmt::format("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>{}</Code><Message>{}</Message></Error>",
                      code, message)};
}

std::string TagOf(const std::string& bytes) { return "\"" + Hex(HashOf(EVP_md5(), bytes)) + "\""; }

std::string TimeText(std::time_t seconds) {
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char text[64];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S.000Z", &parts);
  return text;
}

}  // namespace

struct FakeS3::Connection {
  explicit Connection(tcp::socket socket) : socket(std::move(socket)) {}
  tcp::socket socket;
  std::thread thread;
  bool has_ended = false;
};

struct FakeS3::State {
  explicit State(Abilities abilities) : abilities(abilities), acceptor(io, {asio::ip::make_address("127.0.0.1"), 0}) {}

  const Abilities abilities;
  asio::io_context io;
  tcp::acceptor acceptor;
  std::thread thread;

  mutable std::mutex mutex;
  bool is_ending = false;
  std::list<Connection> open;
  std::vector<Plan> plans;
  std::map<std::string, Object> objects;
  std::map<std::string, Upload> uploads;
  std::map<std::string, int> requests;
  int next_upload = 0;
  int bad_signatures = 0;
  int connections = 0;
  int open_now = 0;
  int open_max = 0;
  int64_t clock_offset_s = 0;
  std::string secret = kSecret;
  std::string token;

  std::optional<Reply> CheckSignature(const Request& request, const Target& target);
  Reply Answer(const Request& request, const Target& target);
  Reply List(const Target& target) const;
  Reply ListUploads() const;
  std::optional<Reply> CheckBody(const Request& request) const;
};

/// Signature Version 4 as its specification says, from the bytes of the request alone.
std::optional<Reply> FakeS3::State::CheckSignature(const Request& request, const Target& target) {
  const std::string authorization = Field(request, "Authorization");
  const std::string start = "AWS4-HMAC-SHA256 ";
  if (!authorization.starts_with(start)) return Problem(403, "AccessDenied", "no signature");
  Fields parts;
  for (const std::string& part : Split(authorization.substr(start.size()), ',')) {
    const std::string item = Trim(part);
    const size_t equals = item.find('=');
    parts[item.substr(0, equals)] = item.substr(equals + 1);
  }
  const std::vector<std::string> scope = Split(parts["Credential"], '/');
  if (scope.size() != 5) return Problem(400, "AuthorizationHeaderMalformed", "no credential scope");
  if (scope[0] != kAccessKey) return Problem(403, "InvalidAccessKeyId", "no such access key");
  if (scope[2] != kRegion)
    return Problem(400, "AuthorizationHeaderMalformed", fmt::format("the region is wrong; expecting {}", kRegion));
  const std::string date = Field(request, "x-amz-date");
  std::tm parsed{};
  if (strptime(date.c_str(), "%Y%m%dT%H%M%SZ", &parsed) == nullptr) return Problem(403, "AccessDenied", "no date");
  if (std::abs(timegm(&parsed) - (std::time(nullptr) + clock_offset_s)) > 900) {
    return Problem(403, "RequestTimeTooSkewed",
                   "The difference between the request time and the current time is too large.");
  }
  std::string headers;
  const std::vector<std::string> names = Split(parts["SignedHeaders"], ';');
  for (const std::string& name : names) headers += name + ":" + Trim(Field(request, name)) + "\n";
  const std::set<std::string> is_signed(names.begin(), names.end());
  for (const auto& field : request) {
    std::string name(field.name_string());
    std::transform(name.begin(), name.end(), name.begin(), [](char c) { return std::tolower(c); });
    if ((name == "host" || name.starts_with("x-amz-") || name == "content-md5") && !is_signed.contains(name)) {
      return Problem(403, "AccessDenied", "not signed: " + name);
    }
  }
  std::string query;
  for (const auto& [name, value] : target.query) {
    query += (query.empty() ? "" : "&") + Encode(name, false) + "=" + Encode(value, false);
  }
  const std::string canonical =
      fmt::format("{}\n{}\n{}\n{}\n{}\n{}", std::string(request.method_string()), Encode(Decode(target.path), true),
                  query, headers, parts["SignedHeaders"], Field(request, "x-amz-content-sha256"));
  const std::string text = fmt::format("AWS4-HMAC-SHA256\n{}\n{}/{}/{}/{}\n{}", date, scope[1], scope[2], scope[3],
                                       scope[4], Hex(HashOf(EVP_sha256(), canonical)));
  const std::string key = Mac(Mac(Mac(Mac("AWS4" + secret, scope[1]), scope[2]), scope[3]), scope[4]);
  if (Hex(Mac(key, text)) != parts["Signature"]) {
    ++bad_signatures;
    return Problem(403, "SignatureDoesNotMatch", "The request signature we calculated does not match.");
  }
  if (!token.empty() && Field(request, "x-amz-security-token") != token) {
    return Problem(400, "ExpiredToken", "The provided token has expired.");
  }
  return std::nullopt;
}

std::optional<Reply> FakeS3::State::CheckBody(const Request& request) const {
  const std::string signed_hash = Field(request, "x-amz-content-sha256");
  if (abilities.checks_signed_hash && signed_hash != "UNSIGNED-PAYLOAD" &&
      signed_hash != Hex(HashOf(EVP_sha256(), request.body()))) {
    return Problem(400, "XAmzContentSHA256Mismatch", "The provided hash does not match what was computed.");
  }
  const std::string sha256 = Field(request, "x-amz-checksum-sha256");
  if (abilities.checks_sha256 && !sha256.empty() && sha256 != Base64(HashOf(EVP_sha256(), request.body()))) {
    return Problem(400, "BadDigest", "The SHA256 you specified did not match.");
  }
  const std::string md5 = Field(request, "Content-MD5");
  if (abilities.checks_md5 && !md5.empty() && md5 != Base64(HashOf(EVP_md5(), request.body()))) {
    return Problem(400, "BadDigest", "The Content-MD5 you specified did not match.");
  }
  return std::nullopt;
}

Reply FakeS3::State::List(const Target& target) const {
  const auto value = [&](const char* name) {
    const auto at = target.query.find(name);
    return at == target.query.end() ? std::string() : at->second;
  };
  const std::string prefix = value("prefix");
  const size_t limit = value("max-keys").empty() ? 1000 : std::stoul(value("max-keys"));
  std::string rows;
  size_t count = 0;
  bool has_more = false;
  for (auto at = objects.upper_bound(value("start-after")); at != objects.end(); ++at) {
    if (!at->first.starts_with(prefix)) continue;
    if (count == limit) {
      has_more = true;
      break;
    }
    ++count;
    rows += fmt::format(
        "<Contents><Key>{}</Key><LastModified>{}</LastModified><ETag>&quot;{}&quot;</ETag>"
        "<Size>{}</Size></Contents>",
        at->first, TimeText(at->second.modified_s), at->second.tag.substr(1, at->second.tag.size() - 2),
        at->second.bytes.size());
  }
  return {200,
          {{"Content-Type", "application/xml"}},
          fmt::format("<?xml version=\"1.0\"?><ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"
                      "<IsTruncated>{}</IsTruncated>{}</ListBucketResult>",
                      has_more, rows)};
}

Reply FakeS3::State::ListUploads() const {
  std::string rows;
  for (const auto& [id, upload] : uploads) {
    rows += fmt::format("<Upload><Key>{}</Key><UploadId>{}</UploadId><Initiated>{}</Initiated></Upload>", upload.key,
                        id, upload.initiated);
  }
  return {
      200,
      {},
      fmt::format("<ListMultipartUploadsResult><IsTruncated>false</IsTruncated>{}</ListMultipartUploadsResult>", rows)};
}

Reply FakeS3::State::Answer(const Request& request, const Target& target) {
  const std::string method(request.method_string());
  const std::string bucket = std::string("/") + kBucket + "/";
  if (!target.path.starts_with(bucket)) return Problem(404, "NoSuchBucket", "The specified bucket does not exist");
  const std::string key = Decode(target.path.substr(bucket.size()));
  const auto& query = target.query;
  if (key.empty()) {
    if (query.contains("uploads")) return ListUploads();
    if (query.contains("list-type")) return List(target);
    return Problem(501, "NotImplemented", "not known here");
  }
  Fields meta;
  for (const auto& field : request) {
    std::string name(field.name_string());
    std::transform(name.begin(), name.end(), name.begin(), [](char c) { return std::tolower(c); });
    if (name.starts_with("x-amz-meta-")) meta[name] = std::string(field.value());
  }
  if (method == "POST" && query.contains("uploads")) {
    const std::string id = fmt::format("upload+{}/=", next_upload++);
    uploads[id] = Upload{key, meta, {}, "2026-01-01T00:00:00.000Z"};
    return {200,
            {},
            fmt::format("<InitiateMultipartUploadResult><UploadId>{}</UploadId></InitiateMultipartUploadResult>", id)};
  }
  if (query.contains("uploadId")) {
    const auto upload = uploads.find(query.at("uploadId"));
    if (upload == uploads.end()) return Problem(404, "NoSuchUpload", "The specified upload does not exist.");
    if (method == "DELETE") {
      uploads.erase(upload);
      return {204, {}, "", false};
    }
    if (method == "PUT") {
      if (auto bad = CheckBody(request)) return *bad;
      const std::string tag = TagOf(request.body());
      upload->second.parts[std::stoi(query.at("partNumber"))] = Object{request.body(), {}, tag, 0};
      Fields fields{{"ETag", tag}};
      const std::string sum = Field(request, "x-amz-checksum-sha256");
      if (abilities.checks_sha256 && !sum.empty()) fields["x-amz-checksum-sha256"] = sum;
      return {200, fields, ""};
    }
    // POST: all parts but the last have 5 MiB, and the list names each with its tag.
    Object whole{{}, upload->second.fields, {}, std::time(nullptr)};
    int left = static_cast<int>(upload->second.parts.size());
    for (const auto& [number, part] : upload->second.parts) {
      if (--left != 0 && part.bytes.size() < 5u << 20) return Problem(400, "EntityTooSmall", "a part is too small");
      if (request.body().find(fmt::format("<PartNumber>{}</PartNumber>", number)) == std::string::npos ||
          request.body().find(part.tag.substr(1, 32)) == std::string::npos) {
        return Problem(400, "InvalidPart", "a part is missing in the list");
      }
      whole.bytes += part.bytes;
    }
    whole.tag = fmt::format("\"{}-{}\"", Hex(HashOf(EVP_md5(), whole.bytes)), upload->second.parts.size());
    objects[key] = std::move(whole);
    uploads.erase(upload);
    return {200, {}, "<CompleteMultipartUploadResult><ETag>x</ETag></CompleteMultipartUploadResult>"};
  }
  const auto object = objects.find(key);
  if (method == "PUT") {
    if (!Field(request, "If-None-Match").empty()) {
      if (abilities.refuses_conditions) return Problem(501, "NotImplemented", "a header is not known here");
      if (abilities.has_conditional_put && object != objects.end()) {
        return Problem(412, "PreconditionFailed", "At least one of the pre-conditions you specified did not hold");
      }
    }
    if (const std::string match = Field(request, "If-Match"); !match.empty()) {
      if (abilities.refuses_conditions) return Problem(501, "NotImplemented", "a header is not known here");
      if (abilities.has_conditional_replace) {
        if (object == objects.end()) return Problem(404, "NoSuchKey", "The specified key does not exist.");
        if (object->second.tag != match) return Problem(412, "PreconditionFailed", "another object");
      }
    }
    if (auto bad = CheckBody(request)) return *bad;
    objects[key] = Object{request.body(), meta, TagOf(request.body()), std::time(nullptr)};
    return {200, {{"ETag", objects[key].tag}}, ""};
  }
  if (method == "DELETE") {
    objects.erase(key);
    return {204, {}, "", false};
  }
  if (object == objects.end()) return Problem(404, "NoSuchKey", "The specified key does not exist.");
  const Object& found = object->second;
  Reply reply{200, found.fields, found.bytes};
  reply.fields["ETag"] = found.tag;
  if (method == "HEAD") return reply;
  if (Field(request, "If-None-Match") == found.tag) return {304, {{"ETag", found.tag}}, "", false};
  const std::string match = Field(request, "If-Match");
  if (!match.empty() && match != found.tag) return Problem(412, "PreconditionFailed", "another object");
  const std::string range = Field(request, "Range");
  if (!range.empty() && abilities.has_ranges) {
    const size_t dash = range.find('-');
    const uint64_t first = std::stoull(range.substr(6, dash - 6));
    const uint64_t last = std::min<uint64_t>(std::stoull(range.substr(dash + 1)), found.bytes.size() - 1);
    if (first >= found.bytes.size()) return Problem(416, "InvalidRange", "The requested range is not satisfiable");
    reply.status = 206;
    reply.fields["Content-Range"] = fmt::format("bytes {}-{}/{}", first, last, found.bytes.size());
    reply.body = found.bytes.substr(first, last - first + 1);
  }
  return reply;
}

FakeS3::FakeS3(Abilities abilities) : state_(std::make_unique<State>(abilities)) {
  std::signal(SIGPIPE, SIG_IGN);
  state_->thread = std::thread([this] { Accept(); });
}

FakeS3::~FakeS3() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->is_ending = true;
    for (Connection& connection : state_->open) shutdown(connection.socket.native_handle(), SHUT_RDWR);
  }
  shutdown(state_->acceptor.native_handle(), SHUT_RDWR);
  state_->thread.join();
  for (Connection& connection : state_->open) connection.thread.join();
}

void FakeS3::Accept() {
  while (true) {
    boost::system::error_code error;
    tcp::socket socket(state_->io);
    state_->acceptor.accept(socket, error);
    const std::lock_guard lock(state_->mutex);
    if (state_->is_ending) return;
    if (error) continue;
    for (auto at = state_->open.begin(); at != state_->open.end();) {
      if (at->has_ended) {
        at->thread.join();
        at = state_->open.erase(at);
      } else {
        ++at;
      }
    }
    socket.set_option(tcp::no_delay(true), error);
    ++state_->connections;
    state_->open_max = std::max(state_->open_max, ++state_->open_now);
    Connection& connection = state_->open.emplace_back(std::move(socket));
    connection.thread = std::thread([this, &connection] {
      Serve(connection);
      const std::lock_guard ended(state_->mutex);
      shutdown(connection.socket.native_handle(), SHUT_RDWR);
      boost::system::error_code ignored;
      connection.socket.close(ignored);
      connection.has_ended = true;
      --state_->open_now;
    });
  }
}

void FakeS3::Serve(Connection& connection) {
  tcp::socket& socket = connection.socket;
  boost::beast::flat_buffer buffer;
  boost::system::error_code error;
  const auto is_ending = [this] {
    const std::lock_guard lock(state_->mutex);
    return state_->is_ending;
  };
  const auto send = [&](std::string_view text) {
    asio::write(socket, asio::buffer(text), error);
    return !error;
  };
  // Until the other side has gone.
  const auto hang = [&] {
    while (!is_ending()) {
      pollfd item{socket.native_handle(), POLLRDHUP, 0};
      if (poll(&item, 1, 20) > 0) return;
    }
  };
  while (true) {
    http::request_parser<http::string_body> parser;
    parser.body_limit(1ull << 32);
    parser.header_limit(64u << 10);
    http::read_header(socket, buffer, parser, error);
    if (error) return;
    if (boost::beast::iequals(parser.get()[http::field::expect], "100-continue") &&
        !send("HTTP/1.1 100 Continue\r\n\r\n")) {
      return;
    }
    http::read(socket, buffer, parser, error);
    if (error) return;
    const Request request = parser.release();
    const Target target = TargetOf(request);
    const std::string method(request.method_string());

    std::optional<Plan> plan;
    Reply reply;
    {
      const std::lock_guard lock(state_->mutex);
      ++state_->requests[method];
      for (auto at = state_->plans.begin(); at != state_->plans.end(); ++at) {
        if (!at->method.empty() && at->method != method) continue;
        if (std::string(request.target()).find(at->contains) == std::string::npos) continue;
        if (!Field(request, "Range").starts_with(at->range)) continue;
        if (at->skip != 0) {
          --at->skip;
          break;
        }
        plan = *at;
        if (--at->times == 0) state_->plans.erase(at);
        break;
      }
      if (auto bad = state_->CheckSignature(request, target)) {
        reply = *bad;
      } else if (!plan ||
                 (plan->fault != Fault::kStatus && plan->fault != Fault::kRefuse && plan->fault != Fault::kHang)) {
        reply = state_->Answer(request, target);
      }
      if (plan && plan->fault == Fault::kStatus) {
        reply = Problem(plan->status, plan->code, plan->message);
        if (plan->retry_after_s != 0) reply.fields["Retry-After"] = std::to_string(plan->retry_after_s);
      }
    }
    if (plan && (plan->fault == Fault::kRefuse || plan->fault == Fault::kApplyAndRefuse)) return;
    if (plan && plan->fault == Fault::kHang) return hang();

    if (plan && plan->fault == Fault::kWrongBytes && !reply.body.empty()) reply.body[reply.body.size() / 2] ^= 1;
    if (plan && plan->fault == Fault::kShort && !reply.body.empty()) reply.body.pop_back();
    std::time_t now = std::time(nullptr) + state_->clock_offset_s;
    std::tm parts{};
    gmtime_r(&now, &parts);
    char date[64];
    std::strftime(date, sizeof date, "%a, %d %b %Y %T GMT", &parts);
    std::string head = fmt::format("HTTP/1.1 {} Whatever\r\nDate: {}\r\n", reply.status, date);
    for (const auto& [name, value] : reply.fields) head += fmt::format("{}: {}\r\n", name, value);
    if (plan && plan->fault == Fault::kHugeHeader) {
      for (int i = 0; i < 1024; ++i) head += fmt::format("x-filler-{}: {}\r\n", i, std::string(1000, 'x'));
    }
    if (plan && plan->fault == Fault::kEndlessBody) {
      head += "Transfer-Encoding: chunked\r\n\r\n";
      if (!send(head)) return;
      const std::string chunk = "10000\r\n" + std::string(65536, 'x') + "\r\n";
      while (!is_ending() && send(chunk)) {
      }
      return;
    }
    if (reply.status != 204 && reply.status != 304) head += fmt::format("Content-Length: {}\r\n", reply.body.size());
    head += "\r\n";
    if (method == "HEAD" || !reply.has_body) reply.body.clear();
    if (plan && plan->fault == Fault::kCut) {
      if (send(head)) send(std::string_view(reply.body).substr(0, plan->after));
      return;
    }
    if (plan && plan->fault == Fault::kDrip) {
      if (!send(head)) return;
      for (const char c : reply.body) {
        if (is_ending() || !send(std::string_view(&c, 1))) return;
        std::this_thread::sleep_for(plan->pause);  // On purpose: a server that is slow.
      }
      continue;
    }
    if (reply.body.size() < 64u << 10) {
      if (!send(head + reply.body)) return;
    } else if (!send(head) || !send(reply.body)) {
      return;
    }
    if (!request.keep_alive()) return;
  }
}

std::string FakeS3::endpoint() const {
  return fmt::format("http://127.0.0.1:{}", state_->acceptor.local_endpoint().port());
}

void FakeS3::Fail(Plan plan) {
  const std::lock_guard lock(state_->mutex);
  state_->plans.push_back(std::move(plan));
}
void FakeS3::Recover() {
  const std::lock_guard lock(state_->mutex);
  state_->plans.clear();
}
void FakeS3::SetSecret(std::string secret) {
  const std::lock_guard lock(state_->mutex);
  state_->secret = std::move(secret);
}
void FakeS3::SetToken(std::string token) {
  const std::lock_guard lock(state_->mutex);
  state_->token = std::move(token);
}
void FakeS3::SetClockOffset(int64_t seconds) {
  const std::lock_guard lock(state_->mutex);
  state_->clock_offset_s = seconds;
}
std::map<std::string, FakeS3::Object> FakeS3::objects() const {
  const std::lock_guard lock(state_->mutex);
  return state_->objects;
}
void FakeS3::SetObject(const std::string& key, Object object) {
  if (object.tag.empty()) object.tag = TagOf(object.bytes);
  if (object.modified_s == 0) object.modified_s = std::time(nullptr);
  const std::lock_guard lock(state_->mutex);
  state_->objects[key] = std::move(object);
}
std::map<std::string, FakeS3::Upload> FakeS3::uploads() const {
  const std::lock_guard lock(state_->mutex);
  return state_->uploads;
}
void FakeS3::SetUpload(const std::string& id, Upload upload) {
  const std::lock_guard lock(state_->mutex);
  state_->uploads[id] = std::move(upload);
}
std::map<std::string, int> FakeS3::requests() const {
  const std::lock_guard lock(state_->mutex);
  return state_->requests;
}
int FakeS3::requests_of(const std::string& method) const {
  const auto all = requests();
  const auto at = all.find(method);
  return at == all.end() ? 0 : at->second;
}
int FakeS3::bad_signatures() const {
  const std::lock_guard lock(state_->mutex);
  return state_->bad_signatures;
}
int FakeS3::connections() const {
  const std::lock_guard lock(state_->mutex);
  return state_->connections;
}
int FakeS3::open_connections() const {
  const std::lock_guard lock(state_->mutex);
  return state_->open_now;
}
int FakeS3::open_connections_max() const {
  const std::lock_guard lock(state_->mutex);
  return state_->open_max;
}

}  // namespace ingot::support
