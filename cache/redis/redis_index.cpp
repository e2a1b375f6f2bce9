// SPDX-License-Identifier: Apache-2.0
#include "cache/redis/redis_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <tuple>
#include <utility>

#include "base/log.h"
#include "cache/index/lease_watch.h"
#include "cache/index/listing_place.h"
#include "cache/redis/redis_scripts.h"

namespace ingot::cache {
namespace {

using Kind = RedisReply::Kind;
using Words = std::vector<std::string>;
/// Records that one step reads, so that memory stays bounded and nobody waits long behind it.
constexpr size_t kKeysAtOnce = 64;
/// Rows that one script looks at: it stops the server meanwhile.
constexpr size_t kRowsAtOnce = 256;

template <typename T>
std::optional<T> ParseNumber(std::string_view text) {
  T value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// Holds a value together with the name it stands under: bytes that were changed, or are another record's, differ.
std::string SealOf(const RecordKey& key, Bytes value) {
  Hasher hasher;
  hasher.Add(static_cast<uint64_t>(key.table));
  hasher.Add(key.digest.high);
  hasher.Add(key.digest.low);
  hasher.AddField(value);
  return hasher.Finish().ToHex();
}

std::string CommandOf(const std::string& head, const std::string& name, const Words& keys, const Words& arguments) {
  const std::string count = std::to_string(keys.size());
  std::vector<std::string_view> words = {head, name, count};
  words.insert(words.end(), keys.begin(), keys.end());
  words.insert(words.end(), arguments.begin(), arguments.end());
  return FormatRedisCommand(words);
}

}  // namespace

struct RedisIndex::State : std::enable_shared_from_this<RedisIndex::State> {
  State(boost::asio::io_context& io, RedisIndexOptions given, RedisClientOptions of_client)
      : options(std::move(given)), client(io, std::move(of_client)) {}

  std::string Key(std::string_view kind, std::string_view rest) const {
    return fmt::format("{}{}:{}", options.prefix, kind, rest);
  }
  std::string RecordName(const RecordKey& key) const {
    return Key("r", fmt::format("{}:{}", NameOf(key.table), key.digest.ToHex()));
  }
  std::string LeaseName(const Digest& key) const { return Key("l", key.ToHex()); }
  std::string Channel(const std::string& name) const { return Key("c", name); }
  std::string Counter() const { return options.prefix + "n"; }

  /// An answer that no server of ours gives. Nothing else of that connection is believed.
  Error Odd(const RedisCallRef& call, std::string_view asked) {
    const std::string why = fmt::format("Redis answered '{}' with something else than its script does", asked);
    client.Distrust(call, why);
    return Error(Code::kUnavailable, why);
  }

  /// Runs a script by its name, or with its text where the server does not know it (yet, or any more). At least
  /// `items` items.
  Task<RedisReply> Run(const RedisScript& script, Words keys, Words arguments, size_t items, Until until,
                       std::function<void(RedisReply)> late = nullptr) {
    for (int round = 0; round < 2; ++round) {
      CO_TRY(until.Check());
      const bool by_name = round == 0;
      const RedisCallRef call = client.Start(
          by_name ? CommandOf("EVALSHA", script.sha, keys, arguments) : CommandOf("EVAL", script.text, keys, arguments),
          1, late);
      CO_TRY_ASSIGN(std::vector<RedisReply> replies, co_await client.Finish(call, until));
      RedisReply& reply = replies.front();
      if (reply.Is(Kind::kError)) {
        if (by_name && reply.text.starts_with("NOSCRIPT")) continue;
        co_return ErrorOf(reply);
      }
      if (!reply.Is(Kind::kArray) || reply.items.size() < items || !reply.items[0].Is(Kind::kString) ||
          reply.items[0].text != keys[0]) {
        co_return Odd(call, keys[0]);
      }
      co_return std::move(reply);
    }
    co_return Error(Code::kUnavailable, "Redis does not run scripts");
  }

  /// The number that a script answered after its key.
  Task<uint64_t> RunForNumber(const RedisScript& script, Words keys, Words arguments, Until until) {
    CO_TRY_ASSIGN(const RedisReply reply, co_await Run(script, keys, std::move(arguments), 2, std::move(until)));
    const auto number = ParseNumber<uint64_t>(reply.items[1].text);
    if (!number) co_return Error(Code::kUnavailable, fmt::format("Redis answered '{}' with no number", keys[0]));
    co_return *number;
  }

  static std::string ReadOf(const std::string& name) {
    return FormatRedisCommand(std::array<std::string_view, 5>{"HMGET", name, "n", "v", "d"});
  }

  /// What ReadOf gave. Nothing: damaged.
  static std::optional<Record> RecordOf(const RecordKey& key, const RedisReply& reply) {
    const auto& [version, value, seal] = std::tie(reply.items[0], reply.items[1], reply.items[2]);
    if (version.Is(Kind::kNil) && value.Is(Kind::kNil)) return Record();
    const auto number = ParseNumber<uint64_t>(version.text);
    const Bytes bytes = AsBytes(value.text);
    if (!number || *number == 0 || !value.Is(Kind::kString) || seal.text != SealOf(key, bytes)) return std::nullopt;
    return Record{Buffer(bytes.begin(), bytes.end()), *number};
  }

  Task<std::vector<Record>> GetSome(std::span<const RecordKey> keys, Until until) {
    std::string commands;
    for (const RecordKey& key : keys) {
      const std::string of_key = RecordName(key);
      commands += ReadOf(of_key);
    }
    const RedisCallRef call = client.Start(std::move(commands), keys.size());
    CO_TRY_ASSIGN(const std::vector<RedisReply> replies, co_await client.Finish(call, until));
    std::vector<Record> records(keys.size());
    for (size_t i = 0; i < keys.size(); ++i) {
      const RedisReply& reply = replies[i];
      if (reply.Is(Kind::kError)) co_return ErrorOf(reply);
      if (!IsRecord(reply)) co_return Odd(call, RecordName(keys[i]));
      auto record = RecordOf(keys[i], reply);
      if (record) {
        records[i] = *std::move(record);
      } else {
        CO_TRY_ASSIGN(records[i], co_await ReadAgain(keys[i], until));
      }
    }
    co_return records;
  }

  static bool IsRecord(const RedisReply& reply) {
    return reply.Is(Kind::kArray) && reply.items.size() == 3 &&
           std::all_of(reply.items.begin(), reply.items.end(),
                       [](const RedisReply& item) { return item.Is(Kind::kString) || item.Is(Kind::kNil); });
  }

  /// Tells a record that was damaged on its way from one that is damaged where it is; that one goes.
  Task<Record> ReadAgain(RecordKey key, Until until) {
    const std::string of_key = RecordName(key);
    const RedisCallRef call = client.Start(ReadOf(of_key), 1);
    CO_TRY_ASSIGN(const std::vector<RedisReply> replies, co_await client.Finish(call, until));
    if (replies[0].Is(Kind::kError)) co_return ErrorOf(replies[0]);
    if (!IsRecord(replies[0])) co_return Odd(call, of_key);
    if (auto record = RecordOf(key, replies[0])) co_return *std::move(record);
    LogWarn("removed a damaged record", {{"server", client.Describe()}, {"key", of_key}});
    const std::string version = replies[0].items[0].text;
    Words keys = {of_key};
    Words arguments = {options.prefix, std::string(NameOf(key.table)), key.digest.ToHex(), version};
    CO_TRY(co_await Run(TheRedisScripts().remove, std::move(keys), std::move(arguments), 2, until));
    co_return Record();
  }

  /// A look that failed may be that of a connection that was cut a moment ago.
  static bool IsWorthAnother(const Error& error, int& failed) {
    return error.code() == Code::kUnavailable && ++failed < kFailedLooksMax;
  }

  /// {key, ours, fence, holder, progress, ms left}.
  static std::optional<Lease> LeaseOf(const RedisReply& reply) {
    const auto& items = reply.items;
    const auto fence = ParseNumber<uint64_t>(items[2].text);
    if (!items[1].Is(Kind::kInteger) || !fence || !items[5].Is(Kind::kInteger)) return std::nullopt;
    Lease lease;
    lease.fence = *fence;
    if (lease.fence == 0) return lease;
    lease.holder = items[3].text;
    lease.progress = items[4].text;
    lease.left = std::chrono::milliseconds(std::clamp<int64_t>(items[5].integer, 0, int64_t{1} << 40));
    lease.is_ours = items[1].integer == 1;
    return lease;
  }

  Task<Lease> RunForLease(const RedisScript& script, Words keys, Words arguments, Until until,
                          std::function<void(RedisReply)> late = nullptr) {
    CO_TRY_ASSIGN(const RedisReply reply,
                  co_await Run(script, keys, std::move(arguments), 6, std::move(until), std::move(late)));
    const auto lease = LeaseOf(reply);
    if (!lease) co_return Error(Code::kUnavailable, fmt::format("Redis answered '{}' with no lease", keys[0]));
    co_return *lease;
  }

  /// The rows of a listing from a place on, and whether others follow. `from`: a script's own words for the place,
  /// empty at the beginning; `read` turns an item into a row.
  template <typename Row>
  Task<std::pair<std::vector<Row>, bool>> ReadListing(
      const RedisScript& script, std::string listing, std::string from, size_t limit,
      std::function<Words(const std::string& from, size_t limit)> arguments,
      std::function<std::optional<Row>(const RedisReply&)> read, Until until) {
    limit = std::max<size_t>(limit, 1);
    std::pair<std::vector<Row>, bool> out;
    for (bool is_over = false; !is_over && out.first.size() <= limit;) {
      // One more than asked for tells whether there is a next page.
      const size_t count = std::min(limit - out.first.size() + 1, kRowsAtOnce);
      Words keys = {listing};
      Words words = arguments(from, count);
      CO_TRY_ASSIGN(const RedisReply reply, co_await Run(script, std::move(keys), std::move(words), 4, until));
      if (!reply.items[1].Is(Kind::kInteger) || !reply.items[2].Is(Kind::kString) || !reply.items[3].Is(Kind::kArray)) {
        co_return Error(Code::kUnavailable, fmt::format("Redis answered '{}' with no listing", listing));
      }
      is_over = reply.items[1].integer != 1;
      // A listing that does not go on would be read for ever.
      if (!is_over && reply.items[2].text == from) {
        co_return Error(Code::kUnavailable, fmt::format("the listing '{}' does not go on", listing));
      }
      from = reply.items[2].text;
      for (const RedisReply& item : reply.items[3].items) {
        auto row = read(item);
        if (!row) co_return Error(Code::kUnavailable, fmt::format("Redis listed in '{}' what is no row", listing));
        out.first.push_back(*std::move(row));
      }
    }
    out.second = out.first.size() > limit;
    if (out.second) out.first.resize(limit);
    co_return out;
  }

  static std::optional<RecordPage::Row> RowOf(const RedisReply& item) {
    if (!item.Is(Kind::kArray) || item.items.size() != 5) return std::nullopt;
    const auto digest = Digest::FromHex(item.items[0].text);
    const auto created = ParseNumber<int64_t>(item.items[3].text);
    if (!digest || !created || *created < 0) return std::nullopt;
    const Bytes summary = AsBytes(item.items[2].text);
    return RecordPage::Row{*digest, Buffer(summary.begin(), summary.end()), *created};
  }

  const RedisIndexOptions options;
  RedisClient client;
};

RedisIndex::RedisIndex(std::shared_ptr<State> state) : state_(std::move(state)) {}
RedisIndex::~RedisIndex() = default;

Result<std::unique_ptr<RedisIndex>> RedisIndex::Open(boost::asio::io_context& io, RedisIndexOptions options) {
  for (const auto ttl : options.ttl) {
    if (ttl.count() < 0) return Error(Code::kInvalid, "a time to live is not below zero");
  }
  RedisClientOptions client = options.client;
  TRY_ASSIGN(client.url, RedisUrl::Parse(options.url));
  if (!client.url.user.empty() && client.password.empty()) {
    return Error(Code::kInvalid, fmt::format("the URL of {} names a user, and there is no password for it "
                                             "(cluster_index_password_file)",
                                             client.url.ToText()));
  }
  auto state = std::make_shared<State>(io, std::move(options), std::move(client));
  return std::unique_ptr<RedisIndex>(new RedisIndex(std::move(state)));
}

Task<std::vector<Record>> RedisIndex::Get(std::vector<RecordKey> keys, Until until) {
  const auto state = state_;
  CO_TRY(until.Check());
  std::vector<Record> records;
  records.reserve(keys.size());
  for (size_t at = 0; at < keys.size(); at += kKeysAtOnce) {
    const std::span<const RecordKey> some(keys.data() + at, std::min(kKeysAtOnce, keys.size() - at));
    CO_TRY_ASSIGN(std::vector<Record> more, co_await state->GetSome(some, until));
    std::move(more.begin(), more.end(), std::back_inserter(records));
  }
  co_return records;
}

Task<uint64_t> RedisIndex::CompareAndSet(RecordKey key, uint64_t expected, Buffer value, RecordFacts facts,
                                         Until until) {
  const auto state = state_;
  CO_TRY(until.Check());
  CO_TRY(CheckRecord(value, facts));
  Words keys = {state->RecordName(key), state->Counter()};
  Words arguments = {state->options.prefix,
                     std::string(NameOf(key.table)),
                     key.digest.ToHex(),
                     std::to_string(expected),
                     std::string(AsText(value)),
                     SealOf(key, value),
                     fmt::format("{}", facts.cost_s),
                     facts.group.empty() ? "" : DigestOf(facts.group).ToHex(),
                     facts.group,
                     std::string(AsText(facts.summary)),
                     std::to_string(state->options.ttl[static_cast<size_t>(key.table)].count())};
  co_return co_await state->RunForNumber(TheRedisScripts().set, std::move(keys), std::move(arguments),
                                         std::move(until));
}

Task<bool> RedisIndex::CompareAndDelete(RecordKey key, uint64_t expected, Until until) {
  const auto state = state_;
  CO_TRY(until.Check());
  Words keys = {state->RecordName(key)};
  Words arguments = {state->options.prefix, std::string(NameOf(key.table)), key.digest.ToHex(),
                     std::to_string(expected)};
  CO_TRY_ASSIGN(const uint64_t deleted, co_await state->RunForNumber(TheRedisScripts().remove, std::move(keys),
                                                                     std::move(arguments), std::move(until)));
  co_return deleted == 1;
}

Task<RecordPage> RedisIndex::List(Table table, std::optional<std::string> group, std::string after, size_t limit,
                                  Until until) {
  const auto state = state_;
  CO_TRY(until.Check());
  const std::string& prefix = state->options.prefix;
  const std::string name(NameOf(table));
  using Row = RecordPage::Row;
  std::function<Words(const std::string&, size_t)> arguments;
  std::function<std::optional<Row>(const RedisReply&)> read;
  std::string listing, from;
  if (!group) {
    if (!after.empty()) {
      CO_TRY_ASSIGN(const Digest place, DigestOfPlace(after));
      from = place.ToHex();
    }
    listing = state->Key("t", name);
    arguments = [&](const std::string& at, size_t count) { return Words{prefix, name, at, std::to_string(count)}; };
    read = [](const RedisReply& item) { return State::RowOf(item); };
  } else {
    // "-1764106000:<digest>": score and digest of the row before.
    if (!after.empty()) {
      CO_TRY_ASSIGN(const auto place, PartsOfGroupPlace(after));
      from = fmt::format("{}:{}", -place.first, place.second.ToHex());
    }
    const std::string digest = DigestOf(*group).ToHex();
    listing = state->Key("g", fmt::format("{}:{}", name, digest));
    arguments = [&prefix, &name, digest](const std::string& at, size_t count) {
      const size_t colon = at.find(':');
      const bool is_first = colon == std::string::npos;
      return Words{prefix,
                   name,
                   digest,
                   is_first ? "" : at.substr(colon + 1),
                   is_first ? "" : at.substr(0, colon),
                   std::to_string(count)};
    };
    read = [&group](const RedisReply& item) -> std::optional<Row> {
      auto row = State::RowOf(item);
      if (!row || item.items[1].text != *group) return std::nullopt;
      return row;
    };
  }
  const RedisScript& script = group ? TheRedisScripts().list_group : TheRedisScripts().list;
  CO_TRY_ASSIGN(auto found, co_await state->ReadListing<Row>(script, listing, from, limit, arguments, read, until));
  RecordPage page;
  page.rows = std::move(found.first);
  if (found.second) {
    const Row& last = page.rows.back();
    page.next = group ? GroupPlace(last.created, last.digest) : TablePlace(last.digest);
  }
  co_return page;
}

Task<Index::GroupPage> RedisIndex::Groups(Table table, std::string after, size_t limit, Until until) {
  const auto state = state_;
  CO_TRY(until.Check());
  std::string from;
  if (!after.empty()) {
    CO_TRY_ASSIGN(const Digest place, DigestOfPlace(after));
    from = place.ToHex();
  }
  const std::string& prefix = state->options.prefix;
  const std::string name(NameOf(table));
  const std::function<Words(const std::string&, size_t)> arguments = [&](const std::string& at, size_t count) {
    return Words{prefix, name, at, std::to_string(count)};
  };
  const std::function<std::optional<std::string>(const RedisReply&)> read =
      [](const RedisReply& item) -> std::optional<std::string> {
    if (!item.Is(Kind::kArray) || item.items.size() != 2) return std::nullopt;
    const std::string& text = item.items[1].text;
    if (GroupNamePlace(text) != item.items[0].text) return std::nullopt;
    return text;
  };
  CO_TRY_ASSIGN(auto found,
                co_await state->ReadListing<std::string>(TheRedisScripts().list_groups, state->Key("s", name), from,
                                                         limit, arguments, read, until));
  GroupPage page;
  if (found.second) page.next = GroupNamePlace(found.first.back());
  page.groups = std::move(found.first);
  co_return page;
}

Task<Record> RedisIndex::Changed(RecordKey key, uint64_t seen, Until until) {
  const auto state = state_;
  const auto heard = state->client.Subscribe(state->Channel(state->RecordName(key)));
  int failed = 0;
  while (true) {
    CO_TRY(until.Check());
    // Before the record is read: what is written after that wakes it.
    const WaiterRef waiter = heard->Enlist();
    auto records = co_await state->GetSome(std::span(&key, 1), until);
    if (records) {
      failed = 0;
      if (records->front().version != seen) co_return std::move(records->front());
    } else if (!State::IsWorthAnother(records.error(), failed)) {
      co_return std::move(records).error();
    }
    CO_TRY(co_await PauseBeforeLook(waiter, state->options.poll_max, state->options.poll_max, until));
  }
}

Task<Lease> RedisIndex::Acquire(Digest key, std::string holder, std::chrono::milliseconds ttl, Until until) {
  const auto state = state_;
  CO_TRY(until.Check());
  if (ttl.count() < 1) co_return Error(Code::kInvalid, "a lease is for at least a millisecond");
  const std::string name = state->LeaseName(key);
  // A lease given when nobody waits for it any more would keep others waiting for its whole time.
  auto give_back = [weak = state->weak_from_this(), name](const RedisReply& reply) {
    const auto self = weak.lock();
    if (!self || !reply.Is(Kind::kArray) || reply.items.size() < 6) return;
    const auto lease = State::LeaseOf(reply);
    if (!lease || !lease->is_ours) return;
    self->client.Start(
        CommandOf("EVAL", TheRedisScripts().release.text, {name}, {self->options.prefix, std::to_string(lease->fence)}),
        1);
  };
  Words keys = {name, state->Counter()};
  Words arguments = {state->options.prefix, std::move(holder), std::to_string(ttl.count())};
  co_return co_await state->RunForLease(TheRedisScripts().acquire, std::move(keys), std::move(arguments),
                                        std::move(until), std::move(give_back));
}

Task<bool> RedisIndex::Renew(Digest key, uint64_t fence, std::string progress, std::chrono::milliseconds ttl,
                             Until until) {
  const auto state = state_;
  CO_TRY(until.Check());
  if (ttl.count() < 1) co_return Error(Code::kInvalid, "a lease is for at least a millisecond");
  Words keys = {state->LeaseName(key)};
  Words arguments = {state->options.prefix, std::to_string(fence), std::move(progress), std::to_string(ttl.count())};
  CO_TRY_ASSIGN(const uint64_t renewed, co_await state->RunForNumber(TheRedisScripts().renew, std::move(keys),
                                                                     std::move(arguments), std::move(until)));
  co_return renewed == 1;
}

Task<void> RedisIndex::Release(Digest key, uint64_t fence, Until until) {
  const auto state = state_;
  CO_TRY(until.Check());
  Words keys = {state->LeaseName(key)};
  Words arguments = {state->options.prefix, std::to_string(fence)};
  CO_TRY(
      co_await state->RunForNumber(TheRedisScripts().release, std::move(keys), std::move(arguments), std::move(until)));
  co_return Status();
}

Task<Lease> RedisIndex::Watch(Digest key, uint64_t fence, std::string progress, Until until) {
  const auto state = state_;
  const Words keys = {state->LeaseName(key)};
  const auto heard = state->client.Subscribe(state->Channel(keys[0]));
  DistantLease lease;
  lease.listen = [heard] { return heard->Enlist(); };
  lease.read = [state, keys](Until look) {
    return state->RunForLease(TheRedisScripts().lease, keys, Words(), std::move(look));
  };
  co_return co_await WatchLease(std::move(lease), fence, std::move(progress), state->options.poll_max, until);
}

std::string RedisIndex::Describe() const { return "redis " + state_->client.Describe(); }

}  // namespace ingot::cache
