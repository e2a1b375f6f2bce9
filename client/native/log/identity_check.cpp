// SPDX-License-Identifier: Apache-2.0
#include "client/native/log/identity_check.h"

#include <boost/unordered/unordered_flat_map.hpp>
#include <boost/unordered/unordered_flat_set.hpp>
#include <deque>
#include <string_view>

#include "client/native/log/place_partition.h"
#include "proto/place_pair.h"

namespace ingot::client {
namespace {

class IdentityCheck {
 public:
  IdentityCheck(const ObservedLog& log, const DependencyRecord& record)
      : log_(log), record_(record), partition_(record) {}

  std::optional<std::string> Run() {
    ReadRows();
    for (const ObservedLog::Read& read : log_.reads()) {
      if (fault_) break;
      PyObject* const value = read.seen.object.get();
      if (!PlacePartition::HasIdentity(value)) continue;
      const auto number = log_.Find(value);
      std::string where = log_.PathOf(read.holder);
      if (!number || where.empty() || !AppendStep(where, read.access, read.key.get())) continue;
      Lead(log_.PathOf(*number), *number);
      Lead(std::move(where), *number);
    }
    for (const auto& [path, number] : log_.other_roots()) {
      Lead(log_.PathOf(number), number);
      Lead(path, number);
    }
    for (const auto& [one, other] : log_.apart()) {
      for (const ObservedLog::Number end : {one, other}) {
        if (!log_.IsNamed(end) && !said_.contains(partition_.Named(log_.PathOf(end))))
          Fail(log_.PathOf(end) + ", which was held against another object, is in no row");
      }
    }
    return fault_;
  }

 private:
  void ReadRows() {
    const DependencyRow* before = nullptr;
    for (const DependencyRow& row : record_.rows()) {
      const bool is_pair = row.kind == proto::kSameObject || row.kind == proto::kApartObjects;
      const bool is_same_place = before != nullptr && before->where == row.where && before->kind == row.kind;
      if (is_same_place && before->digest != row.digest) Fail(row.where + " has two contents");
      if (!is_pair) said_.insert(partition_.Named(row.where));
      // What lies in a tuple that calls fetch is fetched from there.
      if (const auto pair = is_pair ? proto::ParsePlacePair(row.where) : std::nullopt)
        said_.insert(partition_.Named(pair->second));
      before = &row;
    }
  }

  /// A place led to an object.
  void Lead(std::string where, ObservedLog::Number number) {
    if (where.empty() || fault_) return;
    const std::string_view named = partition_.Named(places_.emplace_back(std::move(where)));
    const auto [object, is_first] = objects_.emplace(named, number);
    if (!is_first && object->second != number)
      return Fail(places_.back() + " and " + log_.PathOf(object->second) + " are not told from each other");
    const auto [name, is_new] = names_.emplace(number, named);
    if (!is_new && name->second != named) Fail("no row says that " + places_.back() + " is " + log_.PathOf(number));
  }

  void Fail(std::string what) {
    if (!fault_) fault_ = std::move(what);
  }

  const ObservedLog& log_;
  const DependencyRecord& record_;
  const PlacePartition partition_;
  std::deque<std::string> places_;  ///< what the views below look at
  boost::unordered_flat_map<std::string_view, ObservedLog::Number> objects_;
  boost::unordered_flat_map<ObservedLog::Number, std::string_view> names_;
  boost::unordered_flat_set<std::string_view> said_;
  std::optional<std::string> fault_;
};

}  // namespace

std::optional<std::string> FindIdentityFault(const ObservedLog& log, const DependencyRecord& record) {
  return IdentityCheck(log, record).Run();
}

}  // namespace ingot::client
