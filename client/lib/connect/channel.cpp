// SPDX-License-Identifier: Apache-2.0
#include "client/lib/connect/channel.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "proto/endpoint.h"
#include "proto/message.h"

namespace ingot::client {
namespace {

/// A frame whose first byte has come is not held up by anything but a stuck daemon.
constexpr int kRestOfFrameMs = 30'000;

Error ErrorOf(const proto::Frame& frame) {
  const auto* reply = proto::ReadMessage<proto::ErrorReply>(frame.body);
  if (reply == nullptr) return Error(Code::kCorrupt, "the daemon's error reply does not verify");
  const bool known =
      reply->code() >= static_cast<uint8_t>(Code::kInvalid) && reply->code() <= static_cast<uint8_t>(Code::kDenied);
  return Error(known ? static_cast<Code>(reply->code()) : Code::kInternal,
               reply->message() == nullptr ? "" : reply->message()->str());
}

/// Before anybody is asked: a name under /tmp may be another user's, who would keep us waiting for nothing.
Status CheckOwners(const std::string& path, uid_t uid) {
  struct stat found{};
  for (const std::string& at : {proto::DirectoryOf(path), path}) {
    if (lstat(at.c_str(), &found) != 0) {
      return Error(Code::kUnavailable, fmt::format("no daemon at {}: {}", path, std::strerror(errno)));
    }
    const bool is_ours = found.st_uid == uid;
    // Of a directory it is enough that nobody else replaces what is ours there.
    const bool is_kept = at != path && (found.st_uid == 0 || (found.st_mode & S_ISVTX) != 0);
    if (!is_ours && !is_kept) {
      return Error(Code::kUnavailable,
                   fmt::format("no daemon at {}: {} belongs to user {}, not to user {}", path, at, found.st_uid, uid));
    }
  }
  return {};
}

}  // namespace

Result<std::shared_ptr<Channel>> Channel::Connect(const std::string& path, int ms_max, uid_t uid) {
  TRY(CheckOwners(path, uid));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    return Error(Code::kInvalid, fmt::format("socket path '{}' is too long", path));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) return Error(Code::kExhausted, fmt::format("socket: {}", std::strerror(errno)));
  // Of a daemon that stands still the queue of connections may be full. What is sent later never waits in the call.
  const timeval most{.tv_sec = ms_max / 1000, .tv_usec = ms_max % 1000 * 1000};
  setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &most, sizeof most);
  int connected;
  do {
    connected = connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address);
  } while (connected != 0 && errno == EINTR);
  if (connected != 0 && errno == EAGAIN) {
    return Error(Code::kTimeout, fmt::format("the daemon at {} took no connection within {} ms", path, ms_max));
  }
  if (connected != 0) {
    return Error(Code::kUnavailable, fmt::format("no daemon at {}: {}", path, std::strerror(errno)));
  }
  ucred peer{};
  socklen_t size = sizeof peer;
  if (getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || peer.uid != uid) {
    return Error(Code::kUnavailable, fmt::format("the process that listens at {} belongs to another user", path));
  }
  return std::make_shared<Channel>(std::move(socket));
}

bool Channel::broken() const {
  MutexLock lock(mutex_);
  return broken_.has_value();
}

bool Channel::parted() const {
  MutexLock lock(mutex_);
  return parted_;
}

void Channel::Break(const Error& reason) {
  if (!broken_) broken_ = reason;
  // Wakes whoever waits in poll or in a send.
  shutdown(socket_.get(), SHUT_RDWR);
  changed_.NotifyAll();
}

Result<proto::Frame> Channel::Call(proto::MessageType type, Bytes body, int deadline_ms,
                                   const std::vector<int>& files) {
  uint32_t request;
  {
    MutexLock lock(mutex_);
    if (broken_) return *broken_;
    request = next_request_++;
    if (next_request_ == 0) next_request_ = 1;
    waiting_[request];
  }
  const auto deadline =
      deadline_ms < 0 ? proto::Deadline::Never() : proto::Deadline::AfterMs(static_cast<uint64_t>(deadline_ms));
  if (Status sent = Send(type, request, body, deadline, files); !sent) {
    // The daemon may have said why before it closed: its words are read below.
    if (sent.error().code() != Code::kUnavailable) {
      MutexLock lock(mutex_);
      waiting_.erase(request);
      return std::move(sent).error();
    }
  }
  TRY_ASSIGN(proto::Frame frame, Await(request, deadline));
  if (frame.header.type == static_cast<uint16_t>(proto::MessageType::Error)) return ErrorOf(frame);
  return frame;
}

/// One frame at a time, without the lock while it is sent.
Status Channel::Send(proto::MessageType type, uint32_t request, Bytes body, proto::Deadline deadline,
                     const std::vector<int>& files) {
  constexpr const char* kNotTaken = "the daemon took no request before the deadline";
  MutexLock lock(mutex_);
  while (sending_ && !broken_) {
    if (deadline.passed()) return Error(Code::kTimeout, kNotTaken);
    WaitForChange(deadline);
  }
  if (broken_) return Error(Code::kUnavailable, "the connection broke");
  sending_ = true;
  Status sent;
  {
    const MutexUnlock unlock(mutex_);
    const proto::FrameHeader header{.type = static_cast<uint16_t>(type), .request = request};
    sent = proto::SendFrame(socket_.get(), header, body, deadline, files);
  }
  sending_ = false;
  changed_.NotifyAll();
  // A part may be on its way: nothing else can follow it.
  if (!sent && sent.error().code() == Code::kTimeout) Break(Error(Code::kUnavailable, kNotTaken));
  return sent;
}

void Channel::WaitForChange(proto::Deadline deadline) {
  if (deadline.is_never()) {
    changed_.Wait(mutex_);
  } else {
    changed_.WaitUntil(mutex_, deadline.at());
  }
}

Result<proto::Frame> Channel::Await(uint32_t request, proto::Deadline deadline) {
  MutexLock lock(mutex_);
  while (true) {
    const auto slot = waiting_.find(request);
    if (slot->second.frame) {
      proto::Frame frame = std::move(*slot->second.frame);
      waiting_.erase(slot);
      return frame;
    }
    if (broken_ || deadline.passed()) {
      waiting_.erase(slot);
      if (broken_) return *broken_;
      return Error(Code::kTimeout, "no reply before the deadline");
    }
    if (!reading_) {
      ReadOne(deadline);
    } else {
      WaitForChange(deadline);
    }
  }
}

/// Reads one frame, or nothing until the deadline, with the lock released meanwhile.
void Channel::ReadOne(proto::Deadline deadline) {
  reading_ = true;
  std::optional<Result<proto::Frame>> frame;
  {
    const MutexUnlock unlock(mutex_);
    pollfd readable{socket_.get(), POLLIN, 0};
    const int ready = poll(&readable, 1, deadline.poll_ms());
    if (ready > 0) frame = proto::ReceiveFrame(socket_.get(), proto::Deadline::AfterMs(kRestOfFrameMs));
  }
  reading_ = false;
  if (frame && *frame) {
    proto::Frame& got = **frame;
    const auto slot = waiting_.find(got.header.request);
    if (slot != waiting_.end()) slot->second.frame = std::move(got);
    // Request 0 is about the connection: the daemon says why it closes it.
    if (got.header.request == 0) {
      const Error reason = ErrorOf(got);
      parted_ = !broken_ && reason.code() == Code::kUnavailable;
      Break(reason);
    }
  } else if (frame) {
    Break(Error(Code::kUnavailable, "the daemon is gone: " + frame->error().message()));
  }
  changed_.NotifyAll();
}

}  // namespace ingot::client
