// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Python.h>

#include <boost/unordered/unordered_flat_map.hpp>
#include <boost/unordered/unordered_flat_set.hpp>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "client/native/cpython/python_ref.h"
#include "client/native/places/place_access.h"

namespace ingot::client {

/// What a recorded run read of objects that existed before it, and what it wrote to them.
///
/// Such an object is *outside*: it was reached from a root or from another outside object by a read
/// that is in the log, so every one has a path. What is not outside was made by the run itself.
/// Nothing is written down twice; a place that the run has written is not read from outside any
/// more. Holds every object it names. Needs the GIL.
class ObservedLog {
 public:
  using Number = uint32_t;

  /// A line of the program: the code and the position of an instruction in it.
  struct Line {
    PyCodeObject* code = nullptr;  ///< kept alive by the log
    int position = 0;

    /// `file.py:212`; empty for none.
    std::string ToText() const;
  };
  struct Read {
    Number holder;
    AccessKind access;
    PythonRef key;
    PlaceValue seen;
    Line line;
  };
  /// A change of an outside object: `holder.name(*values)` for methods of containers, else one of
  /// "setattr", "delattr", "setslot", "delslot", "setitem", "delitem", "setcell".
  struct Write {
    Number holder;
    std::string name;
    PythonRef values;  ///< a tuple: key and value, or a method's arguments
    Line line;
  };

  ObservedLog();

  void set_line(Line line) { line_ = line; }
  const Line& line() const { return line_; }

  /// The run begins: what lies in roots may have been exchanged for what stands for it.
  void Begin();

  /// Makes an object outside. `path` is the text of a path that leads to it.
  Number AddRoot(PyObject* object, std::string path);
  /// An argument's own structure, which the call's shape holds: read freely, never written.
  void AddArgument(PyObject* object);
  bool IsArgument(PyObject* object) const { return arguments_.contains(object); }

  std::optional<Number> Find(PyObject* object) const;
  bool IsOutside(PyObject* object) const { return numbers_.contains(object); }
  PyObject* At(Number number) const { return objects_[number].value.get(); }
  const std::string& PathOf(Number number) const;

  /// Notes what a place of an outside object holds; what is there becomes outside.
  void NoteRead(Number holder, AccessKind access, PyObject* key);
  /// Whether the run has written there before: what lies there is its own.
  bool IsWritten(PyObject* holder, AccessKind access, PyObject* key) const {
    return !written_.empty() && IsWritten(PlaceOf(holder, access, key), key);
  }
  /// What a call has given.
  void NoteAnswer(Number callable, PyObject* arguments, PyObject* answer);
  void NoteField(Number holder, const char* field);
  /// All of a list, tuple, deque, set or dict, one level deep, as it was before the run wrote to
  /// it.
  void NoteWhole(Number holder);
  void NoteLength(Number holder);
  /// An import of what sys.modules (`table`) has: where it is not loaded yet, the import will load it.
  void NoteImport(Number table, PyObject* name);

  /// Notes a change before it happens.
  void NoteWrite(Number holder, AccessKind access, PyObject* key, const char* name, PyObject* value);
  void NoteMethod(Number holder, const char* name, PyObject* const* args, size_t count);

  struct Import {
    Number table;
    PythonRef name;
    Digest module;
  };
  const std::vector<Import>& imports() const { return imports_; }

  /// Two outside objects were held against each other and are not one.
  void NoteApart(Number one, Number other) { apart_.emplace_back(one, other); }
  /// It matters which object it is: no call may find another in its place.
  void NoteFoundByAddress(Number object) { found_by_address_.insert(object); }
  const std::vector<std::pair<Number, Number>>& apart() const { return apart_; }
  /// Further paths that were given for roots.
  const std::vector<std::pair<std::string, Number>>& other_roots() const { return other_roots_; }

  /// Lets go of what it has read, once the run cannot become a record; writes and what they changed stay.
  void Release();
  /// Whether a class, module or root is found by its own name.
  bool IsNamed(Number number) const { return objects_[number].is_named; }

  /// Tensors and integers of their own that every call finds where the run did, whichever they are then: a cache's.
  /// Those that the run asked more of than what they hold stay what they were. Before Settle().
  /// Of the places that move, tuples of such tensors are fetched as well, but for those that the run gives on as
  /// themselves.
  void SetFetched(const std::vector<PyObject*>& values, const std::vector<PyObject*>& given_on,
                  const std::unordered_set<std::string>& moving);
  bool IsFetched(const PlaceValue& seen) const { return seen.object && fetched_.contains(seen.object.get()); }
  /// It was read that a fetched tensor has no attribute of its own of some name.
  bool IsOfFetched(const Read& read) const { return fetched_.contains(At(read.holder)); }
  /// Says of every read what its place holds now that the run has ended, by digest; false when one
  /// holds something else than was read there, or another object of the same kind.
  bool Settle();
  /// A place that the run read and that holds something else now.
  struct Moved {
    std::string path;  ///< empty: it has no name
    std::optional<Digest> was;  ///< nothing where it was fetched
    bool may_be_fetched;  ///< calls could fetch what lies there now
  };
  /// After Settle().
  const std::vector<Moved>& moved() const { return moved_; }
  /// After Settle(), one for each read: what was read.
  const std::vector<Digest>& digests() const { return digests_; }
  /// After Settle(): equal for logs that have the same record.
  Digest Fingerprint() const;

  const std::vector<Read>& reads() const { return reads_; }
  const std::vector<Write>& writes() const { return writes_; }
  /// Why the log cannot stand for the run; the first reason.
  const std::string& problem() const { return problem_; }
  /// The name of the refusal that it is.
  const char* problem_kind() const { return is_untold_ ? "foreign-type" : "side-effect"; }
  /// When the run has ended: does the noted writes again, to copies from before. A container that has become another
  /// than its copy is a problem, and so is one that has changed and of which no write was noted, or that had changed
  /// before the first that was; the dict of an object's attributes is one too. The copies are of no use from then on.
  void CheckChanges();
  /// After the run: as problem(), with what only the whole of it tells.
  std::string ProblemOfAll() const;

 private:
  static bool IsOwnAbsence(const Read& read) { return read.access == AccessKind::kAttribute && read.seen.is_absent(); }
  struct Object {
    PythonRef value;
    uint64_t mark = 0;  ///< MarkOf() it when it was met
    uint64_t attributes = 0;  ///< MarkOf() their dict when one of them was first read; 0: none was
    mutable std::string path;  ///< empty: not yet put into words
    uint64_t path_bytes = 0;  ///< about as many as it has then
    Number parent = 0;
    bool is_named = false;  ///< by a path that is its own
    AccessKind access = AccessKind::kAttribute;
    PyObject* key = nullptr;  ///< borrowed from the read that led here
  };
  /// A place by identity; the container of an attribute is the dict it lies in.
  struct Place {
    const void* container;
    const void* key;
    AccessKind access;
    bool operator==(const Place&) const = default;
    friend size_t hash_value(const Place& p) {
      size_t h = reinterpret_cast<size_t>(p.container) * 0x9E3779B97F4A7C15ull;
      h ^= (reinterpret_cast<size_t>(p.key) + static_cast<size_t>(p.access)) * 0xC2B2AE3D27D4EB4Full;
      return h ^ (h >> 29);
    }
  };
  static Place PlaceOf(PyObject* holder, AccessKind access, PyObject* key);
  bool IsWritten(const Place& place, PyObject* key) const;
  void Add(Number holder, AccessKind access, PyObject* key, PlaceValue seen);
  PlaceValue LoadAndTell(Number holder, PyObject* source, AccessKind access, PyObject* key);
  void Follow(Number holder, const Read& read);
  bool LiesUnder(Number number, Number above) const;
  /// A container from before the first write, and who holds it.
  struct Kept {
    PythonRef copy;
    Number holder;
  };
  void KeepBefore(Number holder, PyObject* container);
  void CheckIsAsMet(Number number, PyObject* container);
  void ChangeAll(Number holder);
  bool RepeatWrites();
  bool IsAsRepeated(PyObject* container, const Kept& kept) const;
  void SetUnseen(Number number);
  void CheckIsNoArgument(Number holder);
  bool IsOfArgument(PyObject* dict) const;
  void CheckGoes(PyObject* value);

  std::vector<Object> objects_;
  boost::unordered_flat_map<PyObject*, Number> numbers_;
  boost::unordered_flat_set<PyObject*> arguments_;
  boost::unordered_flat_set<Place> seen_;
  /// Written entries by container: values of keys, compared by equality.
  boost::unordered_flat_map<const void*, PythonRef> written_;  ///< container -> set of keys
  boost::unordered_flat_map<PyObject*, Kept> copies_;  ///< of what was written, attributes' dicts as well
  boost::unordered_flat_set<PyObject*> changed_;  ///< lists, and what methods have changed: read as a whole
  boost::unordered_flat_set<PyObject*> fetched_;
  std::vector<Read> reads_;
  std::vector<Digest> digests_;
  std::vector<Moved> moved_;
  std::vector<Write> writes_;
  std::vector<Import> imports_;
  boost::unordered_flat_set<Number> weak_;  ///< objects to which only weak references have led so far
  std::vector<std::pair<Number, Number>> apart_;
  boost::unordered_flat_set<Number> found_by_address_;
  std::vector<std::pair<std::string, Number>> other_roots_;
  std::vector<PythonRef> held_;
  std::vector<PythonRef> code_;  ///< of lines, once the reads are gone
  Line line_;
  std::string problem_;
  bool is_untold_ = false;  ///< `problem_` is a content that has no digest
  uint64_t path_bytes_ = 0;  ///< of all reads
};

}  // namespace ingot::client
