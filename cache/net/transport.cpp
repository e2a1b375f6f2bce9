// SPDX-License-Identifier: Apache-2.0
#include "cache/net/transport.h"

#include <fmt/format.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <boost/asio/connect.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <optional>
#include <utility>

#include "cache/trust/private_file.h"

namespace ingot::cache {

namespace asio = boost::asio;

struct TlsServer {
  asio::ssl::context context{asio::ssl::context::tls_server};
};

namespace {

using asio::ip::tcp;
using Unix = asio::local::stream_protocol;

Error Broken(std::string_view what, const boost::system::error_code& error) {
  return Error(Code::kUnavailable, fmt::format("{}: {}", what, error.message()));
}

/// Small messages go at once, since somebody waits for each. A peer that has gone without a word is noticed within a
/// minute or two, also where nobody sends anything.
void Tune(int socket) {
  const auto set = [socket](int level, int name, int value) { setsockopt(socket, level, name, &value, sizeof value); };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 30);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 10);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, 60'000);
}

/// What is the same for all sorts of streams once they are connected.
template <typename Stream>
class StreamTransport : public Transport {
 public:
  template <typename... Args>
  explicit StreamTransport(Args&&... args) : stream_(std::forward<Args>(args)...) {}

  Task<size_t> ReadSome(asio::mutable_buffer into) override {
    boost::system::error_code error;
    const size_t count = co_await stream_.async_read_some(into, asio::redirect_error(asio::use_awaitable, error));
    if (error) co_return Broken("read", error);
    co_return count;
  }
  Task<void> Write(std::vector<asio::const_buffer> bytes) override {
    boost::system::error_code error;
    co_await asio::async_write(stream_, bytes, asio::redirect_error(asio::use_awaitable, error));
    if (error) co_return Broken("write", error);
    co_return Status();
  }
  void Close() override {
    closed_ = true;
    boost::system::error_code ignored;
    stream_.lowest_layer().close(ignored);
    if (resolver_) resolver_->cancel();
  }

 protected:
  /// A host with several addresses is tried at each of them.
  Task<void> ConnectTcp(tcp::socket::lowest_layer_type& socket, const Place& place) {
    boost::system::error_code error;
    tcp::resolver::results_type found;
    if (const auto address = asio::ip::make_address(place.host, error); !error) {
      found = tcp::resolver::results_type::create(tcp::endpoint(address, place.port), place.host, "");
    } else {
      resolver_.emplace(socket.get_executor());
      found = co_await resolver_->async_resolve(place.host, std::to_string(place.port),
                                                asio::redirect_error(asio::use_awaitable, error));
      if (error) co_return Broken("look up host", error);
    }
    if (!closed_) co_await asio::async_connect(socket, found, asio::redirect_error(asio::use_awaitable, error));
    if (closed_) error = asio::error::operation_aborted;
    if (error) co_return Broken("connect", error);
    Tune(socket.native_handle());
    co_return Status();
  }

  Stream stream_;
  bool closed_ = false;

 private:
  std::optional<tcp::resolver> resolver_;
};

class TcpTransport final : public StreamTransport<tcp::socket> {
 public:
  TcpTransport(const asio::any_io_executor& executor, Place place)
      : StreamTransport(executor), place_(std::move(place)) {}
  Task<void> Connect() override { return ConnectTcp(stream_.lowest_layer(), place_); }

 private:
  const Place place_;
};

class UnixTransport final : public StreamTransport<Unix::socket> {
 public:
  UnixTransport(const asio::any_io_executor& executor, std::string path)
      : StreamTransport(executor), path_(std::move(path)) {}
  Task<void> Connect() override {
    boost::system::error_code error;
    co_await stream_.async_connect(Unix::endpoint(path_), asio::redirect_error(asio::use_awaitable, error));
    if (error) co_return Broken("connect", error);
    co_return Status();
  }

 private:
  const std::string path_;
};

class TlsTransport final : public StreamTransport<asio::ssl::stream<tcp::socket>> {
 public:
  TlsTransport(const asio::any_io_executor& executor, asio::ssl::context context, Place place)
      : StreamTransport(tcp::socket(executor), context), context_(std::move(context)), place_(std::move(place)) {}
  Task<void> Connect() override {
    CO_TRY(co_await ConnectTcp(stream_.lowest_layer(), place_));
    boost::system::error_code error;
    stream_.set_verify_mode(asio::ssl::verify_peer, error);
    if (error) co_return Broken("TLS", error);
    SSL* const ssl = stream_.native_handle();
    boost::system::error_code no_address;
    asio::ip::make_address(place_.host, no_address);
    // A name tells servers of several which one is meant; an address may not stand there.
    const bool is_set = no_address ? SSL_set1_host(ssl, place_.host.c_str()) == 1 &&
                                         SSL_set_tlsext_host_name(ssl, place_.host.c_str()) == 1
                                   : X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), place_.host.c_str()) == 1;
    if (!is_set) co_return Error(Code::kUnavailable, fmt::format("TLS: '{}' cannot be verified", place_.host));
    co_await stream_.async_handshake(asio::ssl::stream_base::client, asio::redirect_error(asio::use_awaitable, error));
    if (!error) co_return Status();
    const long verdict = SSL_get_verify_result(stream_.native_handle());
    if (verdict == X509_V_OK) co_return Broken("TLS", error);
    co_return Error(Code::kUnavailable, fmt::format("TLS: the server's certificate does not hold: {}",
                                                    X509_verify_cert_error_string(verdict)));
  }

 private:
  // Streams count the references to what OpenSSL made of it.
  asio::ssl::context context_;
  const Place place_;
};

Result<asio::ssl::context> TlsContext(const Place& place) {
  asio::ssl::context context(asio::ssl::context::tls_client);
  SSL_CTX_set_min_proto_version(context.native_handle(), TLS1_2_VERSION);
  boost::system::error_code error;
  const auto read = [&](std::string_view what, const std::string& file) -> Status {
    if (!error) return {};
    return Error(Code::kInvalid, fmt::format("TLS {} '{}' cannot be used: {}", what, file, error.message()));
  };
  if (place.ca_file.empty()) {
    context.set_default_verify_paths(error);
  } else {
    context.load_verify_file(place.ca_file, error);
    // What the file names is trusted, the certificate of one server as well as that of an authority.
    X509_VERIFY_PARAM_set_flags(SSL_CTX_get0_param(context.native_handle()), X509_V_FLAG_PARTIAL_CHAIN);
  }
  TRY(read("authorities", place.ca_file));
  if (!place.cert_file.empty()) {
    context.use_certificate_chain_file(place.cert_file, error);
    TRY(read("certificate", place.cert_file));
    context.use_private_key_file(place.key_file, asio::ssl::context::pem, error);
    TRY(read("key", place.key_file));
  }
  return context;
}

/// A connection that was accepted.
class AcceptedTls final : public StreamTransport<asio::ssl::stream<tcp::socket>> {
 public:
  AcceptedTls(tcp::socket socket, std::shared_ptr<TlsServer> tls)
      : StreamTransport(std::move(socket), tls->context), tls_(std::move(tls)) {}
  Task<void> Connect() override {
    boost::system::error_code error;
    co_await stream_.async_handshake(asio::ssl::stream_base::server, asio::redirect_error(asio::use_awaitable, error));
    if (error) co_return Broken("TLS", error);
    co_return Status();
  }

 private:
  const std::shared_ptr<TlsServer> tls_;
};

class AcceptedTcp final : public StreamTransport<tcp::socket> {
 public:
  explicit AcceptedTcp(tcp::socket socket) : StreamTransport(std::move(socket)) {}
  Task<void> Connect() override { co_return Status(); }
};

}  // namespace

Result<std::shared_ptr<TlsServer>> MakeTlsServer(const TlsServerFiles& files) {
  auto server = std::make_shared<TlsServer>();
  asio::ssl::context& context = server->context;
  SSL_CTX* const native = context.native_handle();
  SSL_CTX_set_min_proto_version(native, TLS1_2_VERSION);
  SSL_CTX_set_options(native, SSL_OP_NO_RENEGOTIATION);
  // A connection of an idle peer should cost little; resumption is not worth its state.
  SSL_CTX_set_mode(native, SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_session_cache_mode(native, SSL_SESS_CACHE_OFF);
  boost::system::error_code error;
  const auto used = [&](std::string_view what, const std::string& file) -> Status {
    if (!error) return {};
    return Error(Code::kInvalid, fmt::format("TLS {} '{}' cannot be used: {}", what, file, error.message()));
  };
  context.use_certificate_chain_file(files.cert_file, error);
  TRY(used("certificate", files.cert_file));
  TRY(CheckPrivateFile(files.key_file, "TLS key"));
  context.use_private_key_file(files.key_file, asio::ssl::context::pem, error);
  TRY(used("key", files.key_file));
  if (!files.client_ca_file.empty()) {
    context.load_verify_file(files.client_ca_file, error);
    TRY(used("authorities of clients", files.client_ca_file));
    context.set_verify_mode(asio::ssl::verify_peer | asio::ssl::verify_fail_if_no_peer_cert, error);
    TRY(used("authorities of clients", files.client_ca_file));
  }
  return server;
}

Result<std::shared_ptr<Transport>> MakeAccepted(const asio::any_io_executor& executor, UniqueFd socket,
                                                std::shared_ptr<TlsServer> tls) {
  Tune(socket.get());
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  getsockname(socket.get(), reinterpret_cast<sockaddr*>(&own), &size);
  tcp::socket stream(executor);
  boost::system::error_code error;
  stream.assign(own.ss_family == AF_INET6 ? tcp::v6() : tcp::v4(), socket.get(), error);
  if (error) return Broken("take a connection", error);
  socket.Release();
  if (tls == nullptr) return std::shared_ptr<Transport>(std::make_shared<AcceptedTcp>(std::move(stream)));
  return std::shared_ptr<Transport>(std::make_shared<AcceptedTls>(std::move(stream), std::move(tls)));
}

Result<std::shared_ptr<Transport>> MakeTransport(const asio::any_io_executor& executor, const Place& place) {
  switch (place.kind) {
    case Place::Kind::kTcp: return std::shared_ptr<Transport>(std::make_shared<TcpTransport>(executor, place));
    case Place::Kind::kUnix:
      if (place.path.size() >= sizeof(sockaddr_un::sun_path)) {
        return Error(Code::kInvalid, fmt::format("the socket path '{}' is longer than the system takes", place.path));
      }
      return std::shared_ptr<Transport>(std::make_shared<UnixTransport>(executor, place.path));
    case Place::Kind::kTls: break;
  }
  TRY_ASSIGN(asio::ssl::context context, TlsContext(place));
  return std::shared_ptr<Transport>(std::make_shared<TlsTransport>(executor, std::move(context), place));
}

}  // namespace ingot::cache
