// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/until.h"
#include "cache/async/task.h"
#include "cache/index/index.h"
#include "cache/net/transport.h"
#include "cache/store/sealed_file.h"
#include "proto/frame.h"
#include "proto/remote_generated.h"

/// What both sides of a connection between daemons do (docs/format/remote.md).
namespace ingot::cache {

inline constexpr uint16_t kRemoteVersion = 1;
/// Before a client has said who it is, and what it is answered then.
inline constexpr uint32_t kRemoteHelloBytesMax = 8u << 10;
/// A record of kRecordBytesMax with all that is said of it.
inline constexpr uint32_t kRemoteRequestBytesMax = kRecordBytesMax + (1u << 20);
inline constexpr uint32_t kRemoteReplyBytesMax = 2 * kRecordBytesMax + (8u << 20);
/// Bytes of records beyond which a reply holds no more of them.
inline constexpr size_t kRemoteRecordsBytes = kRecordBytesMax;
inline constexpr size_t kRemoteNamesMax = 1024;  ///< Records or blobs of one request.
inline constexpr size_t kRemoteRowsMax = 2048;
inline constexpr size_t kRemoteTextBytesMax = 64u << 10;  ///< Holder, progress, place in a listing.
/// Blobs travel in pieces of this size, the last may be smaller.
inline constexpr uint32_t kRemoteChunkBytes = 256u << 10;

/// Frames out of a stream. All on the transport's executor; one call at a time.
class RemoteReader {
 public:
  explicit RemoteReader(std::shared_ptr<Transport> transport);
  /// kUnavailable: the end; kCorrupt: what came is no frame.
  Task<proto::FrameHeader> Header();
  /// Exactly as many bytes as `into` has, where they belong: what is large is not copied.
  Task<void> Body(std::span<uint8_t> into);
  /// A body that is a message. Room grows with what has come.
  Task<Buffer> Message(uint32_t bytes);
  Task<void> Skip(uint32_t bytes);
  /// When the first byte came of a frame that is not whole.
  std::optional<SteadyTime> partial_since() const { return partial_since_; }
  /// When anything came.
  SteadyTime heard() const { return heard_; }

 private:
  Task<void> Fill();
  void Took(size_t bytes);

  const std::shared_ptr<Transport> transport_;
  Buffer room_;
  size_t begin_ = 0, end_ = 0;
  uint64_t due_ = 0;  ///< Bytes of the body that are not read yet.
  std::optional<SteadyTime> partial_since_;
  SteadyTime heard_ = std::chrono::steady_clock::now();
};

/// Writes frames: messages in their order, and pieces of blobs by turns behind them, so that none waits for a whole
/// one. On the transport's executor; made by std::make_shared.
class RemoteWriter : public std::enable_shared_from_this<RemoteWriter> {
 public:
  /// `on_change` is called after each write, with its error where it failed: nothing is written any more then.
  RemoteWriter(boost::asio::any_io_executor executor, std::shared_ptr<Transport> transport,
               std::function<void(const Status&)> on_change);

  void Send(proto::RemoteType type, uint32_t request, Bytes body = {});
  /// All of a blob in pieces; then `on_sent`.
  void Stream(uint32_t request, SealedRef blob, std::function<void()> on_sent);
  /// What is left of a blob is not sent. Its `on_sent` is not called.
  void Drop(uint32_t request);
  /// Forgets what is queued and calls nobody any more.
  void Close();

  /// Bytes of messages that the kernel has not taken.
  size_t message_bytes() const { return message_bytes_; }
  bool is_idle() const { return !writing_since_ && messages_.empty() && streams_.empty(); }
  /// When the write that is under way began.
  std::optional<SteadyTime> writing_since() const { return writing_since_; }

 private:
  struct Streaming {
    uint32_t request = 0;
    SealedRef blob;
    uint64_t sent = 0;
    std::function<void()> on_sent;
  };
  void Begin();
  boost::asio::awaitable<void> Run();

  const boost::asio::any_io_executor executor_;
  const std::shared_ptr<Transport> transport_;
  std::function<void(const Status&)> on_change_;
  std::deque<Buffer> messages_;
  std::deque<Streaming> streams_;
  /// The one of which a piece is being written, when it was dropped meanwhile.
  bool is_dropped_ = false;
  uint32_t streaming_ = 0;
  size_t message_bytes_ = 0;
  bool is_writing_ = false;
  bool is_closed_ = false;
  std::optional<SteadyTime> writing_since_;
};

/// Milliseconds left, as they are sent; at least 1.
uint32_t RemoteWaitMs(const Until& until);

inline void AddDigest(std::vector<uint64_t>& to, const Digest& digest) {
  to.push_back(digest.low);
  to.push_back(digest.high);
}
std::unique_ptr<proto::RemoteLeaseT> ToRemote(const Lease& lease);
Lease FromRemote(const proto::RemoteLeaseT* lease);
/// Text of somebody else for people: one line, not too long.
std::string RemotePrintable(std::string_view text);
/// The error that a code and a text of the other side stand for; kUnavailable where the code is none.
Error RemoteError(uint8_t code, std::string_view text);

inline std::vector<uint8_t> RemoteBytes(std::string_view text) { return {text.begin(), text.end()}; }
inline std::string RemoteText(const std::vector<uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }

}  // namespace ingot::cache
