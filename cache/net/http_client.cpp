// SPDX-License-Identifier: Apache-2.0
#include "cache/net/http_client.h"

#include <fmt/format.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstring>
#include <deque>
#include <thread>
#include <unordered_map>

#include "base/mutex.h"
#include "cache/async/waiter.h"
#include "cache/net/curl.h"

namespace ingot::cache {
namespace {

constexpr int kNothingToDo_ms = 60'000;

/// One request under way: of the loop's thread from Submit until `waiter` is woken or it is abandoned.
struct Transfer {
  HttpRequest request;
  WaiterRef waiter;
  std::chrono::milliseconds max{0};  ///< 0: the waiter's `until` decides.
  std::atomic<bool> is_abandoned = false;
  std::atomic<uint64_t> placed = 0;

  const Curl* curl = nullptr;
  CURL* easy = nullptr;
  curl_slist* fields = nullptr;
  std::array<char, CURL_ERROR_SIZE> words{};
  size_t header_bytes = 0;
  size_t header_bytes_max = 0;
  bool has_begun = false;
  std::span<uint8_t> to;
  bool is_placed = false;
  HttpResponse response;
  /// Why the transfer was ended by this side.
  std::optional<Error> refusal;
  std::optional<Result<HttpResponse>> result;
};
using TransferRef = std::shared_ptr<Transfer>;

std::string_view Trim(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

size_t OnHeader(char* data, size_t size, size_t count, void* at) {
  auto& transfer = *static_cast<Transfer*>(at);
  const std::string_view line(data, size * count);
  HttpHead& head = transfer.response.head;
  transfer.header_bytes += line.size();
  if (transfer.header_bytes > transfer.header_bytes_max) {
    transfer.refusal =
        Error(Code::kExhausted, fmt::format("the answer's header is larger than {} bytes", transfer.header_bytes_max));
    return 0;
  }
  if (line.starts_with("HTTP/")) {
    // The last of several answers counts: "100 Continue" comes first, or a proxy's.
    head.fields.clear();
    long status = 0;
    transfer.curl->easy_getinfo(transfer.easy, CURLINFO_RESPONSE_CODE, &status);
    head.status = static_cast<int>(status);
    return line.size();
  }
  const auto colon = line.find(':');
  if (colon == std::string_view::npos) return line.size();
  std::string name(Trim(line.substr(0, colon)));
  std::ranges::transform(name, name.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c; });
  head.fields.emplace_back(std::move(name), Trim(line.substr(colon + 1)));
  return line.size();
}

size_t OnBody(char* data, size_t size, size_t count, void* at) {
  auto& transfer = *static_cast<Transfer*>(at);
  const size_t bytes = size * count;
  HttpResponse& response = transfer.response;
  if (!transfer.has_begun) {
    transfer.has_begun = true;
    if (transfer.request.place && response.head.is_success()) {
      Result<std::span<uint8_t>> to = transfer.request.place(response.head);
      if (!to) {
        transfer.refusal = std::move(to).error();
        return 0;
      }
      transfer.to = *to;
      transfer.is_placed = true;
    }
  }
  if (transfer.is_placed) {
    const uint64_t placed = transfer.placed.load(std::memory_order_relaxed);
    if (bytes > transfer.to.size() - placed) {
      transfer.refusal = Error(Code::kExhausted, "the answer holds more bytes than it announced");
      return 0;
    }
    if (bytes != 0) std::memcpy(transfer.to.data() + placed, data, bytes);
    transfer.placed.store(placed + bytes, std::memory_order_relaxed);
    return bytes;
  }
  if (bytes > transfer.request.body_bytes_max - response.body.size()) {
    transfer.refusal =
        Error(Code::kExhausted, fmt::format("the answer is larger than {} bytes", transfer.request.body_bytes_max));
    return 0;
  }
  response.body.insert(response.body.end(), data, data + bytes);
  return bytes;
}

/// Nobody inherits a connection.
curl_socket_t OpenSocket(void* /*at*/, curlsocktype /*purpose*/, curl_sockaddr* address) {
  return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

/// "https://host:port" of a URL, for messages.
std::string_view PlaceOf(std::string_view url) {
  const auto host = url.find("://");
  if (host == std::string_view::npos) return url;
  return url.substr(0, url.find_first_of("/?", host + 3));
}

Error ErrorOf(const Transfer& transfer, CURLcode code) {
  if (transfer.refusal) return Error(*transfer.refusal).Wrap(PlaceOf(transfer.request.url));
  const std::string why = transfer.words[0] != 0 ? transfer.words.data() : transfer.curl->easy_strerror(code);
  const std::string text = fmt::format("{} {}: {}", transfer.request.method, PlaceOf(transfer.request.url), why);
  switch (code) {
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_ISSUER_ERROR:
      return Error(Code::kInvalid, text + "; name the file of the server's certificate authority as `ca`");
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL: return Error(Code::kInvalid, text);
    case CURLE_OUT_OF_MEMORY: return Error(Code::kExhausted, text);
    default: return Error(Code::kUnavailable, text);
  }
}

}  // namespace

std::string_view HttpHead::Get(std::string_view name) const {
  for (const auto& [field, value] : fields) {
    if (field == name) return value;
  }
  return {};
}

/// The thread. What others say reaches it through `news_`.
class HttpClient::Loop {
 public:
  explicit Loop(HttpOptions options) : options_(std::move(options)) {}

  Status Start() {
    TRY_ASSIGN(curl_, Curl::Load());
    if (!options_.ca_file.empty() && access(options_.ca_file.c_str(), R_OK) != 0) {
      return Error(Code::kInvalid, fmt::format("file of authorities {}: {}", options_.ca_file, std::strerror(errno)));
    }
    multi_ = curl_->multi_init();
    if (multi_ == nullptr) return Error(Code::kUnavailable, "libcurl has no memory or descriptors left");
    const auto kept = static_cast<long>(options_.connections_max);
    curl_->multi_setopt(multi_, CURLMOPT_MAXCONNECTS, kept);
    curl_->multi_setopt(multi_, CURLMOPT_PIPELINING, CURLPIPE_NOTHING);
    thread_ = std::thread([this] { Run(); });
    return {};
  }

  ~Loop() {
    Stop();
    for (CURL* easy : idle_) curl_->easy_cleanup(easy);
    if (multi_ != nullptr) curl_->multi_cleanup(multi_);
  }

  /// From here on every transfer ends at once.
  void Stop() {
    if (!thread_.joinable()) return;
    {
      MutexLock lock(mutex_);
      is_ending_ = true;
    }
    curl_->multi_wakeup(multi_);
    thread_.join();
  }

  void Submit(TransferRef transfer) {
    {
      MutexLock lock(mutex_);
      if (!is_ending_) {
        news_.push_back(std::move(transfer));
        curl_->multi_wakeup(multi_);
        return;
      }
    }
    Finish(transfer, Ending());
  }

  void Abandon(const TransferRef& transfer) {
    transfer->is_abandoned = true;
    {
      MutexLock lock(mutex_);
      someone_left_ = true;
    }
    curl_->multi_wakeup(multi_);
  }

 private:
  void Run() {
    // A connection that breaks is an error code here, and signals are for other threads.
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
    pthread_setname_np(pthread_self(), "ingot-http");
    while (TakeNews()) {
      while (!waiting_.empty() && running_.size() < options_.connections_max) {
        TransferRef transfer = std::move(waiting_.front());
        waiting_.pop_front();
        if (!transfer->is_abandoned) Begin(std::move(transfer));
      }
      int running = 0;
      curl_->multi_perform(multi_, &running);
      bool has_ended = false;
      int left = 0;
      while (CURLMsg* const message = curl_->multi_info_read(multi_, &left)) {
        if (message->msg != CURLMSG_DONE) continue;
        End(message->easy_handle, message->data.result);
        has_ended = true;
      }
      if (has_ended && !waiting_.empty()) continue;
      curl_->multi_poll(multi_, nullptr, 0, kNothingToDo_ms, nullptr);
    }
    while (!running_.empty()) {
      const TransferRef transfer = running_.begin()->second;
      Release(running_.begin()->first);
      Finish(transfer, Ending());
    }
    for (auto& transfer : waiting_) Finish(transfer, Ending());
    waiting_.clear();
  }

  static Error Ending() { return Error(Code::kCancelled, "the HTTP client is ending"); }

  /// False when the client ends.
  bool TakeNews() {
    bool someone_left = false;
    {
      MutexLock lock(mutex_);
      for (auto& transfer : news_) waiting_.push_back(std::move(transfer));
      news_.clear();
      if (is_ending_) return false;
      someone_left = std::exchange(someone_left_, false);
    }
    if (someone_left) {
      std::erase_if(waiting_, [](const TransferRef& transfer) { return transfer->is_abandoned.load(); });
      std::vector<CURL*> left;
      for (const auto& [easy, transfer] : running_) {
        if (transfer->is_abandoned) left.push_back(easy);
      }
      for (CURL* easy : left) Release(easy);
    }
    return true;
  }

  void Begin(TransferRef transfer) {
    CURL* easy = nullptr;
    if (idle_.empty()) {
      easy = curl_->easy_init();
    } else {
      easy = idle_.back();
      idle_.pop_back();
    }
    if (easy == nullptr) return Finish(transfer, Error(Code::kExhausted, "no memory for a transfer"));
    Transfer& t = *transfer;
    t.curl = curl_;
    t.easy = easy;
    t.header_bytes_max = options_.header_bytes_max;
    for (const auto& [name, value] : t.request.fields) {
      t.fields = curl_->slist_append(t.fields, (name + ": " + value).c_str());
    }
    curl_->easy_setopt(easy, CURLOPT_URL, t.request.url.c_str());
    curl_->easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_->easy_setopt(easy, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1);
    // The path is signed as it is written.
    curl_->easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
    curl_->easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    // A name server that does not answer keeps nobody from leaving.
    curl_->easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
    curl_->easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
    curl_->easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, OpenSocket);
    curl_->easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(options_.connect_max.count()));
    curl_->easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, static_cast<long>(options_.bytes_per_s_min));
    curl_->easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, static_cast<long>(options_.slow_max.count()));
    if (t.max.count() != 0) curl_->easy_setopt(easy, CURLOPT_TIMEOUT_MS, static_cast<long>(t.max.count()));
    if (!options_.ca_file.empty()) curl_->easy_setopt(easy, CURLOPT_CAINFO, options_.ca_file.c_str());
    curl_->easy_setopt(easy, CURLOPT_BUFFERSIZE, 256L << 10);
    curl_->easy_setopt(easy, CURLOPT_UPLOAD_BUFFERSIZE, 256L << 10);
    curl_->easy_setopt(easy, CURLOPT_HEADERFUNCTION, OnHeader);
    curl_->easy_setopt(easy, CURLOPT_HEADERDATA, &t);
    curl_->easy_setopt(easy, CURLOPT_WRITEFUNCTION, OnBody);
    curl_->easy_setopt(easy, CURLOPT_WRITEDATA, &t);
    curl_->easy_setopt(easy, CURLOPT_ERRORBUFFER, t.words.data());
    curl_->easy_setopt(easy, CURLOPT_HTTPHEADER, t.fields);
    if (t.request.method == "HEAD") {
      curl_->easy_setopt(easy, CURLOPT_NOBODY, 1L);
    } else if (t.request.method != "GET") {
      if (t.request.method == "PUT" || t.request.method == "POST") {
        curl_->easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(t.request.body.size()));
        curl_->easy_setopt(easy, CURLOPT_POSTFIELDS,
                           t.request.body.empty() ? "" : reinterpret_cast<const char*>(t.request.body.data()));
      }
      curl_->easy_setopt(easy, CURLOPT_CUSTOMREQUEST, t.request.method.c_str());
    }
    if (t.request.signature) {
      const HttpSignature& by = *t.request.signature;
      curl_->easy_setopt(easy, CURLOPT_AWS_SIGV4, fmt::format("aws:amz:{}:{}", by.region, by.service).c_str());
      curl_->easy_setopt(easy, CURLOPT_USERNAME, by.name.c_str());
      curl_->easy_setopt(easy, CURLOPT_PASSWORD, by.secret.Reveal().c_str());
    }
    running_.emplace(easy, transfer);
    if (const CURLMcode added = curl_->multi_add_handle(multi_, easy); added != CURLM_OK) {
      Release(easy);
      Finish(transfer, Error(Code::kUnavailable, curl_->multi_strerror(added)));
    }
  }

  void End(CURL* easy, CURLcode code) {
    const TransferRef transfer = running_.at(easy);
    curl_off_t wait_s = 0;
    if (curl_->easy_getinfo(easy, CURLINFO_RETRY_AFTER, &wait_s) == CURLE_OK) {
      transfer->response.retry_after = std::chrono::seconds(std::clamp<curl_off_t>(wait_s, 0, 86'400));
    }
    // An answer without a body has its place too.
    if (code == CURLE_OK && !transfer->has_begun) OnBody(nullptr, 0, 0, transfer.get());
    Result<HttpResponse> result = code == CURLE_OK && !transfer->refusal
                                      ? Result<HttpResponse>(std::move(transfer->response))
                                      : ErrorOf(*transfer, code);
    Release(easy);
    Finish(transfer, std::move(result));
  }

  void Release(CURL* easy) {
    const auto at = running_.find(easy);
    curl_->multi_remove_handle(multi_, easy);
    // Names and secrets with it.
    curl_->easy_reset(easy);
    curl_->slist_free_all(at->second->fields);
    at->second->fields = nullptr;
    at->second->easy = nullptr;
    running_.erase(at);
    if (idle_.size() < options_.connections_max) {
      idle_.push_back(easy);
    } else {
      curl_->easy_cleanup(easy);
    }
  }

  static void Finish(const TransferRef& transfer, Result<HttpResponse> result) {
    transfer->result = std::move(result);
    if (transfer->waiter) transfer->waiter->Wake();
  }

  const HttpOptions options_;
  const Curl* curl_ = nullptr;
  CURLM* multi_ = nullptr;
  std::thread thread_;
  Mutex mutex_;
  std::vector<TransferRef> news_ GUARDED_BY(mutex_);
  bool someone_left_ GUARDED_BY(mutex_) = false;
  bool is_ending_ GUARDED_BY(mutex_) = false;
  // Of the thread.
  std::deque<TransferRef> waiting_;
  std::unordered_map<CURL*, TransferRef> running_;
  std::vector<CURL*> idle_;
};

HttpClient::HttpClient(std::shared_ptr<Loop> loop) : loop_(std::move(loop)) {}

HttpClient::~HttpClient() { loop_->Stop(); }

Result<std::unique_ptr<HttpClient>> HttpClient::Start(const HttpOptions& options) {
  auto loop = std::make_shared<Loop>(options);
  TRY(loop->Start());
  return std::unique_ptr<HttpClient>(new HttpClient(std::move(loop)));
}

Task<HttpResponse> HttpClient::Send(HttpRequest request, Until until, HttpProgress* progress) {
  if (progress != nullptr) progress->placed = 0;
  CO_TRY(until.Check());
  auto transfer = std::make_shared<Transfer>();
  transfer->request = std::move(request);
  transfer->waiter = std::make_shared<Waiter>();
  // Who comes back late finds the loop, if not the client.
  const std::shared_ptr<Loop> loop = loop_;
  loop->Submit(transfer);
  Status waited = co_await Waiter::Wait(transfer->waiter, std::move(until));
  if (!waited) {
    loop->Abandon(transfer);
    co_return std::move(waited).error();
  }
  if (progress != nullptr) progress->placed = transfer->placed.load();
  co_return *std::move(transfer->result);
}

void HttpClient::SendUnheard(HttpRequest request, std::chrono::milliseconds max) {
  auto transfer = std::make_shared<Transfer>();
  transfer->request = std::move(request);
  transfer->max = max;
  loop_->Submit(std::move(transfer));
}

}  // namespace ingot::cache
