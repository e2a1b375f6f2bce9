// SPDX-License-Identifier: Apache-2.0
#include "daemon/ipc/lookup_service.h"

#include "base/metrics.h"
#include "daemon/state/convert.h"

namespace ingot::daemon {

namespace {

bool IsServed(const Result<EntryRef>& entry) {
  return entry && (!(*entry)->artifacts.empty() || !(*entry)->record.in_parts.empty());
}

}  // namespace

Reply ErrorReplyOf(const Error& error) {
  proto::ErrorReplyT reply;
  reply.code = static_cast<uint8_t>(error.code());
  reply.message = error.message();
  return ReplyOf<proto::ErrorReply>(proto::MessageType::Error, reply);
}

std::optional<Reply> LookupService::Fast(Bytes body, const Caller& caller) {
  const int64_t start_ns = core_.clock.steady_ns();
  const Digest request = DigestOf(body);
  std::optional<ReadyAnswers::Answer> answer = ready_.Find(request, caller.tenant);
  if (!answer) answer = FindInMemory(request, caller.tenant);
  if (!answer) return std::nullopt;
  GlobalMetrics().Add(Counter::entry_hits);
  core_.uses.Note(answer->entry, caller.job);
  CountServed(answer->files);
  Reply reply{proto::MessageType::LookupReply, answer->entry->reply, std::move(answer->files)};
  // Those that memory cannot answer are timed where they are.
  GlobalMetrics().AddTime(Timer::lookup, static_cast<uint64_t>(core_.clock.steady_ns() - start_ns));
  return reply;
}

std::optional<ReadyAnswers::Answer> LookupService::FindInMemory(const Digest& request, const std::string& tenant) {
  if (!mutex_.TryLock()) return std::nullopt;
  const Seen* const seen = seen_.Find(request);
  const bool is_ours = seen != nullptr && seen->tenant == tenant;
  const Digest digest = is_ours ? seen->entry : Digest();
  mutex_.Unlock();
  if (!is_ours) return std::nullopt;
  const ReadyAnswers::KeptEntry entry = core_.entries.PeekKept(digest);
  if (entry == nullptr || entry->value->artifacts.empty()) return std::nullopt;
  std::vector<ReadyAnswers::KeptFile> files;
  ReadyAnswers::Answer answer{entry->value, {}};
  for (const Digest& artifact : entry->value->artifacts) {
    ReadyAnswers::KeptFile file = core_.artifacts.PeekKept(artifact);
    if (file == nullptr) return std::nullopt;
    answer.files.push_back(file->value);
    files.push_back(std::move(file));
  }
  ready_.Put(request, tenant, entry, files);
  return answer;
}

Reply LookupService::Found(const Entry& entry, std::vector<SealedRef> files) {
  GlobalMetrics().Add(Counter::entry_hits);
  core_.uses.Write(entry);
  CountServed(files);
  return {proto::MessageType::LookupReply, entry.reply, std::move(files)};
}

void LookupService::CountServed(const std::vector<SealedRef>& files) {
  uint64_t bytes = 0;
  for (const SealedRef& file : files) bytes += file->size();
  GlobalMetrics().Add(Counter::artifacts_served, files.size());
  GlobalMetrics().Add(Counter::bytes_served, bytes);
}

boost::asio::awaitable<Reply> LookupService::Lookup(Buffer body, Until until, Caller caller) {
  const TimeScope time(Timer::lookup);
  const auto* message = proto::ReadMessage<proto::Lookup>(body);
  if (message == nullptr) {
    GlobalMetrics().Add(Counter::bad_requests);
    co_return ErrorReplyOf(Error(Code::kCorrupt, "the lookup does not verify"));
  }
  cache::Key key = ToKey(*message->key());
  if (Status tenant = SetTenant(key, caller.tenant); !tenant) co_return ErrorReplyOf(tenant.error());
  const Digest digest = key.ToDigest();
  const bool again = message->again();
  // Memory answers only those who have not been answered by it.
  if (!again) {
    const Digest bytes = DigestOf(body);
    MutexLock lock(mutex_);
    seen_.Put(bytes, {caller.tenant, digest}, 1);
  }
  Reply reply = co_await Answer(key, again, until);
  // After the answer: what else the job will want costs this look-up nothing.
  core_.jobs.Used(caller.job, digest, key);
  co_return reply;
}

Task<EntryRef> LookupService::Find(const cache::Key& key, Until until) {
  cache::Key asked = key;
  co_return co_await core_.entries.Of(std::move(asked), until);
}

boost::asio::awaitable<Reply> LookupService::Answer(const cache::Key& key, bool again, Until until) {
  Result<EntryRef> entry = co_await Find(key, until);
  if (!IsServed(entry) || again) {
    // What comes later than this serves the next call, or the compile that is about to be asked for.
    const Until soon = until.AtMost(std::chrono::milliseconds(core_.config.cluster_lookup_ms_max));
    const bool came = co_await core_.sharing.EntryFor(key, soon);
    if (came) entry = co_await Find(key, until);
  }
  if (IsServed(entry)) {
    co_return co_await FoundInPart(*entry, until);
  }
  const Explanation explanation = co_await Explain(core_, key, entry, until);
  co_return Missed(key, explanation);
}

Reply LookupService::Missed(const cache::Key& key, const Explanation& explanation) {
  GlobalMetrics().Add(Counter::entry_misses);
  const Digest digest = key.ToDigest();
  const MissReason reason = explanation.reason;
  // These say themselves that the key was served once.
  const bool was_stored = reason == MissReason::kEvicted || reason == MissReason::kGone ||
                          reason == MissReason::kQuarantined || reason == MissReason::kDamaged;
  core_.workload.Miss(digest, FunctionOf(key), explanation.cause, was_stored);
  core_.recent.Missed({core_.clock.now_s(), digest, FunctionOf(key), std::string(NameOf(reason)), explanation.why});
  proto::LookupReplyT reply;
  reply.entry_low = digest.low;
  reply.entry_high = digest.high;
  reply.why = explanation.why;
  reply.miss = std::make_unique<proto::MissT>();
  reply.miss->reason = NameOf(reason);
  if (explanation.nearest) {
    const auto& [entry, difference] = *explanation.nearest;
    reply.miss->component = difference.component;
    reply.miss->item = difference.item;
    reply.miss->stored = difference.stored;
    reply.miss->asked = difference.asked;
    reply.miss->nearest_low = entry->digest.low;
    reply.miss->nearest_high = entry->digest.high;
  }
  return ReplyOf<proto::LookupReply>(proto::MessageType::LookupReply, reply);
}

boost::asio::awaitable<Reply> LookupService::FoundInPart(EntryRef entry, Until until) {
  std::vector<SealedRef> files;
  Explanation gone{MissReason::kGone, "", "", std::nullopt};
  proto::LookupReplyT reply;
  for (size_t i = 0; i < entry->artifacts.size(); ++i) {
    Result<SealedRef> file = co_await core_.artifacts.Get(entry->artifacts[i], until);
    if (!file) {
      const auto stone = core_.tombstones.Find(cache::Table::kArtifacts, entry->artifacts[i]);
      gone.why = "stored, but its artifacts are gone: " + (stone ? stone->ToText() : file.error().ToText());
      gone.cause = "artifact " + (stone ? stone->Cause() : std::string(CodeName(file.error().code())));
      continue;
    }
    auto variant = std::make_unique<proto::VariantT>(*entry->record.variants[i]->variant);
    variant->descriptor = static_cast<int>(files.size());
    reply.variants.push_back(std::move(variant));
    files.push_back(std::move(file).value());
  }
  if (files.size() == entry->artifacts.size()) co_return Found(*entry, std::move(files));
  if (files.empty()) co_return Missed(entry->key, gone);
  reply.found = true;
  reply.in_parts = entry->record.in_parts;
  reply.entry_low = entry->digest.low;
  reply.entry_high = entry->digest.high;
  core_.workload.Hit(entry->digest, entry->function);
  GlobalMetrics().Add(Counter::entry_hits);
  CountServed(files);
  co_return ReplyOf<proto::LookupReply>(proto::MessageType::LookupReply, reply, std::move(files));
}

boost::asio::awaitable<Reply> LookupService::Fetch(Buffer body, Until until) {
  const auto* message = proto::ReadMessage<proto::Fetch>(body);
  if (message == nullptr) {
    GlobalMetrics().Add(Counter::bad_requests);
    co_return ErrorReplyOf(Error(Code::kCorrupt, "the fetch does not verify"));
  }
  const Digest digest{message->low(), message->high()};
  Result<SealedRef> file = co_await core_.artifacts.Get(digest, until);
  if (!file) co_return ErrorReplyOf(std::move(file).error().Wrap("artifact " + digest.ToHex()));
  core_.store.Touch(cache::Table::kArtifacts, digest);
  proto::FetchReplyT reply;
  reply.bytes = (*file)->size();
  CountServed({*file});
  co_return ReplyOf<proto::FetchReply>(proto::MessageType::FetchReply, reply, {*file});
}

}  // namespace ingot::daemon
