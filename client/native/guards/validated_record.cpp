// SPDX-License-Identifier: Apache-2.0
#include "client/native/guards/validated_record.h"

#include "client/native/places/field_content.h"
#include "proto/place_pair.h"

namespace ingot::client {

std::optional<DependencyMismatch> DependencyCheck::FirstMismatch() {
  const bool relies = validated_ != nullptr && validated_->is_reusable() && validated_->Holds();
  if (!relies && validated_ != nullptr) {
    validated_->roots_.reserve(reader_.roots().size());
    for (const auto& [name, root] : reader_.roots()) {
      if (!DependencyRecord::IsOfObject(name)) validated_->places_.AddRoot(root, validated_->roots_.emplace_back(name));
    }
  }
  PlacePartition all = relies ? PlacePartition(&validated_->places_) : PlacePartition(record_);
  for (const auto& [name, root] : reader_.roots()) {
    if (const auto other = all.AddRoot(root, name); other && tells_apart_) {
      const std::string both = proto::PlacePairText(name, *other);
      return DependencyMismatch{{std::string(proto::kApartObjects), both, DigestOf(both), {}}, "one object"};
    }
  }
  places_ = &all;
  if (relies) {
    for (const size_t row : record_.of_objects()) {
      if (auto difference = Compare(record_.rows()[row], false)) return difference;
    }
    return std::nullopt;
  }
  auto of_object = record_.of_objects().begin();
  for (size_t i = 0; i < record_.rows().size(); ++i) {
    const bool is_of_object = of_object != record_.of_objects().end() && *of_object == i;
    if (is_of_object) ++of_object;
    if (auto difference = Compare(record_.rows()[i], !is_of_object)) return difference;
  }
  if (validated_ != nullptr) validated_->is_found_ = true;
  return std::nullopt;
}

std::optional<DependencyMismatch> DependencyCheck::Compare(const DependencyRow& row, bool is_of_process) {
  if (row.kind == "opaque" || row.kind == "custom_op") return std::nullopt;
  if (row.kind == proto::kSameObject || row.kind == proto::kApartObjects) return ComparePair(row);
  const auto place = reader_.PlaceOf(row.where);
  if (!place) return DependencyMismatch{row, std::nullopt};
  const PlaceValue seen = LoadPlace(place->holder.get(), place->step.access, place->step.key.get());
  if (const auto other = places_->Add(seen.object.get(), row.where); other && tells_apart_)
    return DependencyMismatch{row, "the same object as " + std::string(*other)};
  if (validated_ != nullptr && is_of_process && validated_->places_.Add(seen.object.get(), row.where))
    validated_->is_alone_ = false;
  if (row.kind == "fetched") {
    if (DigestIfFetched(seen.object.get()) != row.digest) return DependencyMismatch{row, WordsOf(seen)};
    Note(*place, {PythonRef::Borrow(AnyLike(seen.object.get())), std::nullopt}, is_of_process);
    return std::nullopt;
  }
  // A module that an import found and that is not loaded here yet, it will load.
  const bool is_to_come = seen.is_absent() && row.kind == "import";
  if (!is_to_come && DigestOfPlaceValue(seen) != row.digest) return DependencyMismatch{row, WordsOf(seen)};
  Note(*place, seen, is_of_process);
  return std::nullopt;
}

std::optional<DependencyMismatch> DependencyCheck::ComparePair(const DependencyRow& row) {
  const auto pair = proto::ParsePlacePair(row.where);
  if (!pair) return DependencyMismatch{row, std::nullopt};
  const PythonRef one = reader_.Resolve(pair->first), other = reader_.Resolve(pair->second);
  const bool is_same = one && one.get() == other.get();
  if (is_same == (row.kind == proto::kSameObject)) return std::nullopt;
  return DependencyMismatch{row, is_same ? "one object" : "two objects"};
}

void DependencyCheck::Note(const PathReader::Place& place, const PlaceValue& seen, bool is_of_process) {
  StateGuards* const state_guards = is_of_process && validated_ != nullptr ? &validated_->state_guards_ : state_guards_;
  if (state_guards != nullptr) state_guards->Add(place.holder.get(), place.step.access, place.step.key.get(), seen);
}

}  // namespace ingot::client
