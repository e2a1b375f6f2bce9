// SPDX-License-Identifier: Apache-2.0
//
// How S3Blobs reads: the first part of an object says how large it is, the others come side by side.
#include <fmt/format.h>
#include <zstd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <functional>

#include "base/log.h"
#include "cache/async/together.h"
#include "cache/s3/s3_blobs.h"
#include "cache/s3/s3_xml.h"

namespace ingot::cache {
namespace {

std::optional<uint64_t> NumberOf(std::string_view text) {
  uint64_t value = 0;
  const auto [last, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || last != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

/// "bytes 0-9/100": the first byte and the size of the whole.
struct ContentRange {
  uint64_t first = 0;
  uint64_t last = 0;
  uint64_t total = 0;
};
std::optional<ContentRange> RangeOf(std::string_view text) {
  if (!text.starts_with("bytes ")) return std::nullopt;
  text.remove_prefix(6);
  const auto dash = text.find('-');
  const auto slash = text.find('/');
  if (dash == std::string_view::npos || slash == std::string_view::npos || dash > slash) return std::nullopt;
  const auto first = NumberOf(text.substr(0, dash));
  const auto last = NumberOf(text.substr(dash + 1, slash - dash - 1));
  const auto total = NumberOf(text.substr(slash + 1));
  if (!first || !last || !total || *first > *last || *last >= *total) return std::nullopt;
  return ContentRange{*first, *last, *total};
}

}  // namespace

/// One blob on its way in. Shared with the transfers that fill it.
struct S3Blobs::Load {
  Digest digest;
  std::string key;
  std::optional<std::string> corrupt_tag;
  uint64_t part_bytes = 0;
  uint64_t value_bytes_max = 0;

  // What the first answer says.
  bool is_known = false;
  bool is_whole = false;  ///< The server sent everything, asked for a part or not.
  std::string tag;
  uint64_t stored_bytes = 0;
  uint64_t bytes = 0;
  bool is_packed = false;

  // Where the stored bytes go: in `room` as they are to be, or packed.
  std::optional<SealedRoom> room;
  Buffer packed;
  /// The first part of a large object, until there is room for all.
  Buffer first;
  uint64_t filled = 0;

  /// The same blob, of which nothing is known yet.
  std::shared_ptr<Load> Anew() const {
    const auto fresh = std::make_shared<Load>();
    fresh->digest = digest;
    fresh->key = key;
    fresh->part_bytes = part_bytes;
    fresh->value_bytes_max = value_bytes_max;
    return fresh;
  }

  /// Takes what `fresh` knows and has, of which `placed` bytes have come.
  void Keep(Load& fresh, uint64_t placed) {
    auto asked_tag = std::move(corrupt_tag);
    *this = std::move(fresh);
    corrupt_tag = std::move(asked_tag);
    filled = placed;
  }

  bool is_large() const { return stored_bytes > part_bytes && !is_whole; }

  Status Know(const HttpHead& head) {
    is_whole = head.status == 200;
    tag = head.Get("etag");
    if (const auto range = RangeOf(head.Get("content-range"))) {
      if (range->first != 0) return Error(Code::kUnavailable, "the server sent another part than the first");
      stored_bytes = range->total;
    } else if (const auto length = NumberOf(head.Get("content-length")); length && is_whole) {
      stored_bytes = *length;
    } else {
      return Error(Code::kUnavailable, "the server does not say how large the object is");
    }
    const std::string_view packing = head.Get(kS3PackingField);
    if (!packing.empty() && packing != "none" && packing != "zstd") {
      return Error(Code::kIncompatible, fmt::format("object {} is packed as \"{}\", which this build does not know",
                                                    key, PlainText(packing)));
    }
    is_packed = packing == "zstd";
    bytes = NumberOf(head.Get(kS3BytesField)).value_or(is_packed ? 0 : stored_bytes);
    if (bytes > value_bytes_max || stored_bytes > value_bytes_max) {
      return Error(Code::kExhausted, fmt::format("object {} has {} bytes, more than value_bytes_max = {}", key,
                                                 std::max(bytes, stored_bytes), value_bytes_max));
    }
    is_known = true;
    return {};
  }

  Result<std::span<uint8_t>> MakeRoom() {
    if (is_packed) {
      packed.resize(stored_bytes);
      return std::span<uint8_t>(packed);
    }
    TRY_ASSIGN(room, SealedRoom::Make(stored_bytes));
    return std::span<uint8_t>(room->data(), stored_bytes);
  }
};

std::optional<std::string> S3Blobs::CorruptTag(const Digest& digest) const {
  MutexLock lock(mutex_);
  const auto at = corrupt_.find(digest);
  if (at == corrupt_.end()) return std::nullopt;
  return at->second;
}

Error S3Blobs::Corrupt(const Load& load, std::string why) {
  ++corrupt_count_;
  const std::string text =
      fmt::format("object {} of {} is not what its name says: {}", load.key, client_->place(), why);
  LogWarn("damaged object", {{"store", client_->place()}, {"object", load.key}, {"reason", why}});
  MutexLock lock(mutex_);
  if (corrupt_.size() >= options_.corrupt_max) corrupt_.erase(corrupt_.begin());
  corrupt_[load.digest] = load.tag;
  return Error(Code::kCorrupt, text);
}

Task<SealedRef> S3Blobs::Get(Digest digest, Until until) {
  CO_TRY_ASSIGN(const Budget::Share share, co_await loads_->Take(1, until));
  const auto load = std::make_shared<Load>();
  load->digest = digest;
  load->key = KeyOf(digest);
  load->corrupt_tag = CorruptTag(digest);
  load->part_bytes = options_.part_bytes;
  load->value_bytes_max = options_.value_bytes_max;
  CO_TRY(co_await LoadFirst(load, until));
  Budget::Share bytes;
  const uint64_t unpacked = load->is_packed ? load->bytes : 0;
  if (load->is_large() || unpacked > options_.part_bytes) {
    CO_TRY_ASSIGN(bytes, co_await load_bytes_->Take(load->stored_bytes + unpacked, until));
  }
  CO_TRY(co_await LoadRest(load, until));
  CO_TRY(until.Check());
  Result<SealedRef> blob = Unpack(*load);
  if (blob) {
    ++hits_;
    placed_bytes_ += load->stored_bytes;
    if (load->corrupt_tag) {
      // Somebody has repaired it.
      MutexLock lock(mutex_);
      corrupt_.erase(digest);
    }
  }
  co_return std::move(blob);
}

/// Asks for the first part of an object, or for all of it, into `fresh`.
std::shared_ptr<S3Request> S3Blobs::FirstOf(const Load& load, const std::shared_ptr<Load>& fresh, bool has_range) {
  const auto asked = std::make_shared<S3Request>();
  asked->key = load.key;
  if (has_range) asked->fields.emplace_back("Range", fmt::format("bytes=0-{}", load.part_bytes - 1));
  if (load.corrupt_tag && !load.corrupt_tag->empty()) asked->fields.emplace_back("If-None-Match", *load.corrupt_tag);
  asked->place = [fresh](const HttpHead& head) -> Result<std::span<uint8_t>> {
    fresh->room.reset();
    TRY(fresh->Know(head));
    if (!fresh->is_large()) return fresh->MakeRoom();
    fresh->first.resize(fresh->part_bytes);
    return std::span<uint8_t>(fresh->first);
  };
  return asked;
}

Task<void> S3Blobs::LoadFirst(std::shared_ptr<Load> load, Until until) {
  bool has_range = true;
  HttpProgress progress;
  for (uint32_t attempt = 0;; ++attempt) {
    // Whoever leaves early leaves the transfer its own.
    const auto fresh = load->Anew();
    const auto asked = FirstOf(*load, fresh, has_range);
    Result<HttpResponse> response = co_await client_->SendOnce(asked, until, &progress);
    std::chrono::seconds wait{0};
    std::optional<Error> why;
    if (!response) {
      if (response.error().code() != Code::kUnavailable) co_return std::move(response).error();
      why = std::move(response).error();
      if (fresh->is_known && progress.placed != 0) {
        // Cut in the middle: what came stays.
        client_->CountRetry();
        load->Keep(*fresh, progress.placed);
        co_return Status();
      }
    } else {
      const int status = response->head.status;
      if (status == 200 || status == 206) {
        load->Keep(*fresh, progress.placed);
        co_return Status();
      }
      if (status == 404 && CodeOf(*response) != "NoSuchBucket") {
        ++misses_;
        co_return Error(Code::kNotFound, fmt::format("no object {} in {}", load->key, client_->place()));
      }
      if (status == 304) {
        ++misses_;
        co_return Error(Code::kNotFound,
                        fmt::format("object {} in {} is still the damaged one", load->key, client_->place()));
      }
      if (status == 416 && has_range) {
        // Nothing has no first byte.
        has_range = false;
        continue;
      }
      why = client_->ErrorOf(*asked, *response);
      if (!MayPass(status)) {
        if (!client_->RenewCredentials(*response)) co_return *std::move(why);
        if (attempt + 1 < options_.attempts_max) continue;
      }
      wait = response->retry_after;
    }
    if (attempt + 1 >= options_.attempts_max) co_return *std::move(why);
    CO_TRY(co_await client_->Pause(attempt, wait, *std::move(why), until));
  }
}

Task<void> S3Blobs::LoadRest(std::shared_ptr<Load> load, Until until) {
  const bool is_large = load->is_large();
  if (is_large) {
    CO_TRY_ASSIGN(const std::span<uint8_t> to, load->MakeRoom());
    load->filled = std::min<uint64_t>(load->filled, load->first.size());
    std::memcpy(to.data(), load->first.data(), load->filled);
    load->first = Buffer();
  }
  uint8_t* const data = load->is_packed ? load->packed.data() : load->room->data();
  const uint64_t first = load->filled;
  const uint64_t left = load->stored_bytes - first;
  if (left == 0) co_return Status();
  const uint64_t part = options_.part_bytes;
  const size_t parts = (left + part - 1) / part;
  std::function<Task<void>(size_t, Until)> job = [this, load, data, first, part](size_t i, Until part_until) {
    const uint64_t at = first + i * part;
    return LoadRange(load, at, std::span(data + at, std::min(part, load->stored_bytes - at)), std::move(part_until));
  };
  co_return co_await Together(parts, options_.http.connections_max, std::move(job), until);
}

Task<void> S3Blobs::LoadRange(std::shared_ptr<Load> load, uint64_t first, std::span<uint8_t> to, Until until) {
  uint64_t filled = 0;
  HttpProgress progress;
  uint32_t attempt = 0;
  while (filled < to.size()) {
    const uint64_t at = first + filled;
    const std::span<uint8_t> rest = to.subspan(filled);
    const auto asked = std::make_shared<S3Request>();
    asked->key = load->key;
    asked->fields.emplace_back("Range", fmt::format("bytes={}-{}", at, at + rest.size() - 1));
    if (!load->tag.empty()) asked->fields.emplace_back("If-Match", load->tag);
    asked->place = [load, at, rest](const HttpHead& head) -> Result<std::span<uint8_t>> {
      const auto range = RangeOf(head.Get("content-range"));
      if (head.status != 206 || !range || range->first != at || range->total != load->stored_bytes ||
          range->last >= at + rest.size()) {
        return Error(Code::kUnavailable,
                     fmt::format("object {}: the server sent another part than was asked for", load->key));
      }
      return rest;
    };
    Result<HttpResponse> response = co_await client_->SendOnce(asked, until, &progress);
    filled += progress.placed;
    if (progress.placed != 0) attempt = 0;
    std::chrono::seconds wait{0};
    std::optional<Error> why;
    if (!response) {
      if (response.error().code() != Code::kUnavailable) co_return std::move(response).error();
      why = std::move(response).error();
    } else if (response->head.status == 206) {
      if (progress.placed != 0) continue;
      why = Error(Code::kUnavailable, fmt::format("object {}: the server sent a part without bytes", load->key));
    } else if (response->head.status == 412 || response->head.status == 404) {
      co_return Error(Code::kUnavailable,
                      fmt::format("object {} was replaced or deleted while it was read", load->key));
    } else {
      why = client_->ErrorOf(*asked, *response);
      if (!MayPass(response->head.status) && !client_->RenewCredentials(*response)) co_return *std::move(why);
      wait = response->retry_after;
    }
    if (++attempt >= options_.attempts_max) co_return *std::move(why);
    CO_TRY(co_await client_->Pause(attempt - 1, wait, *std::move(why), until));
  }
  co_return Status();
}

Result<SealedRef> S3Blobs::Unpack(Load& load) {
  if (load.is_packed) {
    const auto declared = ZSTD_getFrameContentSize(load.packed.data(), load.packed.size());
    if (declared != load.bytes) return Corrupt(load, "the frame and the object's header differ in their size");
    TRY_ASSIGN(load.room, SealedRoom::Make(load.bytes));
    const size_t unpacked = ZSTD_decompress(load.room->data(), load.bytes, load.packed.data(), load.packed.size());
    if (ZSTD_isError(unpacked) != 0) return Corrupt(load, ZSTD_getErrorName(unpacked));
    if (unpacked != load.bytes) return Corrupt(load, "it unpacks to fewer bytes than its header says");
    load.packed = Buffer();
  } else if (load.bytes != load.stored_bytes) {
    return Corrupt(load, fmt::format("{} bytes where its header says {}", load.stored_bytes, load.bytes));
  }
  if (DigestOf(Bytes(load.room->data(), load.room->size())) != load.digest) {
    return Corrupt(load, "its bytes have another digest");
  }
  return std::move(*load.room).Seal();
}

}  // namespace ingot::cache
