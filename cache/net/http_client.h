// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/secret.h"
#include "base/until.h"
#include "cache/async/task.h"

namespace ingot::cache {

struct HttpOptions {
  /// Transfers under way at once; others wait their turn.
  size_t connections_max = 32;
  std::chrono::milliseconds connect_max{3000};
  /// A transfer that brings fewer bytes a second than this for `slow_max` is given up.
  uint64_t bytes_per_s_min = 1024;
  std::chrono::seconds slow_max{10};
  /// All header fields of one answer.
  size_t header_bytes_max = 64u << 10;
  /// PEM file of the authorities that may speak for a server. Empty: the system's.
  std::string ca_file;
};

/// Status and header fields of an answer; names in lower case.
struct HttpHead {
  int status = 0;
  std::vector<std::pair<std::string, std::string>> fields;

  bool is_success() const { return status >= 200 && status < 300; }
  /// Empty when there is no such field.
  std::string_view Get(std::string_view name) const;
};

/// Whose request it is: AWS Signature Version 4 over method, path, query, and all fields of the request.
struct HttpSignature {
  std::string region;
  std::string service;
  std::string name;
  Secret secret;
};

struct HttpRequest {
  std::string method = "GET";
  /// With a query in canonical order and encoding where the request is signed.
  std::string url;
  std::vector<std::pair<std::string, std::string>> fields;
  std::optional<HttpSignature> signature;
  /// What is sent, kept alive by `body_owner`, after the call has ended too.
  Bytes body;
  std::shared_ptr<const void> body_owner;
  /// Of an answer that has no place of its own.
  size_t body_bytes_max = 1u << 20;
  /// Where the body of a successful answer goes: memory that lives as long as what the function holds. Called on the
  /// client's thread before the first byte of the body, again if the transfer is repeated there. An Error ends the
  /// transfer.
  std::function<Result<std::span<uint8_t>>(const HttpHead&)> place;
};

struct HttpResponse {
  HttpHead head;
  /// Where nothing was placed.
  Buffer body;
  /// Seconds that the server asks to be left alone (Retry-After).
  std::chrono::seconds retry_after{0};
};

/// How far a transfer came, whatever ended it.
struct HttpProgress {
  /// Bytes at the beginning of what `place` gave that are filled.
  uint64_t placed = 0;
};

/// HTTP/1.1 to any number of hosts from one thread, over connections that are kept. Redirects are answers, not
/// followed. Certificates are verified, always. A proxy is taken from the environment as curl does
/// (https_proxy, no_proxy). Thread-safe. Executors that calls are awaited on outlive the client.
class HttpClient {
 public:
  /// kUnavailable: no thread, no descriptors; kInvalid: the file of authorities cannot be read.
  static Result<std::unique_ptr<HttpClient>> Start(const HttpOptions& options);
  /// Ends what is under way with kCancelled.
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  /// One request; answers of every status are values. Comes back at once when `until` ends, wherever the transfer is.
  /// kUnavailable: no connection, cut, or slow: sending again may help; kInvalid: a URL or a certificate that is
  /// refused; kExhausted: the answer is larger than allowed; and the Error of `place`.
  Task<HttpResponse> Send(HttpRequest request, Until until, HttpProgress* progress = nullptr);
  /// One request whose answer nobody waits for, given up after `max`.
  void SendUnheard(HttpRequest request, std::chrono::milliseconds max);

 private:
  class Loop;
  explicit HttpClient(std::shared_ptr<Loop> loop);

  const std::shared_ptr<Loop> loop_;
};

}  // namespace ingot::cache
