// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Python.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/digest.h"
#include "client/native/log/observed_log.h"

namespace ingot::client {

/// One place that a recording read (docs/dependencies.md): proto/service.fbs `Dependency`.
struct DependencyRow {
  std::string kind;   ///< for people: attribute, global, item, class, code, closure, env, ...
  std::string where;  ///< the path of the place
  Digest digest;
  std::string text;  ///< the value and the line that read it
  auto operator<=>(const DependencyRow&) const = default;
};

/// What a place holds, for people; empty where that says nothing.
std::string WordsOf(const PlaceValue& seen);

/// Everything outside its inputs that a recording depended on; sorted by `where`, immutable.
class DependencyRecord {
 public:
  explicit DependencyRecord(std::vector<DependencyRow> rows);
  /// What a settled log has read, without the places that no text can name.
  static DependencyRecord Of(const ObservedLog& log);
  /// The rows of places that both have read, and at which this one found something else.
  std::vector<const DependencyRow*> ChangedSince(const DependencyRecord& before) const;
  /// Whether a path begins with an object of one call.
  static bool IsOfObject(std::string_view path);

  const std::vector<DependencyRow>& rows() const { return rows_; }
  /// The numbers of rows that speak of the objects of one call. All others speak of the process.
  const std::vector<size_t>& of_objects() const { return of_objects_; }
  const Digest& digest() const { return digest_; }

 private:
  std::vector<DependencyRow> rows_;
  std::vector<size_t> of_objects_;
  Digest digest_;
};

/// Follows paths in this process. Keeps what it has met: one reader serves one state of the
/// process. Runs no code of a program. Needs the GIL.
class PathReader {
 public:
  /// The objects that paths may begin with besides modules: "self", "function", "object:0".
  explicit PathReader(std::unordered_map<std::string, PyObject*> roots) : roots_(std::move(roots)) {}

  const std::unordered_map<std::string, PyObject*>& roots() const { return roots_; }
  /// What a path leads to, or null.
  PythonRef Resolve(std::string_view path);
  /// The holder of the last step of a path and that step; nothing when the way there is gone.
  struct Place {
    PythonRef holder;
    Step step;
  };
  std::optional<Place> PlaceOf(std::string_view path);
  /// What a path begins with, or null; `at` moves behind it.
  PythonRef Root(std::string_view path, size_t& at) const;
  /// The step that begins at `at`, which moves behind it. kCorrupt for what is none.
  static Result<Step> StepAt(std::string_view path, size_t& at);

 private:
  struct Met {
    size_t end;  ///< of the step in `text_`
    PythonRef object;
  };

  std::unordered_map<std::string, PyObject*> roots_;
  std::string text_;      ///< of the path followed last
  std::vector<Met> met_;  ///< what its beginnings lead to
};

}  // namespace ingot::client
