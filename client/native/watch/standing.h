// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Python.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/native/log/place_partition.h"
#include "client/native/log/record.h"
#include "client/native/watch/watch.h"

namespace ingot::client {

/// What a record says of the process, found to hold and watched since: of a call with other objects (a new cache), only
/// what the record says of those is looked at. Needs the GIL.
class Standing {
 public:
  explicit Standing(std::shared_ptr<const Record> record) : record_(std::move(record)), places_(*record_) {}

  /// A tensor whose metadata somebody else checks at every call. Before it is found to hold.
  void Leave(PyObject* tensor) { watch_.Leave(tensor); }
  /// Whether nothing that is watched has changed since it was found to hold.
  bool Holds() const { return watch_.Holds(); }
  /// Whether it may stand for calls with other objects.
  bool is_reusable() const { return is_found_ && is_alone_; }
  /// For Python's collector of cycles: each reference that this owns, once.
  int Traverse(visitproc visit, void* arg) const {
    const int stop = places_.Traverse(visit, arg);
    return stop != 0 ? stop : watch_.Traverse(visit, arg);
  }

 private:
  friend class RecordCheck;

  std::shared_ptr<const Record> record_;
  std::vector<std::string> roots_;  ///< names in places_
  PlacePartition places_;
  Watch watch_;
  bool is_found_ = false;
  bool is_alone_ = true;  ///< the objects of the call have no part in it
};

/// How a place differs from what a record has.
struct RecordDifference {
  RecordRow row;
  std::optional<std::string> here;  ///< in words; nothing when the place is gone
};

/// Compares a record with this process.
class RecordCheck {
 public:
  RecordCheck(const Record& record, PathReader& reader) : record_(record), reader_(reader) {}
  /// With what has been found before, where it is reusable and holds; any other is new, and is found to hold or not.
  RecordCheck(Standing& standing, PathReader& reader)
      : record_(*standing.record_), reader_(reader), standing_(&standing) {}

  /// Where all holds, is told every place; those of the process only where no Standing is.
  void set_watch(Watch* watch) { watch_ = watch; }
  std::optional<RecordDifference> FirstDifference();

 private:
  std::optional<RecordDifference> Compare(const RecordRow& row, bool is_of_process);
  std::optional<RecordDifference> ComparePair(const RecordRow& row);
  void Note(const PathReader::Place& place, const Seen& seen, bool is_of_process);

  const Record& record_;
  PathReader& reader_;
  Watch* watch_ = nullptr;
  Standing* standing_ = nullptr;
  PlacePartition* places_ = nullptr;
};

}  // namespace ingot::client
