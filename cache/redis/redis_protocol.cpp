// SPDX-License-Identifier: Apache-2.0
#include "cache/redis/redis_protocol.h"

#include <fmt/format.h>
#include <hiredis/hiredis.h>
#include <hiredis/read.h>

#include <cstdlib>
#include <new>

namespace ingot::cache {
namespace {

/// What the functions below, called by hiredis, share for one reply.
struct Building {
  RedisReplyLimits limits;
  size_t values = 0;
  bool is_exhausted = false;
};

/// A place for the value that is read now; nothing, which ends the stream, when there are too many. An array grows
/// as its values arrive, whatever size it claims: its last value is the only one that hiredis may still point to.
RedisReply* Place(const redisReadTask* task, RedisReply::Kind kind) {
  auto& building = *static_cast<Building*>(task->privdata);
  if (++building.values > building.limits.values_max) {
    building.is_exhausted = true;
    return nullptr;
  }
  RedisReply* value =
      task->parent == nullptr ? new RedisReply : &static_cast<RedisReply*>(task->parent->obj)->items.emplace_back();
  value->kind = kind;
  return value;
}

void* MakeText(const redisReadTask* task, char* bytes, size_t size) {
  const auto kind = task->type == REDIS_REPLY_ERROR    ? RedisReply::Kind::kError
                    : task->type == REDIS_REPLY_STATUS ? RedisReply::Kind::kStatus
                                                       : RedisReply::Kind::kString;
  RedisReply* value = Place(task, kind);
  if (value) value->text.assign(bytes, size);
  return value;
}
void* MakeArray(const redisReadTask* task, int) { return Place(task, RedisReply::Kind::kArray); }
void* MakeInteger(const redisReadTask* task, long long integer) {  // NOLINT
  RedisReply* value = Place(task, RedisReply::Kind::kInteger);
  if (value) value->integer = integer;
  return value;
}
void* MakeNil(const redisReadTask* task) { return Place(task, RedisReply::Kind::kNil); }
void FreeReply(void* reply) { delete static_cast<RedisReply*>(reply); }

redisReplyObjectFunctions functions = {MakeText, MakeArray, MakeInteger, MakeNil, FreeReply};

}  // namespace

struct RedisParser::State {
  Building building;
  redisReader* reader = nullptr;
  /// Bytes of the reply that is not all there.
  size_t bytes = 0;
};

RedisParser::RedisParser(RedisReplyLimits limits) : state_(std::make_unique<State>()) {
  state_->building.limits = limits;
  state_->reader = redisReaderCreateWithFunctions(&functions);
  if (state_->reader == nullptr) throw std::bad_alloc();
  state_->reader->privdata = &state_->building;
}

RedisParser::~RedisParser() { redisReaderFree(state_->reader); }

Status RedisParser::Feed(std::string_view bytes) {
  state_->bytes += bytes.size();
  if (state_->bytes > state_->building.limits.bytes_max) {
    return Error(Code::kExhausted, fmt::format("a reply is larger than {} bytes", state_->building.limits.bytes_max));
  }
  if (redisReaderFeed(state_->reader, bytes.data(), bytes.size()) != REDIS_OK) {
    return Error(Code::kCorrupt, state_->reader->errstr);
  }
  return {};
}

Result<std::optional<RedisReply>> RedisParser::Next() {
  void* made = nullptr;
  if (redisReaderGetReply(state_->reader, &made) != REDIS_OK) {
    if (state_->building.is_exhausted) {
      return Error(Code::kExhausted,
                   fmt::format("a reply has more than {} values", state_->building.limits.values_max));
    }
    return Error(Code::kCorrupt, state_->reader->errstr);
  }
  if (made == nullptr) return std::optional<RedisReply>();
  const std::unique_ptr<RedisReply> reply(static_cast<RedisReply*>(made));
  state_->building.values = 0;
  // What is left belongs to the next.
  state_->bytes = state_->reader->len - state_->reader->pos;
  return std::optional<RedisReply>(std::move(*reply));
}

std::string FormatRedisCommand(std::span<const std::string_view> words) {
  std::vector<const char*> texts;
  std::vector<size_t> sizes;
  for (const std::string_view word : words) {
    texts.push_back(word.data());
    sizes.push_back(word.size());
  }
  char* made = nullptr;
  const int size = redisFormatCommandArgv(&made, static_cast<int>(words.size()), texts.data(), sizes.data());
  if (size < 0) throw std::bad_alloc();
  const std::unique_ptr<char, decltype(&std::free)> owner(made, &std::free);
  return std::string(made, static_cast<size_t>(size));
}

}  // namespace ingot::cache
