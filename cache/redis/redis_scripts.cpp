// SPDX-License-Identifier: Apache-2.0
#include "cache/redis/redis_scripts.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <array>

namespace ingot::cache {
namespace {

// A number larger than all before: microseconds of the server's clock, or one more than the last where that is more.
// Below 2^53 for 200 years, so that Lua's numbers hold it. With the second and the millisecond it was read in.
const std::string kStamp = R"(
local function stamp(counter)
  local t = redis.call('TIME')
  local now = t[1] * 1000000 + t[2]
  local last = tonumber(redis.call('GET', counter) or '0') or 0
  local text = string.format('%.0f', math.max(last + 1, now))
  redis.call('SET', counter, text)
  return text, t[1], t[1] * 1000 + math.floor(t[2] / 1000)
end
)";

// Takes a record out of the listing of its group; a group without records is none.
const std::string kUngroup = R"(
local function ungroup(p, t, g, m)
  local z = p .. 'g:' .. t .. ':' .. g
  redis.call('ZREM', z, m)
  if redis.call('EXISTS', z) == 0 then
    redis.call('ZREMRANGEBYLEX', p .. 's:' .. t, '[' .. g .. ':', '(' .. g .. ';')
  end
end
)";

// KEYS: record, counter. ARGV: prefix, table, digest, expected version, value, its digest, cost, digest of the group
// or '', group, summary, time to live in ms.
// Where records end by themselves, their listings end in the same millisecond: PEXPIRE would read the clock again for
// each. A new record looks at two others of its listings: they shrink as fast as they grow.
const std::string kSet = R"(
local r, p, t, m, g = KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[8]
local was = redis.call('HMGET', r, 'n', 'g')
if (was[1] or '0') ~= ARGV[4] then return {r, '0'} end
local n, now, ms = stamp(KEYS[2])
if was[2] and was[2] ~= '' and was[2] ~= g then ungroup(p, t, was[2], m) end
redis.call('HSET', r, 'n', n, 'v', ARGV[5], 'd', ARGV[6], 'k', ARGV[7], 'g', g, 'x', ARGV[9], 's', ARGV[10],
           'c', now, 'b', string.format('%d', #ARGV[5]))
local lists = {p .. 't:' .. t}
redis.call('ZADD', lists[1], 0, m)
if g ~= '' then
  lists[2] = p .. 'g:' .. t .. ':' .. g
  lists[3] = p .. 's:' .. t
  redis.call('ZADD', lists[2], -now, m)
  redis.call('ZADD', lists[3], 0, g .. ':' .. ARGV[9])
end
local ttl = tonumber(ARGV[11])
if ttl > 0 then
  local ends = string.format('%.0f', ms + ttl)
  redis.call('PEXPIREAT', r, ends)
  for _, z in ipairs(lists) do redis.call('PEXPIREAT', z, ends) end
else
  redis.call('PERSIST', r)
  for _, z in ipairs(lists) do redis.call('PERSIST', z) end
end
if not was[1] then
  for i = 1, math.min(#lists, 2) do
    for _, other in ipairs(redis.call('ZRANDMEMBER', lists[i], 2)) do
      if redis.call('EXISTS', p .. 'r:' .. t .. ':' .. other) == 0 then redis.call('ZREM', lists[i], other) end
    end
  end
end
redis.call('PUBLISH', p .. 'c:' .. r, n)
return {r, n}
)";

// KEYS: record. ARGV: prefix, table, digest, expected version.
const std::string kRemove = R"(
local r, p = KEYS[1], ARGV[1]
local was = redis.call('HMGET', r, 'n', 'g')
if not was[1] or was[1] ~= ARGV[4] then return {r, '0'} end
redis.call('DEL', r)
redis.call('ZREM', p .. 't:' .. ARGV[2], ARGV[3])
if was[2] and was[2] ~= '' then ungroup(p, ARGV[2], was[2], ARGV[3]) end
redis.call('PUBLISH', p .. 'c:' .. r, '0')
return {r, '1'}
)";

// Facts of the records of a listing's members, without those that have gone: they leave the listing.
const std::string kRows = R"(
local function rows(p, t, z, members, g)
  local out = {}
  for _, m in ipairs(members) do
    local f = redis.call('HMGET', p .. 'r:' .. t .. ':' .. m, 'n', 'g', 'x', 's', 'c', 'b')
    if f[1] and (g == nil or f[2] == g) then
      out[#out + 1] = {m, f[3] or '', f[4] or '', f[5] or '0', f[6] or '0'}
    else
      redis.call('ZREM', z, m)
    end
  end
  return out
end
)";

// KEYS: listing. ARGV: prefix, table, digest before or '', limit. {listing, more, last looked at, rows}.
const std::string kList = R"(
local from = '-'
if ARGV[3] ~= '' then from = '(' .. ARGV[3] end
local members = redis.call('ZRANGE', KEYS[1], from, '+', 'BYLEX', 'LIMIT', 0, ARGV[4])
local more = 0
if #members == tonumber(ARGV[4]) then more = 1 end
return {KEYS[1], more, members[#members] or '', rows(ARGV[1], ARGV[2], KEYS[1], members, nil)}
)";

// KEYS: listing. ARGV: prefix, table, digest of the group, digest before or '', its score, limit. As kList, with the
// score of the last after it. Members of one score stand in the order of digests: where the page begins is looked up
// by halves, whether the member before is still there or not.
const std::string kListGroup = R"(
local z, first = KEYS[1], 0
if ARGV[4] ~= '' then
  first = redis.call('ZCOUNT', z, '-inf', '(' .. ARGV[5])
  local past = redis.call('ZCOUNT', z, '-inf', ARGV[5])
  while first < past do
    local middle = math.floor((first + past) / 2)
    if redis.call('ZRANGE', z, middle, middle)[1] <= ARGV[4] then first = middle + 1 else past = middle end
  end
end
local limit = tonumber(ARGV[6])
local pairs_ = redis.call('ZRANGE', z, first, first + limit - 1, 'WITHSCORES')
local members = {}
for i = 1, #pairs_, 2 do members[#members + 1] = pairs_[i] end
local more = 0
if #members == limit then more = 1 end
local last = ''
if #members > 0 then last = string.format('%.0f', tonumber(pairs_[#pairs_])) .. ':' .. members[#members] end
return {z, more, last, rows(ARGV[1], ARGV[2], z, members, ARGV[3])}
)";

// KEYS: names. ARGV: prefix, table, digest of the group before or '', limit. {names, more, last, groups}.
const std::string kListGroups = R"(
local from = '-'
if ARGV[3] ~= '' then from = '(' .. ARGV[3] .. ';' end
local names = redis.call('ZRANGE', KEYS[1], from, '+', 'BYLEX', 'LIMIT', 0, ARGV[4])
local more, last, out = 0, '', {}
if #names == tonumber(ARGV[4]) then more = 1 end
for _, name in ipairs(names) do
  last = string.sub(name, 1, 32)
  if redis.call('EXISTS', ARGV[1] .. 'g:' .. ARGV[2] .. ':' .. last) == 1 then
    out[#out + 1] = {last, string.sub(name, 34)}
  else
    redis.call('ZREM', KEYS[1], name)
  end
end
return {KEYS[1], more, last, out}
)";

// KEYS: lease, counter. ARGV: prefix, holder, ttl in ms. {lease, ours, fence, holder, progress, ms left}.
const std::string kAcquire = R"(
local l = KEYS[1]
local held = redis.call('HMGET', l, 'f', 'h', 'p')
if held[1] then return {l, 0, held[1], held[2] or '', held[3] or '', redis.call('PTTL', l)} end
local fence = stamp(KEYS[2])
redis.call('DEL', l)
redis.call('HSET', l, 'f', fence, 'h', ARGV[2], 'p', '')
redis.call('PEXPIRE', l, ARGV[3])
redis.call('PUBLISH', ARGV[1] .. 'c:' .. l, fence)
return {l, 1, fence, ARGV[2], '', tonumber(ARGV[3])}
)";

// KEYS: lease. ARGV: prefix, fence, progress, ttl in ms.
const std::string kRenew = R"(
local l = KEYS[1]
local held = redis.call('HMGET', l, 'f', 'p')
if held[1] ~= ARGV[2] then return {l, '0'} end
redis.call('HSET', l, 'p', ARGV[3])
redis.call('PEXPIRE', l, ARGV[4])
if held[2] ~= ARGV[3] then redis.call('PUBLISH', ARGV[1] .. 'c:' .. l, ARGV[2]) end
return {l, '1'}
)";

// KEYS: lease. ARGV: prefix, fence.
const std::string kRelease = R"(
local l = KEYS[1]
if redis.call('HGET', l, 'f') ~= ARGV[2] then return {l, '0'} end
redis.call('DEL', l)
redis.call('PUBLISH', ARGV[1] .. 'c:' .. l, '0')
return {l, '1'}
)";

// KEYS: lease. As kAcquire, without taking it.
const std::string kLease = R"(
local held = redis.call('HMGET', KEYS[1], 'f', 'h', 'p')
return {KEYS[1], 0, held[1] or '0', held[2] or '', held[3] or '', redis.call('PTTL', KEYS[1])}
)";

}  // namespace

RedisScript::RedisScript(std::string text) : text(std::move(text)) {
  std::array<uint8_t, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  EVP_Digest(this->text.data(), this->text.size(), digest.data(), &size, EVP_sha1(), nullptr);
  for (unsigned i = 0; i < size; ++i) sha += fmt::format("{:02x}", digest[i]);
}

const RedisScripts& TheRedisScripts() {
  static const RedisScripts* const scripts = new RedisScripts{
      .set = RedisScript(kStamp + kUngroup + kSet),
      .remove = RedisScript(kUngroup + kRemove),
      .list = RedisScript(kRows + kList),
      .list_group = RedisScript(kRows + kListGroup),
      .list_groups = RedisScript(kListGroups),
      .acquire = RedisScript(kStamp + kAcquire),
      .renew = RedisScript(kRenew),
      .release = RedisScript(kRelease),
      .lease = RedisScript(kLease),
  };
  return *scripts;
}

}  // namespace ingot::cache
