// SPDX-License-Identifier: Apache-2.0
#pragma once

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

  /// Runs on the caller's thread (of the pool) as far as it can; `done` is called once, on any
  /// thread.
  void Compile(Buffer body, ReplyDone done);

 private:
  struct Request;
  struct Candidate;
  using RequestRef = std::shared_ptr<Request>;

  Status Prepare(Request& request) const;
  void NoteRejection(const Request& request);
  void NoteRefusal(const Request& request, const Error& error);
  bool ServeStored(Request& request);
  std::string RangeFor(const Request& request, const std::string& graph_template,
                       const std::vector<int64_t>& symbols) const;
  bool Takes(const Digest& artifact, const std::vector<int64_t>& proven, size_t symbol_count) const;
  std::optional<Candidate> InstanceOf(const Request& request, const proto::StoredVariantT& stored) const;
  bool ServeProven(Request& request, const proto::StoredVariantT& stored);
  Status FindGeared(Request& request) const;
  void AddTemplates(Request& request);
  bool AddRanged(Request& request) const;
  bool AddTemplate(Request& request, const std::string& text,
                   std::shared_ptr<const proto::VariantT> other = nullptr) const;
  void Attempt(RequestRef request);
  void Lead(const RequestRef& request, const Candidate& candidate);
  void Publish(const Digest& graph_key, const std::string& function,
               Result<CompiledArtifact> compiled);
  std::optional<Landed> StoredGraph(const Digest& graph_key);
  std::optional<proto::FailureT> StoredFailure(const Digest& graph_key);
  void Land(RequestRef request, Result<Landed> landed);
  void Fail(Request& request, const Error& error);
  void Serve(Request& request, const Landed& landed);
  void Answer(Request& request, const EntryRef& entry, const Digest& graph, proto::VariantKind kind,
              proto::Outcome outcome, float compile_s);

  Core& core_;
};

}  // namespace ingot::daemon
