// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/digest.h"
#include "base/result.h"
#include "cache/store/sealed_file.h"
#include "proto/frame.h"
#include "proto/record_generated.h"
#include "proto/service_generated.h"
#include "proto/worker_generated.h"

namespace ingot::daemon {

/// What the daemon itself asks of graphs; graphs are their text (docs/format/ir.md).
/// Thread-safe. Everything may come from a client: errors, never crashes.
class Graphs {
 public:
  virtual ~Graphs() = default;
  /// What a request says of how its graph is to be compiled.
  struct Wishes {
    bool eager_numerics = false;
    std::span<const std::unique_ptr<proto::PatternT>> patterns;
    uint32_t sequence_group = 0, sequence_ranks = 0;
  };
  /// Graph of a recording. kCorrupt, kUnsupported.
  virtual Result<std::string> Import(Bytes recording, const Wishes& wishes) const = 0;
  /// A template and the conditions under which every call is an instance of it.
  struct Ranged {
    std::string text;
    std::string range;             ///< over its symbols
    std::vector<int64_t> symbols;  ///< the recording's
    std::vector<std::string> fixed;  ///< why sizes are numbers
  };
  /// The template of one recording that followed its sizes (compiler/import/generalize.h).
  virtual Result<Ranged> Generalize(Bytes recording, const Wishes& wishes) const = 0;
  /// The template of which both are instances; kUnsupported says where they part.
  virtual Result<std::string> Unify(std::string_view a, std::string_view b) const = 0;
  virtual Result<std::vector<int64_t>> SymbolsOf(std::string_view graph_template, std::string_view exact) const = 0;
  /// Digest of the graph's canonical form: equal programs, equal digests.
  virtual Result<Digest> DigestOf(std::string_view graph) const = 0;
  /// DigestOf the template with its symbols replaced by numbers.
  virtual Result<Digest> DigestOfInstance(std::string_view graph_template,
                                          const std::vector<int64_t>& symbols) const = 0;
  /// Where one template is what another, of a recording that followed its sizes, is in its range: over the symbols of
  /// the first (compiler/import/range.h).
  virtual Result<std::string> RangeFrom(std::string_view graph_template, const Ranged& other) const = 0;
  /// A client's claim about sizes of inputs (Compile.range) over the template's symbols; an error
  /// says why it does not carry over (compiler/import/range.h).
  virtual Result<std::string> RangeOf(std::string_view graph_template, std::string_view range,
                                      size_t degree_max) const = 0;
};

/// Who compiles and for what: part of every graph key.
struct CompilerFacts {
  std::string identity;
  std::string level;  ///< "x86-64-v3"
  std::vector<std::string> features;  ///< sorted
};

struct CompileJob {
  std::string graph;
  std::string name;  ///< For log lines.
  proto::JobOutput output = proto::JobOutput::Artifact;
  /// Values for all symbols of the graph, one gear after the other.
  std::vector<int64_t> gears;
  /// What the artifact is made by, beside its graph (docs/format/artifact.md); null: nothing.
  std::shared_ptr<const proto::RecipeT> recipe;
  /// What to look for beyond that, of output Findings.
  std::shared_ptr<const proto::ImproveT> improve;
};

/// An artifact, or the text or findings of a job that asked for those, as a compiler hands it over.
struct CompiledArtifact {
  Digest digest;
  cache::SealedRef file;
  double seconds = 0;
  proto::StageSeconds stages;
};

/// One thing to know of the compilers' state, for `ingot doctor`.
struct CompilersCondition {
  std::string name;  ///< of one word
  bool good = true;
  std::string text;
};

/// Runs the compiler somewhere else, many at a time. Thread-safe.
class Compilers {
 public:
  using Done = std::function<void(Result<CompiledArtifact>)>;
  virtual ~Compilers() = default;
  /// Known once a compiler has started; waits for the first. kUnavailable when none starts.
  virtual Result<CompilerFacts> Facts() = 0;
  /// Calls `done` once, on any thread. False, and no call, when the queue is full.
  /// kUnavailable: no compiler could be started; kCancelled: the daemon stops; kTimeout: it was
  /// stopped; kInternal: it crashed; else the compiler's own answer.
  virtual bool Start(CompileJob job, Done done) = 0;
  /// Ends what runs and what waits with kCancelled, and goes on with what comes after.
  virtual void Interrupt() {}
  /// Ends running compiles, answers waiting ones with kCancelled; afterwards `done` is not called.
  virtual void Stop() = 0;
  /// Compiles waiting and running.
  virtual size_t pending() const = 0;
  /// Compiles at work at one time; the others wait.
  virtual size_t width() const { return 1; }
  /// Compilers that run, at work or not.
  virtual size_t alive() const { return 0; }
  virtual std::vector<CompilersCondition> Conditions() const { return {}; }
};

}  // namespace ingot::daemon
