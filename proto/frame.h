// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "proto/deadline.h"

namespace ingot::proto {

inline constexpr uint32_t kFrameMagic = 0x314E4749;  // "IGN1" read as bytes 49 47 4E 31
inline constexpr uint8_t kWireVersion = 1;
inline constexpr size_t kFrameHeaderBytes = 16;
inline constexpr uint32_t kFrameBytesMax = 256u << 20;
inline constexpr size_t kFrameDescriptorsMax = 64;

/// Header in front of every message: magic u32, version u8, descriptor count u8, type u16,
/// request id u32, length u32; little-endian.
struct FrameHeader {
  uint16_t type = 0;
  uint8_t descriptors = 0;
  uint32_t request = 0;
  uint32_t length = 0;
};

std::array<uint8_t, kFrameHeaderBytes> EncodeHeader(const FrameHeader& header);
/// kCorrupt: magic; kIncompatible: version; kExhausted: length or descriptors over the limit.
Result<FrameHeader> DecodeHeader(Bytes bytes);

/// One message with its descriptors.
struct Frame {
  FrameHeader header;
  Buffer body;
  std::vector<UniqueFd> descriptors;
};

/// Blocking send and receive on a Unix stream socket, with SCM_RIGHTS. kUnavailable: the peer is gone; kTimeout: the
/// deadline passed, perhaps within a frame, so that the connection is of no use afterwards.
Status SendFrame(int socket, const FrameHeader& header, Bytes body, Deadline deadline,
                 const std::vector<int>& descriptors = {});
/// What recvmsg gives at once (-1: errno, EAGAIN where there is nothing yet); descriptors that come with it are
/// appended.
ssize_t ReceiveSome(int socket, std::span<uint8_t> into, std::vector<UniqueFd>& descriptors);
/// kExhausted when the body has more than `bytes_max` bytes, kCorrupt when it is no frame.
Result<Frame> ReceiveFrame(int socket, Deadline deadline, uint32_t bytes_max = kFrameBytesMax);

/// A memory file of `bytes` zeros, to be filled and then sealed. kExhausted: memory or descriptors.
Result<UniqueFd> MakeMemory(const char* name, uint64_t bytes);
/// Nobody writes, grows or shrinks it from here on. kInternal where somebody maps it for writing, or its pages are in
/// use, for half a second more.
Status SealMemory(int fd);
/// Writes on where the last ended. kExhausted: memory.
Status AppendToMemory(int fd, Bytes bytes);
/// A memory file with these bytes, sealed against writing, growing and shrinking.
Result<UniqueFd> MakeSealedMemory(const char* name, Bytes bytes);
/// kIncompatible unless `fd` is sealed as above: otherwise its owner could change mapped code.
Status CheckSealed(int fd);

}  // namespace ingot::proto
