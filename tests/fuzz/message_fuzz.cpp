// SPDX-License-Identifier: Apache-2.0
// Bodies of messages and records of the store. The last byte says which table the rest is.
#include <iterator>

#include "cache/store/key.h"
#include "daemon/state/convert.h"
#include "proto/cluster_generated.h"
#include "proto/message.h"
#include "proto/record_generated.h"
#include "proto/worker_generated.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/messages.h"

namespace ingot::fuzz {
namespace {

void CheckKey(const proto::EntryKeyT* entry_key) {
  if (entry_key == nullptr) return;
  const cache::Key key = daemon::ToKey(*entry_key);
  const auto again = cache::DecodeKey(EncodeKey(key));
  // Names of components must not repeat; everything else can be written.
  Ensure(!again || again->ToDigest() == key.ToDigest(), "a key keeps its digest");
  Ignore(Result<std::string>(daemon::FunctionOf(key)), "only that it can be asked");
}

template <typename Object>
void CheckParts(const Object& object) {
  if constexpr (requires { object.key; }) CheckKey(object.key.get());
}

/// Unpacked and packed again, a message verifies and stays as it is.
template <typename T>
void Check(Bytes body) {
  const T* const table = proto::ReadMessage<T>(body);
  if (table == nullptr) return;
  accepted = true;
  typename T::NativeTableType object, again;
  table->UnPackTo(&object);
  CheckParts(object);
  const Buffer packed = proto::PackMessage<T>(object);
  const T* const read = proto::ReadMessage<T>(packed);
  Ensure(read != nullptr, "what is packed verifies");
  // Each part is there once: a small message never unpacks into a large object.
  Ensure(packed.size() <= 4 * body.size() + 1024, "a message packs into about as much as it was");
  read->UnPackTo(&again);
  Ensure(proto::PackMessage<T>(again) == packed, "packing is stable");
}

using namespace proto;  // NOLINT: the list of all tables
constexpr void (*kChecks[])(Bytes) = {
    Check<Lookup>,       Check<LookupReply>, Check<proto::Compile>, Check<CompileReply>, Check<Query>,
    Check<QueryReply>,   Check<Fetch>,       Check<FetchReply>,     Check<Hello>,        Check<HelloReply>,
    Check<ErrorReply>,   Check<WorkerHello>, Check<WorkerJob>,      Check<WorkerDone>,   Check<EntryRecord>,
    Check<GraphRecord>,  Check<Tombstones>,  Check<WorkloadRecord>, Check<JobManifest>,  Check<Findings>,
    Check<TuningRecord>, Check<Contests>,
};

template <typename T>
Buffer Seed(size_t check, const typename T::NativeTableType& object) {
  Buffer bytes = PackMessage<T>(object);
  bytes.push_back(static_cast<uint8_t>(check));
  return bytes;
}

}  // namespace

std::vector<Buffer> Seeds() {
  return {Seed<Lookup>(0, SmallLookup()),
          Seed<LookupReply>(1, SmallLookupReply()),
          Seed<proto::Compile>(2, SmallCompile()),
          Seed<Query>(4, SmallQuery("list", "{}")),
          Seed<HelloReply>(9, {}),
          Seed<WorkerJob>(12, SmallJob()),
          Seed<WorkerDone>(13, {}),
          Seed<EntryRecord>(14, SmallEntry()),
          Seed<GraphRecord>(15, SmallGraphRecord()),
          Seed<Tombstones>(16, SmallTombstones()),
          Seed<JobManifest>(18, SmallJobManifest()),
          Seed<Findings>(19, SmallFindings()),
          Seed<TuningRecord>(20, SmallTuningRecord()),
          Seed<Contests>(21, SmallContests())};
}

}  // namespace ingot::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ingot;
  if (size == 0) return 0;
  // A copy of its own is aligned, as every message is when it is read.
  const Buffer body(data, data + size - 1);
  fuzz::kChecks[data[size - 1] % std::size(fuzz::kChecks)](body);
  return 0;
}
