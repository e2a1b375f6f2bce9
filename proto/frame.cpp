// SPDX-License-Identifier: Apache-2.0
#include "proto/frame.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>

#include "proto/memory_file.h"

namespace ingot::proto {
namespace {

constexpr size_t kBodyRoomBytes = 64 << 10;
constexpr int kSeals = F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK;
constexpr std::chrono::milliseconds kSealPauseMax{256};  // half a second in all

Error SystemError(Code code, const char* what) { return Error(code, std::string(what) + ": " + std::strerror(errno)); }

/// Room for the descriptors of one message.
union ControlBuffer {
  cmsghdr align;
  char bytes[CMSG_SPACE(sizeof(int) * kFrameDescriptorsMax)];
};

/// Waits until the socket is ready for `events`.
Status Await(int socket, int16_t events, Deadline deadline) {
  while (true) {
    pollfd poll_fd{socket, events, 0};
    const int ready = poll(&poll_fd, 1, deadline.poll_ms());
    if (ready > 0) return {};
    if (ready == 0) {
      return Error(Code::kTimeout,
                   events == POLLIN ? "no reply before the deadline" : "the peer took no bytes before the deadline");
    }
    if (errno != EINTR) return SystemError(Code::kUnavailable, "poll");
  }
}

/// Reads exactly `size` bytes; descriptors that arrive on the way are appended.
Status ReadExactly(int socket, uint8_t* to, size_t size, std::vector<UniqueFd>& descriptors, Deadline deadline) {
  while (size > 0) {
    // A peer that always has one more byte must not get past the deadline.
    if (deadline.passed()) return Error(Code::kTimeout, "no reply before the deadline");
    TRY(Await(socket, POLLIN, deadline));
    const ssize_t got = ReceiveSome(socket, {to, size}, descriptors);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got < 0) return SystemError(Code::kUnavailable, "receive");
    if (descriptors.size() > kFrameDescriptorsMax) {
      return Error(Code::kCorrupt, "more descriptors than a frame may carry arrived");
    }
    if (got == 0) return Error(Code::kUnavailable, "the peer closed the connection");
    to += got;
    size -= static_cast<size_t>(got);
  }
  return {};
}

/// Reads a body of `size` bytes. Room grows with what has come, so that a header alone cannot make
/// its reader take the memory that it announces.
Status ReadBody(int socket, Buffer& body, size_t size, std::vector<UniqueFd>& descriptors, Deadline deadline) {
  while (body.size() < size) {
    const size_t have = body.size();
    body.resize(std::min(size, have + std::max(have, kBodyRoomBytes)));
    TRY(ReadExactly(socket, body.data() + have, body.size() - have, descriptors, deadline));
  }
  return {};
}

}  // namespace

ssize_t ReceiveSome(int socket, std::span<uint8_t> into, std::vector<UniqueFd>& descriptors) {
  iovec part{into.data(), into.size()};
  ControlBuffer control;
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes;
  message.msg_controllen = sizeof control.bytes;
  const ssize_t got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  if (got < 0) return got;
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
      descriptors.emplace_back(fd);
    }
  }
  return got;
}

std::array<uint8_t, kFrameHeaderBytes> EncodeHeader(const FrameHeader& header) {
  std::array<uint8_t, kFrameHeaderBytes> out{};
  std::memcpy(out.data(), &kFrameMagic, 4);
  out[4] = kWireVersion;
  out[5] = header.descriptors;
  std::memcpy(out.data() + 6, &header.type, 2);
  std::memcpy(out.data() + 8, &header.request, 4);
  std::memcpy(out.data() + 12, &header.length, 4);
  return out;
}

Result<FrameHeader> DecodeHeader(Bytes bytes) {
  if (bytes.size() < kFrameHeaderBytes) {
    return Error(Code::kCorrupt, "a frame header has 16 bytes, found " + std::to_string(bytes.size()));
  }
  if (LoadLittle<uint32_t>(bytes, 0) != kFrameMagic) {
    return Error(Code::kCorrupt, "not an Ingot frame: wrong magic");
  }
  if (bytes[4] != kWireVersion) {
    return Error(Code::kIncompatible,
                 "wire version " + std::to_string(bytes[4]) + ", this build speaks " + std::to_string(kWireVersion));
  }
  FrameHeader header;
  header.descriptors = bytes[5];
  header.type = LoadLittle<uint16_t>(bytes, 6);
  header.request = LoadLittle<uint32_t>(bytes, 8);
  header.length = LoadLittle<uint32_t>(bytes, 12);
  if (header.length > kFrameBytesMax) {
    return Error(Code::kExhausted, "frame of " + std::to_string(header.length) + " bytes, the limit is " +
                                       std::to_string(kFrameBytesMax));
  }
  if (header.descriptors > kFrameDescriptorsMax) {
    return Error(Code::kExhausted, "frame with " + std::to_string(header.descriptors) + " descriptors, the limit is " +
                                       std::to_string(kFrameDescriptorsMax));
  }
  return header;
}

Status SendFrame(int socket, const FrameHeader& header, Bytes body, Deadline deadline,
                 const std::vector<int>& descriptors) {
  FrameHeader full = header;
  if (body.size() > kFrameBytesMax || descriptors.size() > kFrameDescriptorsMax) {
    return Error(Code::kExhausted, "message of " + std::to_string(body.size()) + " bytes and " +
                                       std::to_string(descriptors.size()) + " descriptors is over the frame limits");
  }
  full.length = static_cast<uint32_t>(body.size());
  full.descriptors = static_cast<uint8_t>(descriptors.size());
  auto head = EncodeHeader(full);
  iovec parts[2] = {{head.data(), head.size()}, {const_cast<uint8_t*>(body.data()), body.size()}};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = 2;
  ControlBuffer control;
  if (!descriptors.empty()) {
    const size_t bytes = descriptors.size() * sizeof(int);
    message.msg_control = control.bytes;
    message.msg_controllen = CMSG_SPACE(bytes);
    cmsghdr* c = CMSG_FIRSTHDR(&message);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(bytes);
    std::memcpy(CMSG_DATA(c), descriptors.data(), bytes);
  }
  size_t left = head.size() + body.size();
  while (left > 0) {
    const ssize_t sent = sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN) {
      TRY(Await(socket, POLLOUT, deadline));
      continue;
    }
    if (sent < 0) return SystemError(Code::kUnavailable, "send");
    left -= static_cast<size_t>(sent);
    // Descriptors travel with the first byte; what remains is plain bytes.
    message.msg_control = nullptr;
    message.msg_controllen = 0;
    size_t skip = static_cast<size_t>(sent);
    for (iovec& part : parts) {
      const size_t taken = std::min(skip, part.iov_len);
      part.iov_base = static_cast<uint8_t*>(part.iov_base) + taken;
      part.iov_len -= taken;
      skip -= taken;
    }
  }
  return {};
}

Result<Frame> ReceiveFrame(int socket, Deadline deadline, uint32_t bytes_max) {
  Frame frame;
  std::array<uint8_t, kFrameHeaderBytes> head;
  TRY(ReadExactly(socket, head.data(), head.size(), frame.descriptors, deadline));
  TRY_ASSIGN(frame.header, DecodeHeader(head));
  if (frame.header.length > bytes_max) {
    return Error(Code::kExhausted, "frame of " + std::to_string(frame.header.length) + " bytes, at most " +
                                       std::to_string(bytes_max) + " are expected here");
  }
  TRY(ReadBody(socket, frame.body, frame.header.length, frame.descriptors, deadline));
  if (frame.descriptors.size() != frame.header.descriptors) {
    return Error(Code::kCorrupt, "frame announced " + std::to_string(frame.header.descriptors) + " descriptors, " +
                                     std::to_string(frame.descriptors.size()) + " arrived");
  }
  return frame;
}

Result<UniqueFd> MakeMemory(const char* name, uint64_t bytes) {
  TRY_ASSIGN(UniqueFd fd, MakeMemoryFile(name));
  // Taken now: where memory is short, a page touched later would end the process.
  if (bytes != 0 && fallocate(fd.get(), 0, 0, static_cast<off_t>(bytes)) != 0) {
    return SystemError(Code::kExhausted, "take memory for a memory file");
  }
  return fd;
}

Status SealMemory(int fd) {
  // A file is busy while somebody can write to a page of it, and the kernel counts everyone who holds one: its own
  // moving of pages where memory is in pieces, and a child that was forked before a mapping was gone, until its exec.
  for (std::chrono::milliseconds pause{1};; pause *= 2) {
    if (fcntl(fd, F_ADD_SEALS, kSeals | F_SEAL_SEAL) == 0) return {};
    if (errno != EBUSY || pause > kSealPauseMax) return SystemError(Code::kInternal, "seal a memory file");
    std::this_thread::sleep_for(pause);
  }
}

Status AppendToMemory(int fd, Bytes bytes) {
  while (!bytes.empty()) {
    const ssize_t wrote = write(fd, bytes.data(), bytes.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return SystemError(Code::kExhausted, "write to a memory file");
    bytes = bytes.subspan(static_cast<size_t>(wrote));
  }
  return {};
}

Result<UniqueFd> MakeSealedMemory(const char* name, Bytes bytes) {
  TRY_ASSIGN(UniqueFd fd, MakeMemory(name, 0));
  TRY(AppendToMemory(fd.get(), bytes));
  TRY(SealMemory(fd.get()));
  return fd;
}

Status CheckSealed(int fd) {
  const int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0) return SystemError(Code::kIncompatible, "not a memory file that can be sealed");
  if ((seals & kSeals) != kSeals) {
    return Error(Code::kIncompatible, "the memory file is not sealed against change");
  }
  return {};
}

}  // namespace ingot::proto
