// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/asio/awaitable.hpp>
#include <memory>
#include <optional>

#include "daemon/core.h"

namespace ingot::daemon {

/// Serves recordings: by a stored variant, by a stored graph, or by one compile.
///
/// In this order: the recording equals an instance of a stored template (its size is added to
/// the proven ones); its graph is a stored exact variant's; it and its sibling, or a stored exact
/// variant, are instances of one template, which is compiled; it is compiled as it is. Compiles of one graph
/// key share a flight. A request that may only be proved stops after the second. A request with gears compiles the
/// template that serves it once more, with code for them. Thread-safe.
class CompileService {
 public:
  explicit CompileService(Core& core) : core_(core) {}

  /// `tenant`: whose entries are meant. `until`: how long the client waits. A compile that was begun goes on after it,
  /// for the next who asks.
  boost::asio::awaitable<Reply> Compile(Buffer body, Until until, std::string tenant);

 private:
  struct Request;
  struct Candidate;

  Task<Reply> Answered(Request& request);
  Task<void> Prepare(Request& request);
  Task<void> NoteRejection(const Request& request);
  Task<void> NoteRefusal(const Request& request, const Error& error);
  /// The reply where a variant of the entry serves the recording.
  Task<std::optional<Reply>> ServeStored(Request& request);
  Task<std::optional<Reply>> ServeProven(Request& request, const proto::StoredVariantT& stored);

  // candidates.cpp
  std::string RangeFor(const Request& request, const std::string& graph_template,
                       const std::vector<int64_t>& symbols) const;
  Task<bool> Takes(Digest artifact, const std::vector<int64_t>& proven, size_t symbol_count, Until until);
  Task<std::optional<Candidate>> InstanceOf(const Request& request, const proto::StoredVariantT& stored);
  Task<void> FindGeared(Request& request);
  Task<void> AddTemplates(Request& request);
  bool AddRanged(Request& request) const;
  bool AddTemplate(Request& request, const std::string& text, const proto::StoredVariantT* other = nullptr) const;

  Task<Landed> Attempt(Request& request);
  Task<Landed> Join(Request& request);
  Task<std::optional<proto::GraphRecordT>> Stored(const Request& request, Digest graph_key);
  /// Compiles for everybody who waits for the key, whoever they are.
  boost::asio::awaitable<void> Fly(Digest graph_key, CompileJob job, bool is_shared);
  /// Says how long the compile is likely to take, here and to other machines.
  boost::asio::awaitable<void> Foretell(Digest graph_key, CompileJob job, Sharing::Fence fence);
  /// `made`: what is stored of it; none where it says nothing about the graph.
  Task<Landed> CompileAndPublish(Digest graph_key, CompileJob job, std::optional<proto::GraphRecordT>& made);
  Task<Reply> Serve(Request& request, const Landed& landed);
  Task<Reply> Fail(Request& request, const Error& error);
  Task<Reply> Answer(Request& request, const EntryRef& entry, Digest graph, proto::VariantKind kind,
                     proto::Outcome outcome, float compile_s);

  Core& core_;
};

}  // namespace ingot::daemon
