// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/thread_pool.hpp>
#include <functional>
#include <future>
#include <latch>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/digest.h"
#include "cache/async/waiter.h"
#include "cache/index/blob_store.h"

/// What holds for every BlobStore. A test of an implementation says
///   INSTANTIATE_TEST_SUITE_P(S3, BlobContract, testing::Values(ingot::cache::BlobKind{"s3", MakeS3}), KindName);

namespace ingot::cache {

/// A store that is empty, and whatever it needs to live, destroyed after it.
struct BlobWorld {
  std::shared_ptr<void> around;
  std::unique_ptr<BlobStore> store;
};
struct BlobKind {
  std::string name;
  std::function<BlobWorld()> make;
  /// Larger ones are refused.
  size_t bytes_max = SIZE_MAX;
};
inline std::string KindName(const testing::TestParamInfo<BlobKind>& info) { return info.param.name; }
inline void PrintTo(const BlobKind& kind, std::ostream* out) { *out << kind.name; }

/// Where coroutines of tests run: it outlives whoever may still be on the way out of waking one of them.
inline boost::asio::thread_pool& TestPool() {
  static auto* const pool = new boost::asio::thread_pool(4);
  return *pool;
}

/// Comes back when the coroutine has ended.
template <typename T>
Result<T> Await(Task<T> task) {
  std::promise<Result<T>> promise;
  auto future = promise.get_future();
  boost::asio::co_spawn(
      TestPool(),
      [](Task<T> inner, std::promise<Result<T>> to) -> boost::asio::awaitable<void> {
        Result<T> result = co_await std::move(inner);
        to.set_value(std::move(result));
      }(std::move(task), std::move(promise)),
      boost::asio::detached);
  return future.get();
}

/// Runs work(0) to work(count - 1) at once.
inline void AwaitAll(size_t count, const std::function<boost::asio::awaitable<void>(size_t)>& work) {
  std::latch ended(static_cast<std::ptrdiff_t>(count));
  for (size_t i = 0; i < count; ++i) {
    boost::asio::co_spawn(TestPool(), work(i), [&ended](std::exception_ptr) { ended.count_down(); });
  }
  ended.wait();
}

/// Bytes that a packer can do something with, or not; those of each seed are others.
inline Buffer MakeBlobBytes(size_t size, uint64_t seed, bool packs = false) {
  Buffer bytes(size);
  uint64_t x = seed * 0x9E3779B97F4A7C15 + 1;
  for (size_t i = 0; i < size; ++i) {
    if (!packs || i % 64 < 8) {
      x ^= x << 13;
      x ^= x >> 7;
      x ^= x << 17;
    }
    bytes[i] = static_cast<uint8_t>(x);
  }
  return bytes;
}
inline SealedRef MakeBlob(size_t size, uint64_t seed, bool packs = false) {
  return SealedFile::Copy(MakeBlobBytes(size, seed, packs)).value();
}

class BlobContract : public testing::TestWithParam<BlobKind> {
 protected:
  BlobContract() : world_(GetParam().make()), store_(*world_.store) {}

  static Until Soon() { return Until::In(std::chrono::seconds(60)); }
  Result<SealedRef> Get(const Digest& digest, Until until = Soon()) { return Await(store_.Get(digest, until)); }
  Result<bool> Put(const Digest& digest, SealedRef blob, Until until = Soon()) {
    return Await(store_.Put(digest, std::move(blob), 1.5, until));
  }
  Result<std::vector<bool>> Has(std::vector<Digest> digests) { return Await(store_.Has(std::move(digests), Soon())); }

  BlobWorld world_;
  BlobStore& store_;
};

TEST_P(BlobContract, GivesBackWhatWasPut) {
  constexpr size_t kMiB = 1u << 20;
  std::set<Digest> known;
  for (const size_t size : {size_t{0}, size_t{1}, size_t{65535}, size_t{65536}, size_t{65537}, 16 * kMiB - 1, 16 * kMiB,
                            16 * kMiB + 1, 40 * kMiB}) {
    if (size > GetParam().bytes_max) continue;
    for (const bool packs : {false, true}) {
      const SealedRef blob = MakeBlob(size, size + 7, packs);
      const Digest digest = DigestOf(blob->bytes());
      const Result<bool> put = Put(digest, blob);
      ASSERT_TRUE(put) << size << ": " << put.error().ToText();
      EXPECT_EQ(*put, known.insert(digest).second) << size;
      const Result<SealedRef> got = Get(digest);
      ASSERT_TRUE(got) << size << ": " << got.error().ToText();
      EXPECT_EQ((*got)->size(), size);
      EXPECT_TRUE(AsText((*got)->bytes()) == AsText(blob->bytes())) << size;
      EXPECT_TRUE(proto::CheckSealed((*got)->fd())) << size;
    }
  }
}

TEST_P(BlobContract, MissIsNotFound) {
  const Digest absent = DigestOf("absent");
  EXPECT_EQ(Get(absent).error().code(), Code::kNotFound);
  EXPECT_EQ(*Has({absent}), std::vector<bool>{false});
  const Result<bool> deleted = Await(store_.Delete(absent, Soon()));
  ASSERT_TRUE(deleted) << deleted.error().ToText();
  EXPECT_FALSE(*deleted);
}

TEST_P(BlobContract, RefusesBytesOfAnotherName) {
  const Digest name = DigestOf("other bytes");
  const Result<bool> put = Put(name, MakeBlob(100, 1));
  ASSERT_FALSE(put);
  EXPECT_EQ(put.error().code(), Code::kInvalid);
  EXPECT_EQ(Get(name).error().code(), Code::kNotFound);
}

TEST_P(BlobContract, TwiceIsHarmless) {
  const SealedRef blob = MakeBlob(100'000, 2);
  const Digest digest = DigestOf(blob->bytes());
  EXPECT_TRUE(*Put(digest, blob));
  EXPECT_FALSE(*Put(digest, blob));
  EXPECT_EQ(AsText((*Get(digest))->bytes()), AsText(blob->bytes()));
}

TEST_P(BlobContract, DeleteRemovesAlsoWhatWasJustRead) {
  const SealedRef blob = MakeBlob(100'000, 3);
  const Digest digest = DigestOf(blob->bytes());
  ASSERT_TRUE(*Put(digest, blob));
  const Result<SealedRef> held = Get(digest);
  ASSERT_TRUE(held);
  EXPECT_TRUE(*Await(store_.Delete(digest, Soon())));
  EXPECT_FALSE(*Await(store_.Delete(digest, Soon())));
  EXPECT_EQ(Get(digest).error().code(), Code::kNotFound);
  EXPECT_EQ(*Has({digest}), std::vector<bool>{false});
  EXPECT_EQ(AsText((*held)->bytes()), AsText(blob->bytes()));
  EXPECT_TRUE(*Put(digest, blob));
  EXPECT_TRUE(Get(digest));
}

TEST_P(BlobContract, HasAnswersInOrderForFewAndMany) {
  std::vector<Digest> digests;
  std::vector<bool> expected;
  for (uint64_t i = 0; i < 300; ++i) {
    const SealedRef blob = MakeBlob(64, 1000 + i);
    digests.push_back(DigestOf(blob->bytes()));
    expected.push_back(i % 3 == 0);
    if (i % 3 == 0) {
      ASSERT_TRUE(*Put(digests.back(), blob));
    }
  }
  // One name twice has one answer twice.
  digests.push_back(digests[0]);
  expected.push_back(true);
  const Result<std::vector<bool>> has = Has(digests);
  ASSERT_TRUE(has) << has.error().ToText();
  EXPECT_EQ(*has, expected);
  EXPECT_EQ(*Has({digests[1], digests[0]}), (std::vector<bool>{false, true}));
  EXPECT_EQ(*Has({}), std::vector<bool>{});
}

TEST_P(BlobContract, ManyAtOnceOfTheSameAndOfOthers) {
  constexpr size_t kBlobs = 8;
  std::vector<SealedRef> blobs;
  for (size_t i = 0; i < kBlobs; ++i) blobs.push_back(MakeBlob(i % 2 == 0 ? 20'000 : 3u << 20, 50 + i, i % 4 < 2));
  std::atomic<int> wrong = 0;
  std::atomic<int> done = 0;
  const auto work = [&](size_t i) -> boost::asio::awaitable<void> {
    const SealedRef blob = blobs[i % kBlobs];
    const Digest digest = DigestOf(blob->bytes());
    Result<bool> put = co_await store_.Put(digest, blob, 1, Soon());
    if (!put) {
      ADD_FAILURE() << put.error().ToText();
      ++wrong;
    }
    Result<SealedRef> got = co_await store_.Get(digest, Soon());
    if (!got || AsText((*got)->bytes()) != AsText(blob->bytes())) {
      ADD_FAILURE() << (got ? "other bytes" : got.error().ToText());
      ++wrong;
    }
    ++done;
  };
  AwaitAll(4 * kBlobs, work);
  EXPECT_EQ(done, static_cast<int>(4 * kBlobs));
  EXPECT_EQ(wrong, 0);
}

TEST_P(BlobContract, WhoNeedsNoAnswerGetsNone) {
  const SealedRef blob = MakeBlob(1000, 4);
  const Digest digest = DigestOf(blob->bytes());
  ASSERT_TRUE(*Put(digest, blob));
  std::stop_source stop;
  stop.request_stop();
  const Until stopped{SteadyTime::max(), stop.get_token()};
  const Until over = Until::In(std::chrono::seconds(-1));
  for (const auto& [until, code] : {std::pair(stopped, Code::kCancelled), std::pair(over, Code::kTimeout)}) {
    EXPECT_EQ(Get(digest, until).error().code(), code);
    EXPECT_EQ(Put(digest, blob, until).error().code(), code);
    EXPECT_EQ(Await(store_.Has({digest}, until)).error().code(), code);
    EXPECT_EQ(Await(store_.Delete(digest, until)).error().code(), code);
  }
  EXPECT_TRUE(Get(digest));
}

/// Calls that are stopped at any moment leave the store as good as it was.
TEST_P(BlobContract, StoppedInTheMiddleLeavesNothingBehind) {
  const SealedRef large = MakeBlob(std::min<size_t>(20u << 20, GetParam().bytes_max), 5);
  const Digest digest = DigestOf(large->bytes());
  for (int i = 0; i < 20; ++i) {
    std::stop_source stop;
    std::thread stopper([&] {
      for (int turn = 0; turn < i * 20; ++turn) std::this_thread::yield();  // On purpose: ever later.
      stop.request_stop();
    });
    const Until until{std::chrono::steady_clock::now() + std::chrono::seconds(60), stop.get_token()};
    if (const Result<bool> put = Put(digest, large, until); !put) {
      EXPECT_EQ(put.error().code(), Code::kCancelled) << put.error().ToText();
    }
    if (const Result<SealedRef> got = Get(digest, until)) {
      EXPECT_TRUE(AsText((*got)->bytes()) == AsText(large->bytes()));
    } else {
      EXPECT_THAT(got.error().code(), testing::AnyOf(Code::kCancelled, Code::kNotFound));
    }
    stopper.join();
  }
  ASSERT_TRUE(Put(digest, large));
  EXPECT_TRUE(AsText((*Get(digest))->bytes()) == AsText(large->bytes()));
}

TEST_P(BlobContract, ComesBackOnTheCallersExecutor) {
  const SealedRef blob = MakeBlob(100'000, 6);
  const Digest digest = DigestOf(blob->bytes());
  static auto& io = *new boost::asio::io_context;  // As TestPool.
  io.restart();
  int turns = 0;
  const auto here = std::this_thread::get_id();
  boost::asio::co_spawn(
      io,
      [&]() -> boost::asio::awaitable<void> {
        Result<bool> put = co_await store_.Put(digest, blob, 1, Soon());
        EXPECT_TRUE(put && *put);
        EXPECT_EQ(std::this_thread::get_id(), here);
        Result<SealedRef> got = co_await store_.Get(digest, Soon());
        EXPECT_TRUE(got);
        EXPECT_EQ(std::this_thread::get_id(), here);
        ++turns;
      },
      boost::asio::detached);
  io.run();
  EXPECT_EQ(turns, 1);
}

TEST_P(BlobContract, SaysWhatItIs) {
  EXPECT_FALSE(store_.Describe().empty());
  EXPECT_EQ(store_.Describe().find('\n'), std::string::npos);
}

}  // namespace ingot::cache
