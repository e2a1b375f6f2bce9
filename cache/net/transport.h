// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/buffer.hpp>
#include <memory>
#include <string>
#include <vector>

#include "cache/async/task.h"
#include "proto/frame.h"

namespace ingot::cache {

/// Where a service listens, and how it is spoken to.
struct Place {
  enum class Kind : uint8_t { kTcp, kTls, kUnix };
  Kind kind = Kind::kTcp;
  std::string host;
  uint16_t port = 0;
  std::string path;       ///< kUnix
  /// kTls: PEM files. Without `ca_file` the system's authorities count; `cert_file` and `key_file` are shown to the
  /// service where it asks who we are.
  std::string ca_file;
  std::string cert_file;
  std::string key_file;
};

/// One connection as a stream of bytes: TCP, TLS over TCP or a Unix socket.
///
/// All calls on the executor it was made with; at most one ReadSome and one Write at a time. Errors: kUnavailable.
class Transport {
 public:
  virtual ~Transport() = default;
  /// Looks the host up, connects, and for TLS holds the certificate against authorities and host name. Once.
  virtual Task<void> Connect() = 0;
  /// At least one byte; an end of the stream is an error.
  virtual Task<size_t> ReadSome(boost::asio::mutable_buffer into) = 0;
  /// All of them; they stay where they are until this comes back.
  virtual Task<void> Write(std::vector<boost::asio::const_buffer> bytes) = 0;
  /// Waiting calls come back with an error. May be repeated.
  virtual void Close() = 0;
};

/// A connection to be. kInvalid: a certificate or key cannot be read.
Result<std::shared_ptr<Transport>> MakeTransport(const boost::asio::any_io_executor& executor, const Place& place);

/// What a TLS server shows: PEM files. With `client_ca_file`, clients must show a certificate of these authorities.
struct TlsServerFiles {
  std::string cert_file;
  std::string key_file;  ///< Of mode 0600 or narrower, and this user's.
  std::string client_ca_file;
};
/// Certificates, read once. Opaque; thread-safe.
struct TlsServer;
/// kInvalid, kUnavailable: a file cannot be used, or its key is open to others.
Result<std::shared_ptr<TlsServer>> MakeTlsServer(const TlsServerFiles& files);
/// A connection that was accepted: Connect() is the handshake alone. Without `tls` it is plain TCP.
Result<std::shared_ptr<Transport>> MakeAccepted(const boost::asio::any_io_executor& executor, UniqueFd socket,
                                                std::shared_ptr<TlsServer> tls);

}  // namespace ingot::cache
