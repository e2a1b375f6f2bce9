// SPDX-License-Identifier: Apache-2.0
#include "cache/redis_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <deque>
#include <limits>
#include <tuple>
#include <utility>

#include "base/log.h"
#include "cache/lease_watch.h"
#include "cache/redis_scripts.h"
#include "cache/rendezvous.h"

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

Error NoCursor(std::string_view after) {
  return Error(Code::kInvalid, fmt::format("no listing of this sort gave the place '{}' to go on from", after));
}

bool IsHex(std::string_view text) { return text.size() == 32 && Digest::FromHex(text).has_value(); }

/// One row of a listing with its place in it: places of one listing compare like their rows.
template <typename Row>
struct Placed {
  std::string place;
  Row row;
};

/// What is left of a listing in one shard.
template <typename Row>
struct ShardRows {
  std::deque<Placed<Row>> rows;
  std::string after;
  bool is_over = false;
};

/// Scores are seconds below zero, so that the newest comes first; places need no sign.
std::string PlaceOf(int64_t created, std::string_view digest) {
  return fmt::format("{:020}{}", std::numeric_limits<int64_t>::max() - created, digest);
}

}  // namespace

struct RedisIndex::State : std::enable_shared_from_this<RedisIndex::State> {
  explicit State(RedisIndexOptions options) : options(std::move(options)) {}

  size_t ShardOf(const Digest& digest) const { return RendezvousOrder(names, digest, 1).front(); }
  RedisClient& ClientOf(const Digest& digest) const { return *clients[ShardOf(digest)]; }

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
  Error Odd(RedisClient& client, const RedisCallRef& call, std::string_view asked) {
    const std::string why = fmt::format("Redis answered '{}' with something else than its script does", asked);
    client.Distrust(call, why);
    return Error(Code::kUnavailable, why);
  }

  /// Runs a script by its name, or with its text where the server does not know it (yet, or any more). At least
  /// `items` items.
  Task<RedisReply> Run(RedisClient& client, const RedisScript& script, Words keys, Words arguments, size_t items,
                       Until until, std::function<void(RedisReply)> late = nullptr) {
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
        co_return Odd(client, call, keys[0]);
      }
      co_return std::move(reply);
    }
    co_return Error(Code::kUnavailable, "Redis does not run scripts");
  }

  /// The number that a script answered after its key.
  Task<uint64_t> RunForNumber(RedisClient& client, const RedisScript& script, Words keys, Words arguments,
                              Until until) {
    CO_TRY_ASSIGN(const RedisReply reply,
                  co_await Run(client, script, keys, std::move(arguments), 2, std::move(until)));
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
    std::vector<std::vector<size_t>> wanted(clients.size());
    for (size_t i = 0; i < keys.size(); ++i) wanted[ShardOf(keys[i].digest)].push_back(i);
    std::vector<RedisCallRef> calls(clients.size());
    for (size_t shard = 0; shard < clients.size(); ++shard) {
      if (wanted[shard].empty()) continue;
      std::string commands;
      for (const size_t i : wanted[shard]) {
        const std::string name = RecordName(keys[i]);
        commands += ReadOf(name);
      }
      calls[shard] = clients[shard]->Start(std::move(commands), wanted[shard].size());
    }
    std::vector<Record> records(keys.size());
    for (size_t shard = 0; shard < clients.size(); ++shard) {
      if (calls[shard] == nullptr) continue;
      CO_TRY_ASSIGN(const std::vector<RedisReply> replies, co_await clients[shard]->Finish(calls[shard], until));
      for (size_t at = 0; at < replies.size(); ++at) {
        const RedisReply& reply = replies[at];
        const RecordKey& key = keys[wanted[shard][at]];
        if (reply.Is(Kind::kError)) co_return ErrorOf(reply);
        if (!IsRecord(reply)) co_return Odd(*clients[shard], calls[shard], RecordName(key));
        auto record = RecordOf(key, reply);
        if (record) {
          records[wanted[shard][at]] = *std::move(record);
        } else {
          CO_TRY_ASSIGN(records[wanted[shard][at]], co_await ReadAgain(key, until));
        }
      }
    }
    co_return records;
  }

  static bool IsRecord(const RedisReply& reply) {
    return reply.Is(Kind::kArray) && reply.items.size() == 3 && std::all_of(reply.items.begin(), reply.items.end(),
               [](const RedisReply& item) { return item.Is(Kind::kString) || item.Is(Kind::kNil); });
  }

  /// Tells a record that was damaged on its way from one that is damaged where it is; that one goes.
  Task<Record> ReadAgain(RecordKey key, Until until) {
    RedisClient& client = ClientOf(key.digest);
    const std::string name = RecordName(key);
    const RedisCallRef call = client.Start(ReadOf(name), 1);
    CO_TRY_ASSIGN(const std::vector<RedisReply> replies, co_await client.Finish(call, until));
    if (replies[0].Is(Kind::kError)) co_return ErrorOf(replies[0]);
    if (!IsRecord(replies[0])) co_return Odd(client, call, name);
    if (auto record = RecordOf(key, replies[0])) co_return *std::move(record);
    LogWarn("removed a damaged record", {{"server", client.Describe()}, {"key", name}});
    const std::string version = replies[0].items[0].text;
    Words keys = {name};
    Words arguments = {options.prefix, std::string(NameOf(key.table)), key.digest.ToHex(), version};
    CO_TRY(co_await Run(client, TheRedisScripts().remove, std::move(keys), std::move(arguments), 2, until));
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

  Task<Lease> RunForLease(RedisClient& client, const RedisScript& script, Words keys, Words arguments, Until until,
                          std::function<void(RedisReply)> late = nullptr) {
    CO_TRY_ASSIGN(const RedisReply reply, co_await Run(client, script, keys, std::move(arguments), 6,
                                                       std::move(until), std::move(late)));
    const auto lease = LeaseOf(reply);
    if (!lease) co_return Error(Code::kUnavailable, fmt::format("Redis answered '{}' with no lease", keys[0]));
    co_return *lease;
  }

  /// Merges what the shards list by places; `read` turns an item of a script's rows into a row with its place.
  template <typename Row>
  Task<std::pair<std::vector<Placed<Row>>, bool>> Merge(
      const RedisScript& script, std::string listing, std::string after, size_t limit,
      std::function<Words(const std::string& after, size_t limit)> arguments,
      std::function<std::optional<Placed<Row>>(const RedisReply&)> read, Until until) {
    limit = std::max<size_t>(limit, 1);
    std::vector<ShardRows<Row>> shards(clients.size());
    for (ShardRows<Row>& shard : shards) shard.after = after;
    std::pair<std::vector<Placed<Row>>, bool> out;
    while (true) {
      for (size_t i = 0; i < shards.size(); ++i) {
        ShardRows<Row>& shard = shards[i];
        while (shard.rows.empty() && !shard.is_over) {
          // One more than asked for tells whether there is a next page.
          const size_t count = std::min(limit - std::min(limit, out.first.size()) + 1, kRowsAtOnce);
          Words keys = {listing};
          Words words = arguments(shard.after, count);
          CO_TRY_ASSIGN(const RedisReply reply,
                        co_await Run(*clients[i], script, std::move(keys), std::move(words), 4, until));
          if (!reply.items[1].Is(Kind::kInteger) || !reply.items[2].Is(Kind::kString) ||
              !reply.items[3].Is(Kind::kArray)) {
            co_return Error(Code::kUnavailable, fmt::format("Redis answered '{}' with no listing", listing));
          }
          shard.is_over = reply.items[1].integer != 1;
          // A listing that does not go on would be read for ever.
          if (!shard.is_over && reply.items[2].text == shard.after) {
            co_return Error(Code::kUnavailable, fmt::format("the listing '{}' does not go on", listing));
          }
          shard.after = reply.items[2].text;
          for (const RedisReply& item : reply.items[3].items) {
            auto row = read(item);
            if (!row) co_return Error(Code::kUnavailable, fmt::format("Redis listed in '{}' what is no row", listing));
            shard.rows.push_back(*std::move(row));
          }
        }
      }
      ShardRows<Row>* first = nullptr;
      for (ShardRows<Row>& shard : shards) {
        if (!shard.rows.empty() && (!first || shard.rows.front().place < first->rows.front().place)) first = &shard;
      }
      if (first == nullptr) co_return out;
      Placed<Row> row = std::move(first->rows.front());
      first->rows.pop_front();
      // A group may be in several shards.
      if (!out.first.empty() && out.first.back().place == row.place) continue;
      if (out.first.size() == limit) {
        out.second = true;
        co_return out;
      }
      out.first.push_back(std::move(row));
    }
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
  std::vector<std::string> names;
  std::vector<std::shared_ptr<RedisClient>> clients;
};

RedisIndex::RedisIndex(std::shared_ptr<State> state) : state_(std::move(state)) {}
RedisIndex::~RedisIndex() = default;

Result<std::unique_ptr<RedisIndex>> RedisIndex::Open(boost::asio::io_context& io, RedisIndexOptions options) {
  if (options.urls.empty()) return Error(Code::kInvalid, "a Redis index needs the URL of at least one server");
  for (const auto ttl : options.ttl) {
    if (ttl.count() < 0) return Error(Code::kInvalid, "a time to live is not below zero");
  }
  auto state = std::make_shared<State>(std::move(options));
  for (const std::string& text : state->options.urls) {
    RedisClientOptions client = state->options.client;
    TRY_ASSIGN(client.url, RedisUrl::Parse(text));
    std::string name = client.url.ToText();
    if (std::count(state->names.begin(), state->names.end(), name) > 0) {
      return Error(Code::kInvalid, fmt::format("the Redis server {} is named twice", name));
    }
    state->names.push_back(std::move(name));
    state->clients.push_back(std::make_shared<RedisClient>(io, std::move(client)));
  }
  return std::unique_ptr<RedisIndex>(new RedisIndex(std::move(state)));
}

size_t RedisIndex::ShardOf(const Digest& digest) const { return state_->ShardOf(digest); }

std::vector<IndexShard> RedisIndex::Shards() const {
  std::vector<IndexShard> shards;
  for (size_t i = 0; i < state_->clients.size(); ++i) {
    auto state = std::make_shared<State>(state_->options);
    state->names = {state_->names[i]};
    state->clients = {state_->clients[i]};
    shards.push_back({state_->names[i], std::shared_ptr<Index>(new RedisIndex(std::move(state)))});
  }
  return shards;
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
  if (value.size() > kRecordBytesMax || facts.group.size() > kGroupBytesMax ||
      facts.summary.size() > kSummaryBytesMax) {
    co_return Error(Code::kInvalid, fmt::format("a record of {} bytes, group {} and summary {}; at most {}, {} and {}",
                                                value.size(), facts.group.size(), facts.summary.size(),
                                                kRecordBytesMax, kGroupBytesMax, kSummaryBytesMax));
  }
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
  co_return co_await state->RunForNumber(state->ClientOf(key.digest), TheRedisScripts().set, std::move(keys),
                                         std::move(arguments), std::move(until));
}

Task<bool> RedisIndex::CompareAndDelete(RecordKey key, uint64_t expected, Until until) {
  const auto state = state_;
  CO_TRY(until.Check());
  Words keys = {state->RecordName(key)};
  Words arguments = {state->options.prefix, std::string(NameOf(key.table)), key.digest.ToHex(),
                     std::to_string(expected)};
  CO_TRY_ASSIGN(const uint64_t deleted, co_await state->RunForNumber(state->ClientOf(key.digest),
                                                                    TheRedisScripts().remove, std::move(keys),
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
  std::function<std::optional<Placed<Row>>(const RedisReply&)> read;
  std::string listing;
  if (!group) {
    if (!after.empty() && !IsHex(after)) co_return NoCursor(after);
    listing = state->Key("t", name);
    arguments = [&](const std::string& from, size_t count) { return Words{prefix, name, from, std::to_string(count)}; };
    read = [](const RedisReply& item) -> std::optional<Placed<Row>> {
      auto row = State::RowOf(item);
      if (!row) return std::nullopt;
      std::string place = row->digest.ToHex();
      return Placed<Row>{std::move(place), *std::move(row)};
    };
  } else {
    // "-1764106000:<digest>": score and digest of the row before.
    const size_t colon = after.find(':');
    if (!after.empty() && (colon == std::string::npos || !ParseNumber<int64_t>(after.substr(0, colon)) ||
                           !IsHex(after.substr(colon + 1)))) {
      co_return NoCursor(after);
    }
    const std::string digest = DigestOf(*group).ToHex();
    listing = state->Key("g", fmt::format("{}:{}", name, digest));
    arguments = [&prefix, &name, digest](const std::string& from, size_t count) {
      const size_t at = from.find(':');
      const bool is_first = at == std::string::npos;
      return Words{prefix, name, digest, is_first ? "" : from.substr(at + 1), is_first ? "" : from.substr(0, at),
                   std::to_string(count)};
    };
    read = [&group](const RedisReply& item) -> std::optional<Placed<Row>> {
      auto row = State::RowOf(item);
      if (!row || item.items[1].text != *group) return std::nullopt;
      std::string place = PlaceOf(row->created, row->digest.ToHex());
      return Placed<Row>{std::move(place), *std::move(row)};
    };
  }
  const RedisScript& script = group ? TheRedisScripts().list_group : TheRedisScripts().list;
  CO_TRY_ASSIGN(auto found, co_await state->Merge<Row>(script, listing, after, limit, arguments, read, until));
  RecordPage page;
  for (Placed<Row>& row : found.first) page.rows.push_back(std::move(row.row));
  if (found.second) {
    const Row& last = page.rows.back();
    page.next = group ? fmt::format("{}:{}", -last.created, last.digest.ToHex()) : last.digest.ToHex();
  }
  co_return page;
}

Task<Index::GroupPage> RedisIndex::Groups(Table table, std::string after, size_t limit, Until until) {
  const auto state = state_;
  CO_TRY(until.Check());
  if (!after.empty() && !IsHex(after)) co_return NoCursor(after);
  const std::string& prefix = state->options.prefix;
  const std::string name(NameOf(table));
  const std::function<Words(const std::string&, size_t)> arguments = [&](const std::string& from, size_t count) {
    return Words{prefix, name, from, std::to_string(count)};
  };
  const std::function<std::optional<Placed<std::string>>(const RedisReply&)> read =
      [](const RedisReply& item) -> std::optional<Placed<std::string>> {
    if (!item.Is(Kind::kArray) || item.items.size() != 2) return std::nullopt;
    const std::string& digest = item.items[0].text;
    const std::string& text = item.items[1].text;
    if (DigestOf(text).ToHex() != digest) return std::nullopt;
    return Placed<std::string>{digest, text};
  };
  CO_TRY_ASSIGN(auto found, co_await state->Merge<std::string>(TheRedisScripts().list_groups, state->Key("s", name),
                                                               after, limit, arguments, read, until));
  GroupPage page;
  if (found.second) page.next = found.first.back().place;
  for (auto& group : found.first) page.groups.push_back(std::move(group.row));
  co_return page;
}

Task<Record> RedisIndex::Changed(RecordKey key, uint64_t seen, Until until) {
  const auto state = state_;
  const auto heard = state->ClientOf(key.digest).Subscribe(state->Channel(state->RecordName(key)));
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
  auto give_back = [weak = state->weak_from_this(), key, name](const RedisReply& reply) {
    const auto self = weak.lock();
    if (!self || !reply.Is(Kind::kArray) || reply.items.size() < 6) return;
    const auto lease = State::LeaseOf(reply);
    if (!lease || !lease->is_ours) return;
    self->ClientOf(key).Start(CommandOf("EVAL", TheRedisScripts().release.text, {name},
                                        {self->options.prefix, std::to_string(lease->fence)}), 1);
  };
  Words keys = {name, state->Counter()};
  Words arguments = {state->options.prefix, std::move(holder), std::to_string(ttl.count())};
  co_return co_await state->RunForLease(state->ClientOf(key), TheRedisScripts().acquire, std::move(keys),
                                        std::move(arguments), std::move(until), std::move(give_back));
}

Task<bool> RedisIndex::Renew(Digest key, uint64_t fence, std::string progress, std::chrono::milliseconds ttl,
                             Until until) {
  const auto state = state_;
  CO_TRY(until.Check());
  if (ttl.count() < 1) co_return Error(Code::kInvalid, "a lease is for at least a millisecond");
  Words keys = {state->LeaseName(key)};
  Words arguments = {state->options.prefix, std::to_string(fence), std::move(progress), std::to_string(ttl.count())};
  CO_TRY_ASSIGN(const uint64_t renewed,
                co_await state->RunForNumber(state->ClientOf(key), TheRedisScripts().renew, std::move(keys),
                                             std::move(arguments), std::move(until)));
  co_return renewed == 1;
}

Task<void> RedisIndex::Release(Digest key, uint64_t fence, Until until) {
  const auto state = state_;
  CO_TRY(until.Check());
  Words keys = {state->LeaseName(key)};
  Words arguments = {state->options.prefix, std::to_string(fence)};
  CO_TRY(co_await state->RunForNumber(state->ClientOf(key), TheRedisScripts().release, std::move(keys),
                                      std::move(arguments), std::move(until)));
  co_return Status();
}

Task<Lease> RedisIndex::Watch(Digest key, uint64_t fence, std::string progress, Until until) {
  const auto state = state_;
  RedisClient& client = state->ClientOf(key);
  const Words keys = {state->LeaseName(key)};
  const auto heard = client.Subscribe(state->Channel(keys[0]));
  DistantLease lease;
  lease.listen = [heard] { return heard->Enlist(); };
  lease.read = [state, &client, keys](Until look) {
    return state->RunForLease(client, TheRedisScripts().lease, keys, Words(), std::move(look));
  };
  co_return co_await WatchLease(std::move(lease), fence, std::move(progress), state->options.poll_max, until);
}

std::string RedisIndex::Describe() const {
  std::string out = state_->clients.size() == 1 ? "redis" : fmt::format("redis in {} shards", state_->clients.size());
  for (size_t i = 0; i < state_->clients.size(); ++i) out += (i ? "; " : " ") + state_->clients[i]->Describe();
  return out;
}

}  // namespace ingot::cache
