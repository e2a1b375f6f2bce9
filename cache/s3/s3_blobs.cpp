// SPDX-License-Identifier: Apache-2.0
#include "cache/s3/s3_blobs.h"

#include <fmt/format.h>
#include <zstd.h>

#include <algorithm>
#include <functional>

#include "base/clock.h"
#include "base/log.h"
#include "cache/async/together.h"
#include "cache/s3/s3_xml.h"

namespace ingot::cache {
namespace {

constexpr size_t kPartsMax = 10'000;
/// So many digests of one folder (1/256 of all) are worth a listing.
constexpr size_t kListedMin = 16;

}  // namespace

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
  asked.fields.emplace_back(kS3BytesField, std::to_string(packed->blob->size()));
  asked.fields.emplace_back(kS3PackingField, packed->is_packed ? "zstd" : "none");
  asked.fields.emplace_back(kS3CostField, packed->cost);
  S3Condition condition;
  if (is_conditional) condition.kind = S3Condition::Kind::kAbsent;
  CO_TRY_ASSIGN(const S3Written written, co_await client_->Put(std::move(asked), std::move(condition), until));
  co_return written.is_done;
}

struct S3Blobs::Part {
  std::string tag;
  std::string checksum;
};

/// Its name, as queries have it.
Task<std::string> S3Blobs::BeginUpload(Digest digest, std::shared_ptr<const Packed> packed, Until until) {
  S3Request begin;
  begin.method = "POST";
  begin.key = KeyOf(digest);
  begin.query = "uploads=";
  begin.fields.emplace_back("Content-Type", "application/octet-stream");
  begin.fields.emplace_back(kS3BytesField, std::to_string(packed->blob->size()));
  begin.fields.emplace_back(kS3PackingField, packed->is_packed ? "zstd" : "none");
  begin.fields.emplace_back(kS3CostField, packed->cost);
  if (client_->sends_sha256()) begin.fields.emplace_back("x-amz-checksum-algorithm", "SHA256");
  CO_TRY_ASSIGN(const HttpResponse begun, co_await client_->Send(begin, until));
  if (!begun.head.is_success()) co_return client_->ErrorOf(begin, begun);
  const Result<XmlElement> xml = ParseXml(AsText(begun.body));
  const std::string id(xml ? xml->TextOf("UploadId") : "");
  if (id.empty()) {
    co_return Error(Code::kUnavailable, fmt::format("{} began an upload without saying its name", client_->place()));
  }
  co_return "uploadId=" + EncodeForUrl(id, false);
}

/// Number `i` of `parts`, of which it notes what the server says.
Task<void> S3Blobs::PutPart(std::string key, std::string upload, std::shared_ptr<const Packed> packed,
                            std::shared_ptr<std::vector<Part>> parts, size_t i, Until until) {
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
  CO_TRY_ASSIGN(const HttpResponse response, co_await client_->Send(put, until));
  if (!response.head.is_success()) co_return client_->ErrorOf(put, response);
  // Only a server that keeps it wants to hear it again.
  if (response.head.Get("x-amz-checksum-sha256").empty()) checksum.clear();
  (*parts)[i] = Part{std::string(response.head.Get("etag")), std::move(checksum)};
  co_return Status();
}

/// Makes an object of its parts.
Task<void> S3Blobs::EndUpload(std::string key, std::string upload, std::shared_ptr<std::vector<Part>> parts,
                              Until until) {
  const auto text = std::make_shared<std::string>("<CompleteMultipartUpload>");
  for (size_t i = 0; i < parts->size(); ++i) {
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
  CO_TRY_ASSIGN(const HttpResponse ended, co_await client_->Send(end, until));
  // The status was sent before the work was done: the body has the last word.
  const Result<XmlElement> answer = ParseXml(AsText(ended.body));
  if (!ended.head.is_success() || !answer || answer->name == "Error") co_return client_->ErrorOf(end, ended);
  co_return Status();
}

Task<bool> S3Blobs::PutParts(Digest digest, std::shared_ptr<const Packed> packed, Until until) {
  CO_TRY_ASSIGN(const std::string upload, co_await BeginUpload(digest, packed, until));
  const std::string key = KeyOf(digest);
  const size_t count = (packed->body().size() + options_.part_bytes - 1) / options_.part_bytes;
  const auto parts = std::make_shared<std::vector<Part>>(count);
  std::function<Task<void>(size_t, Until)> job = [this, key, upload, packed, parts](size_t i, Until part_until) {
    return PutPart(key, upload, packed, parts, i, std::move(part_until));
  };
  Status written = co_await Together(count, options_.http.connections_max, std::move(job), until);
  if (written) written = co_await EndUpload(key, upload, parts, until);
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

Task<bool> S3Blobs::ListFolder(std::vector<std::pair<Digest, size_t>> wanted, std::vector<uint8_t>* found,
                               Until until) {
  std::ranges::sort(wanted, [](const auto& a, const auto& b) { return a.first.ToHex() < b.first.ToHex(); });
  const std::string folder = KeyOf(wanted.front().first).substr(0, KeyOf(wanted.front().first).size() - 32);
  std::string after;
  size_t next = 0;
  // Each page replaces the questions that it answers: no more pages than questions.
  for (size_t page = 0; page * 2 < wanted.size(); ++page) {
    CO_TRY_ASSIGN(const S3Listing listing, co_await client_->List(folder, after, kS3NamesOnAPage, until));
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
  std::map<uint8_t, std::vector<std::pair<Digest, size_t>>> by_folder;
  for (size_t i = 0; i < digests.size(); ++i) by_folder[digests[i].high >> 56].emplace_back(digests[i], i);
  const auto listed = std::make_shared<std::vector<std::vector<std::pair<Digest, size_t>>>>();
  for (auto& [folder, wanted] : by_folder) {
    if (wanted.size() >= kListedMin) {
      listed->push_back(std::move(wanted));
    } else {
      alone->insert(alone->end(), wanted.begin(), wanted.end());
    }
  }
  const auto mutex = std::make_shared<Mutex>();
  std::function<Task<void>(size_t, Until)> list = [this, found, listed, alone, mutex](size_t i,
                                                                                      Until until_i) -> Task<void> {
    CO_TRY_ASSIGN(const bool is_done, co_await ListFolder((*listed)[i], found.get(), until_i));
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
