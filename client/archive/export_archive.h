// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "client/lib/exported/exported_file.h"
#include "guards/dim.h"
#include "guards/guard_set.h"

namespace ingot::client {

/// A size that is free in an archive, and the values torch.export proved the program for.
struct ArchiveSymbol {
  std::string name;  ///< as the archive has it: "s77"
  int64_t min = 0;
  std::optional<int64_t> max;  ///< nullopt: no bound
  /// Value at which it may be put: that of the example the program was traced with, if known.
  int64_t hint = 0;
};

/// A tensor of the call, in order.
struct ArchiveInput {
  std::string name;
  std::vector<guards::Dim> sizes;  ///< over the symbols: s0 is symbols()[0]
};

/// A program saved by torch.export.save (.pt2), read without Python.
///
/// It is understood by running it: Record() runs its nodes through torch's dispatcher on made-up
/// inputs while the recorder watches, so that operators, views and writes are those of eager.
/// Needs libtorch, but no torch header to use. Belongs to one thread.
class ExportArchive {
 public:
  /// kNotFound, kCorrupt and kIncompatible as RecordReader; kUnsupported: inputs or results that
  /// are no tensors, tensors stored as pickles, sizes that are no polynomials.
  static Result<ExportArchive> Open(const std::string& path);
  ExportArchive(ExportArchive&&) noexcept;
  ~ExportArchive();

  const std::string& name() const;
  const std::vector<ArchiveSymbol>& symbols() const;
  const std::vector<ArchiveInput>& inputs() const;
  /// What torch.export found of the sizes on its way through the program, over the symbols: others take another way.
  const guards::GuardSet& conditions() const;

  /// Whether all sizes in the program, by what torch.export says of each tensor and number, are polynomials of the
  /// symbols, and nothing is asked of them: no quotients, remainders, minima, floats or truths. Strides do not count.
  bool HasPolynomialSizes() const;

  /// The recording (proto/graph.fbs) of one run with these values for symbols(). `ranges`: one for each symbol; the
  /// recording follows its sizes, and holds within them and conditions(); none: sizes are numbers. Errors name the node
  /// that failed.
  Result<Buffer> Record(std::span<const int64_t> values, std::span<const ArchiveSymbol> ranges = {});
  /// Argument structure as JSON text (docs/format/export.md).
  const std::string& arguments() const;
  /// Result structure as JSON text (docs/format/export.md), after a Record().
  const std::string& outputs() const;
  /// A weight by the name that recordings give it; its elements live as long as this. kInternal: a run has changed it.
  Result<ExportedWeight> Weight(const std::string& name);

 private:
  struct State;
  explicit ExportArchive(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace ingot::client
