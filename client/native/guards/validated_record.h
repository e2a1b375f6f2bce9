// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Python.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/native/guards/state_guards.h"
#include "client/native/log/dependency_record.h"
#include "client/native/log/place_partition.h"

namespace ingot::client {

/// What a record says of the process, found to hold and watched since: of a call with other objects (a new cache), only
/// what the record says of those is looked at. Needs the GIL.
class ValidatedRecord {
 public:
  explicit ValidatedRecord(std::shared_ptr<const DependencyRecord> record)
      : record_(std::move(record)), places_(*record_) {}

  /// A tensor whose metadata somebody else checks at every call. Before it is found to hold.
  void Leave(PyObject* tensor) { state_guards_.Leave(tensor); }
  /// Whether nothing that is watched has changed since it was found to hold.
  bool Holds() const { return state_guards_.Holds(); }
  /// Whether it may stand for calls with other objects.
  bool is_reusable() const { return is_found_ && is_alone_; }
  /// For Python's collector of cycles: each reference that this owns, once.
  int Traverse(visitproc visit, void* arg) const {
    const int stop = places_.Traverse(visit, arg);
    return stop != 0 ? stop : state_guards_.Traverse(visit, arg);
  }

 private:
  friend class DependencyCheck;

  std::shared_ptr<const DependencyRecord> record_;
  std::vector<std::string> roots_;  ///< names in places_
  PlacePartition places_;
  StateGuards state_guards_;
  bool is_found_ = false;
  bool is_alone_ = true;  ///< the objects of the call have no part in it
};

/// How a place differs from what a record has.
struct DependencyMismatch {
  DependencyRow row;
  std::optional<std::string> here;  ///< in words; nothing when the place is gone
};

/// Compares a record with this process.
class DependencyCheck {
 public:
  DependencyCheck(const DependencyRecord& record, PathReader& reader) : record_(record), reader_(reader) {}
  /// With what has been found before, where it is reusable and holds; any other is new, and is found to hold or not.
  DependencyCheck(ValidatedRecord& validated, PathReader& reader)
      : record_(*validated.record_), reader_(reader), validated_(&validated) {}

  /// Where all holds, is told every place; those of the process only where no ValidatedRecord is.
  void set_state_guards(StateGuards* state_guards) { state_guards_ = state_guards; }
  /// Whether places of which it does not say that they lead to one object must lead to two. Not where rows were left
  /// out.
  void set_tells_apart(bool tells_apart) { tells_apart_ = tells_apart; }
  std::optional<DependencyMismatch> FirstMismatch();

 private:
  std::optional<DependencyMismatch> Compare(const DependencyRow& row, bool is_of_process);
  std::optional<DependencyMismatch> ComparePair(const DependencyRow& row);
  void Note(const PathReader::Place& place, const PlaceValue& seen, bool is_of_process);

  const DependencyRecord& record_;
  PathReader& reader_;
  StateGuards* state_guards_ = nullptr;
  ValidatedRecord* validated_ = nullptr;
  PlacePartition* places_ = nullptr;
  bool tells_apart_ = true;
};

}  // namespace ingot::client
