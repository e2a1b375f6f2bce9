// SPDX-License-Identifier: Apache-2.0
#include "cache/peer/remote_blobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace ingot::cache {
namespace {

using proto::RemoteOp;
using proto::RemoteRequestT;

RemoteRequestT AboutBlob(RemoteOp op, const Digest& digest) {
  RemoteRequestT request;
  request.op = op;
  AddDigest(request.digests, digest);
  return request;
}

}  // namespace

Task<SealedRef> RemoteBlobs::Get(Digest digest, Until until) {
  RemoteRequestT request = AboutBlob(RemoteOp::BlobGet, digest);
  CO_TRY_ASSIGN(RemoteAnswer answer, co_await client_->Call(std::move(request), nullptr, until));
  // Here, on the caller's executor: others on the connection do not wait for it.
  if (DigestOf(answer.blob->bytes()) != digest) {
    co_return Error(Code::kCorrupt,
                    fmt::format("{}: blob {} came with other bytes", client_->Describe(), digest.ToHex()));
  }
  co_return std::move(answer.blob);
}

Task<bool> RemoteBlobs::Put(Digest digest, SealedRef blob, double cost_s, Until until) {
  RemoteRequestT request = AboutBlob(RemoteOp::BlobPut, digest);
  request.number = blob->size();
  request.cost_s = cost_s;
  CO_TRY_ASSIGN(const RemoteAnswer answer, co_await client_->Call(std::move(request), std::move(blob), until));
  co_return answer.reply.flag;
}

Task<std::vector<bool>> RemoteBlobs::Has(std::vector<Digest> digests, Until until) {
  CO_TRY(until.Check());
  std::vector<bool> out;
  while (out.size() < digests.size()) {
    const size_t count = std::min(kRemoteNamesMax, digests.size() - out.size());
    RemoteRequestT request;
    request.op = RemoteOp::BlobHas;
    for (size_t i = 0; i < count; ++i) AddDigest(request.digests, digests[out.size() + i]);
    CO_TRY_ASSIGN(const RemoteAnswer answer, co_await client_->Call(std::move(request), nullptr, until));
    if (answer.reply.flags.size() != count) {
      co_return Error(Code::kUnavailable, "the serving daemon answered for another number of blobs");
    }
    out.insert(out.end(), answer.reply.flags.begin(), answer.reply.flags.end());
  }
  co_return out;
}

Task<bool> RemoteBlobs::Delete(Digest digest, Until until) {
  RemoteRequestT request = AboutBlob(RemoteOp::BlobDelete, digest);
  CO_TRY_ASSIGN(const RemoteAnswer answer, co_await client_->Call(std::move(request), nullptr, until));
  co_return answer.reply.flag;
}

}  // namespace ingot::cache
