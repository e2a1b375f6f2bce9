// SPDX-License-Identifier: Apache-2.0
#include "cache/s3/s3_blobs.h"

#include <fmt/format.h>
#include <zstd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <limits>

#include "base/clock.h"
#include "base/log.h"
#include "cache/async/together.h"
#include "cache/s3/s3_xml.h"

namespace ingot::cache {
namespace {

constexpr std::string_view kBytesField = "x-amz-meta-ingot-bytes";
constexpr std::string_view kPackingField = "x-amz-meta-ingot-packing";
constexpr std::string_view kCostField = "x-amz-meta-ingot-cost-s";
constexpr size_t kPartsMax = 10'000;
/// So many digests of one shard (1/256 of all) are worth a listing.
constexpr size_t kListedMin = 16;

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
    const std::string_view packing = head.Get(kPackingField);
    if (!packing.empty() && packing != "none" && packing != "zstd") {
      return Error(Code::kIncompatible, fmt::format("object {} is packed as \"{}\", which this build does not know",
                                                    key, PlainText(packing)));
    }
    is_packed = packing == "zstd";
    bytes = NumberOf(head.Get(kBytesField)).value_or(is_packed ? 0 : stored_bytes);
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

/// One blob on its way out.
struct S3Blobs::Packed {
  SealedRef blob;
  Buffer packed;
  bool is_packed = false;
  std::string cost;

  Bytes body() const { return is_packed ? Bytes(packed) : blob->bytes(); }
};

S3Blobs::S3Blobs(std::unique_ptr<S3Client> client)
    : client_(std::move(client)),
      options_(client_->options()),
      loads_(std::make_shared<Budget>(options_.loads_max)),
      load_bytes_(std::make_shared<Budget>(options_.load_bytes_max)) {}

S3Blobs::~S3Blobs() = default;

Result<std::unique_ptr<S3Blobs>> S3Blobs::Open(S3Options options, const Environment& environment) {
  if (options.part_bytes < 5u << 20) return Error(Code::kInvalid, "part_bytes is less than 5 MiB, which S3 refuses");
  if (options.value_bytes_max / options.part_bytes >= kPartsMax) {
    return Error(Code::kInvalid, "value_bytes_max is more than 10,000 times part_bytes, which S3 refuses");
  }
  TRY_ASSIGN(auto client, S3Client::Open(std::move(options), environment));
  return std::unique_ptr<S3Blobs>(new S3Blobs(std::move(client)));
}

std::string S3Blobs::KeyOf(const Digest& digest) const {
  const std::string hex = digest.ToHex();
  return client_->KeyOf(fmt::format("blobs/{}/{}", hex.substr(0, 2), hex));
}

// ---- Get

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

Task<void> S3Blobs::LoadFirst(std::shared_ptr<Load> load, Until until) {
  bool has_range = true;
  HttpProgress progress;
  for (uint32_t attempt = 0;; ++attempt) {
    const auto asked = std::make_shared<S3Request>();
    asked->key = load->key;
    if (has_range) asked->fields.emplace_back("Range", fmt::format("bytes=0-{}", load->part_bytes - 1));
    if (load->corrupt_tag && !load->corrupt_tag->empty())
      asked->fields.emplace_back("If-None-Match", *load->corrupt_tag);
    // Whoever leaves early leaves the transfer its own.
    const auto fresh = std::make_shared<Load>();
    fresh->digest = load->digest;
    fresh->key = load->key;
    fresh->part_bytes = load->part_bytes;
    fresh->value_bytes_max = load->value_bytes_max;
    asked->place = [fresh](const HttpHead& head) -> Result<std::span<uint8_t>> {
      fresh->room.reset();
      TRY(fresh->Know(head));
      if (!fresh->is_large()) return fresh->MakeRoom();
      fresh->first.resize(fresh->part_bytes);
      return std::span<uint8_t>(fresh->first);
    };
    Result<HttpResponse> response = co_await client_->SendOnce(asked, until, &progress);
    const auto keep = [&] {
      auto tag = std::move(load->corrupt_tag);
      *load = std::move(*fresh);
      load->corrupt_tag = std::move(tag);
      load->filled = progress.placed;
    };
    std::chrono::seconds wait{0};
    std::optional<Error> why;
    if (!response) {
      if (response.error().code() != Code::kUnavailable) co_return std::move(response).error();
      why = std::move(response).error();
      if (fresh->is_known && progress.placed != 0) {
        // Cut in the middle: what came stays.
        client_->CountRetry();
        keep();
        co_return Status();
      }
    } else {
      const int status = response->head.status;
      if (status == 200 || status == 206) {
        keep();
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

// ---- Put

S3Blobs::Packed S3Blobs::Pack(const SealedRef& blob) const {
  Packed out;
  out.blob = blob;
  const Bytes bytes = blob->bytes();
  if (bytes.size() < options_.pack_bytes_min) return out;
  const auto pays = [](size_t packed, size_t bytes_before) { return packed < bytes_before - bytes_before / 8; };
  // A piece from the middle says whether the rest is worth the time.
  constexpr size_t kSample = 256u << 10;
  if (bytes.size() > 4 * kSample) {
    Buffer sample(ZSTD_compressBound(kSample));
    const size_t size =
        ZSTD_compress(sample.data(), sample.size(), bytes.data() + bytes.size() / 2, kSample, options_.pack_level);
    if (ZSTD_isError(size) != 0 || !pays(size, kSample)) return out;
  }
  out.packed.resize(ZSTD_compressBound(bytes.size()));
  const size_t size =
      ZSTD_compress(out.packed.data(), out.packed.size(), bytes.data(), bytes.size(), options_.pack_level);
  out.is_packed = ZSTD_isError(size) == 0 && pays(size, bytes.size());
  if (out.is_packed) {
    out.packed.resize(size);
    out.packed.shrink_to_fit();
  } else {
    out.packed = Buffer();
  }
  return out;
}

Task<bool> S3Blobs::Put(Digest digest, SealedRef blob, double cost_s, Until until) {
  CO_TRY(until.Check());
  if (blob->size() > options_.value_bytes_max) {
    co_return Error(Code::kExhausted, fmt::format("a blob of {} bytes is more than value_bytes_max = {}", blob->size(),
                                                  options_.value_bytes_max));
  }
  if (DigestOf(blob->bytes()) != digest) {
    co_return Error(Code::kInvalid, fmt::format("the bytes to store as {} have another digest", digest.ToHex()));
  }
  CO_TRY_ASSIGN(const Budget::Share share, co_await loads_->Take(1, until));
  // What is known to be damaged is overwritten.
  const bool is_repair = CorruptTag(digest).has_value();
  const bool is_conditional = client_->tries_conditional_put() && !is_repair;
  if (!is_repair && (!client_->has_conditional_put() || blob->size() > options_.pack_bytes_min)) {
    CO_TRY_ASSIGN(const bool is_there, co_await HasOne(digest, until));
    if (is_there) co_return false;
  }
  Budget::Share bytes;
  if (blob->size() > options_.part_bytes) {
    CO_TRY_ASSIGN(bytes, co_await load_bytes_->Take(blob->size(), until));
  }
  const auto packed = std::make_shared<Packed>(Pack(blob));
  packed->cost = fmt::format("{:.3f}", cost_s);
  Result<bool> put = false;
  if (packed->body().size() > options_.multipart_bytes_min) {
    put = co_await PutParts(digest, packed, until);
  } else {
    put = co_await PutWhole(digest, packed, is_conditional, until);
  }
  if (put && *put) {
    ++writes_;
    MutexLock lock(mutex_);
    corrupt_.erase(digest);
  }
  co_return put;
}

Task<bool> S3Blobs::PutWhole(Digest digest, std::shared_ptr<const Packed> packed, bool is_conditional, Until until) {
  S3Request asked;
  asked.key = KeyOf(digest);
  asked.body = packed->body();
  asked.body_owner = packed;
  asked.fields.emplace_back(kBytesField, std::to_string(packed->blob->size()));
  asked.fields.emplace_back(kPackingField, packed->is_packed ? "zstd" : "none");
  asked.fields.emplace_back(kCostField, packed->cost);
  S3Condition condition;
  if (is_conditional) condition.kind = S3Condition::Kind::kAbsent;
  CO_TRY_ASSIGN(const S3Written written, co_await client_->Put(std::move(asked), std::move(condition), until));
  co_return written.is_done;
}

Task<bool> S3Blobs::PutParts(Digest digest, std::shared_ptr<const Packed> packed, Until until) {
  S3Request begin;
  begin.method = "POST";
  begin.key = KeyOf(digest);
  begin.query = "uploads=";
  begin.fields.emplace_back("Content-Type", "application/octet-stream");
  begin.fields.emplace_back(kBytesField, std::to_string(packed->blob->size()));
  begin.fields.emplace_back(kPackingField, packed->is_packed ? "zstd" : "none");
  begin.fields.emplace_back(kCostField, packed->cost);
  if (client_->sends_sha256()) begin.fields.emplace_back("x-amz-checksum-algorithm", "SHA256");
  CO_TRY_ASSIGN(const HttpResponse begun, co_await client_->Send(begin, until));
  if (!begun.head.is_success()) co_return client_->ErrorOf(begin, begun);
  const Result<XmlElement> xml = ParseXml(AsText(begun.body));
  const std::string id(xml ? xml->TextOf("UploadId") : "");
  if (id.empty()) {
    co_return Error(Code::kUnavailable, fmt::format("{} began an upload without saying its name", client_->place()));
  }
  const std::string upload = "uploadId=" + EncodeForUrl(id, false);

  struct Part {
    std::string tag;
    std::string checksum;
  };
  const Bytes body = packed->body();
  const size_t count = (body.size() + options_.part_bytes - 1) / options_.part_bytes;
  const auto parts = std::make_shared<std::vector<Part>>(count);
  const std::string key = begin.key;
  std::function<Task<void>(size_t, Until)> job = [this, packed, parts, key, upload](size_t i,
                                                                                    Until part_until) -> Task<void> {
    const Bytes all = packed->body();
    const uint64_t at = i * options_.part_bytes;
    S3Request put;
    put.method = "PUT";
    put.key = key;
    put.query = fmt::format("partNumber={}&{}", i + 1, upload);
    put.body = all.subspan(at, std::min<uint64_t>(options_.part_bytes, all.size() - at));
    put.body_owner = packed;
    put.fields = client_->ChecksumFields(put.body);
    std::string checksum = !put.fields.empty() && client_->sends_sha256() ? put.fields[0].second : "";
    put.fields.emplace_back("Content-Type", "application/octet-stream");
    CO_TRY_ASSIGN(const HttpResponse response, co_await client_->Send(put, part_until));
    if (!response.head.is_success()) co_return client_->ErrorOf(put, response);
    // Only a server that keeps it wants to hear it again.
    if (response.head.Get("x-amz-checksum-sha256").empty()) checksum.clear();
    (*parts)[i] = Part{std::string(response.head.Get("etag")), std::move(checksum)};
    co_return Status();
  };
  Status written = co_await Together(count, options_.http.connections_max, std::move(job), until);
  if (written) {
    const auto text = std::make_shared<std::string>("<CompleteMultipartUpload>");
    for (size_t i = 0; i < count; ++i) {
      const Part& part = (*parts)[i];
      *text += fmt::format("<Part><PartNumber>{}</PartNumber><ETag>{}</ETag>", i + 1, EscapeXml(part.tag));
      if (!part.checksum.empty()) *text += fmt::format("<ChecksumSHA256>{}</ChecksumSHA256>", part.checksum);
      *text += "</Part>";
    }
    *text += "</CompleteMultipartUpload>";
    S3Request end;
    end.method = "POST";
    end.key = key;
    end.query = upload;
    end.body = AsBytes(*text);
    end.body_owner = text;
    end.fields.emplace_back("Content-Type", "application/xml");
    Result<HttpResponse> ended = co_await client_->Send(end, until);
    if (!ended) {
      written = std::move(ended).error();
    } else {
      // The status was sent before the work was done: the body has the last word.
      const Result<XmlElement> answer = ParseXml(AsText(ended->body));
      if (!ended->head.is_success() || !answer || answer->name == "Error") written = client_->ErrorOf(end, *ended);
    }
  }
  if (written) co_return true;
  // Nobody waits for this; what it does not reach is swept later.
  S3Request abort;
  abort.method = "DELETE";
  abort.key = key;
  abort.query = upload;
  client_->SendUnheard(abort);
  co_return std::move(written).error();
}

// ---- Has, Delete

Task<bool> S3Blobs::HasOne(Digest digest, Until until) {
  S3Request asked;
  asked.method = "HEAD";
  asked.key = KeyOf(digest);
  CO_TRY_ASSIGN(const HttpResponse response, co_await client_->Send(asked, until));
  if (response.head.status == 404) co_return false;
  if (!response.head.is_success()) co_return client_->ErrorOf(asked, response);
  const std::optional<std::string> damaged = CorruptTag(digest);
  co_return !damaged || *damaged != response.head.Get("etag");
}

Task<bool> S3Blobs::ListShard(std::vector<std::pair<Digest, size_t>> wanted, std::vector<uint8_t>* found, Until until) {
  std::ranges::sort(wanted, [](const auto& a, const auto& b) { return a.first.ToHex() < b.first.ToHex(); });
  const std::string shard = KeyOf(wanted.front().first).substr(0, KeyOf(wanted.front().first).size() - 32);
  std::string after;
  size_t next = 0;
  // Each page replaces the questions that it answers: no more pages than questions.
  for (size_t page = 0; page * 2 < wanted.size(); ++page) {
    CO_TRY_ASSIGN(const S3Listing listing, co_await client_->List(shard, after, kS3NamesOnAPage, until));
    for (const S3Listing::Row& row : listing.rows) {
      after = row.key;
      while (next < wanted.size() && KeyOf(wanted[next].first) < row.key) ++next;
      while (next < wanted.size() && KeyOf(wanted[next].first) == row.key) (*found)[wanted[next++].second] = 1;
    }
    if (next >= wanted.size() || !listing.has_more) co_return true;
  }
  co_return false;
}

Task<std::vector<bool>> S3Blobs::Has(std::vector<Digest> digests, Until until) {
  CO_TRY(until.Check());
  const auto found = std::make_shared<std::vector<uint8_t>>(digests.size(), 0);
  const auto alone = std::make_shared<std::vector<std::pair<Digest, size_t>>>();
  std::map<uint8_t, std::vector<std::pair<Digest, size_t>>> by_shard;
  for (size_t i = 0; i < digests.size(); ++i) by_shard[digests[i].high >> 56].emplace_back(digests[i], i);
  const auto listed = std::make_shared<std::vector<std::vector<std::pair<Digest, size_t>>>>();
  for (auto& [shard, wanted] : by_shard) {
    if (wanted.size() >= kListedMin) {
      listed->push_back(std::move(wanted));
    } else {
      alone->insert(alone->end(), wanted.begin(), wanted.end());
    }
  }
  const auto mutex = std::make_shared<Mutex>();
  std::function<Task<void>(size_t, Until)> list = [this, found, listed, alone, mutex](size_t i,
                                                                                      Until until_i) -> Task<void> {
    CO_TRY_ASSIGN(const bool is_done, co_await ListShard((*listed)[i], found.get(), until_i));
    MutexLock lock(*mutex);
    for (const auto& wanted : (*listed)[i]) {
      const bool is_here = (*found)[wanted.second] != 0;
      // A listing does not say which are damaged, or it ended too soon.
      if (is_here ? CorruptTag(wanted.first).has_value() : !is_done) alone->push_back(wanted);
    }
    co_return Status();
  };
  CO_TRY(co_await Together(listed->size(), options_.http.connections_max, std::move(list), until));
  std::function<Task<void>(size_t, Until)> ask = [this, found, alone](size_t i, Until until_i) -> Task<void> {
    CO_TRY_ASSIGN(const bool is_here, co_await HasOne((*alone)[i].first, until_i));
    (*found)[(*alone)[i].second] = is_here ? 1 : 0;
    co_return Status();
  };
  CO_TRY(co_await Together(alone->size(), options_.http.connections_max, std::move(ask), until));
  std::vector<bool> out(found->begin(), found->end());
  co_return out;
}

Task<bool> S3Blobs::Delete(Digest digest, Until until) {
  // The answer to DELETE is the same whether there was something or not.
  CO_TRY_ASSIGN(const bool is_there, co_await HasOne(digest, until));
  S3Request asked;
  asked.method = "DELETE";
  asked.key = KeyOf(digest);
  CO_TRY_ASSIGN(const HttpResponse response, co_await client_->Send(asked, until));
  if (response.head.status == 404) co_return false;
  if (!response.head.is_success()) co_return client_->ErrorOf(asked, response);
  {
    MutexLock lock(mutex_);
    corrupt_.erase(digest);
  }
  co_return is_there;
}

// ---- for people

std::string S3Blobs::Describe() const {
  const S3Counts c = counts();
  std::string text = fmt::format("{}: {} hits, {} misses, {} writes", client_->Describe(), c.hits, c.misses, c.writes);
  if (c.corrupt != 0) text += fmt::format(", {} damaged", c.corrupt);
  return text;
}

S3Counts S3Blobs::counts() const {
  return {client_->requests(),
          client_->retries(),
          hits_,
          misses_,
          writes_,
          corrupt_count_,
          client_->bytes_read() + placed_bytes_,
          client_->bytes_written()};
}

Task<size_t> S3Blobs::SweepUploads(Until until) {
  size_t swept = 0;
  std::string markers;
  const int64_t oldest = SystemClock().now_s() - std::chrono::seconds(options_.upload_age_max).count();
  const std::string prefix = client_->KeyOf("blobs/");
  for (bool has_more = true; has_more;) {
    S3Request list;
    // Canonical order is by name: key-marker, max-uploads, prefix, upload-id-marker, uploads.
    list.query = markers.empty() ? fmt::format("prefix={}&uploads=", EncodeForUrl(prefix, false)) : markers;
    list.answer_bytes_max = kS3ListBytesMax;
    CO_TRY_ASSIGN(const HttpResponse response, co_await client_->Send(list, until));
    if (!response.head.is_success()) co_return client_->ErrorOf(list, response);
    CO_TRY_ASSIGN(const XmlElement xml, ParseXml(AsText(response.body)));
    for (const XmlElement& row : xml.children) {
      if (row.name != "Upload") continue;
      const std::string key(row.TextOf("Key"));
      const auto began = TimeOfText(std::string(row.TextOf("Initiated")));
      if (!key.starts_with(prefix) || !began || *began > oldest) continue;
      S3Request abort;
      abort.method = "DELETE";
      abort.key = key;
      abort.query = "uploadId=" + EncodeForUrl(row.TextOf("UploadId"), false);
      CO_TRY_ASSIGN(const HttpResponse ended, co_await client_->Send(abort, until));
      if (ended.head.is_success()) ++swept;
    }
    const std::string last = fmt::format(
        "key-marker={}&prefix={}&upload-id-marker={}&uploads=", EncodeForUrl(xml.TextOf("NextKeyMarker"), false),
        EncodeForUrl(prefix, false), EncodeForUrl(xml.TextOf("NextUploadIdMarker"), false));
    has_more = xml.TextOf("IsTruncated") == "true" && last != markers;
    markers = last;
  }
  if (swept != 0) LogInfo("ended uploads that nobody finished", {{"store", client_->place()}, {"uploads", swept}});
  co_return swept;
}

}  // namespace ingot::cache
