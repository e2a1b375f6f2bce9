// SPDX-License-Identifier: Apache-2.0
#include "client/native/log/dependency_record.h"

#include <algorithm>
#include <boost/unordered/unordered_flat_map.hpp>

#include "client/native/cpython/drop_error.h"
#include "client/native/cpython/origin.h"
#include "client/native/log/place_partition.h"
#include "client/native/places/field_content.h"
#include "client/native/places/tensor_facts.h"
#include "client/native/places/value_digest.h"
#include "proto/place_pair.h"

namespace ingot::client {
namespace {

constexpr std::string_view kObject = "object:";

std::string KindOf(const ObservedLog& log, const ObservedLog::Read& read, std::string_view where) {
  switch (read.access) {
    case AccessKind::kClass: return "class";
    case AccessKind::kCell: return "closure";
    case AccessKind::kKeyAt:
    case AccessKind::kValueAt: return "item";
    case AccessKind::kAnswer: return "answer";
    case AccessKind::kItem: return where.starts_with("os:environ") ? "env" : "item";
    case AccessKind::kSlot: return "attribute";
    case AccessKind::kField: return ViewOf(read.key.get()) == "code" ? "code" : "part";
    case AccessKind::kAttribute:
      return PyModule_Check(log.At(read.holder)) ? "global" : PyType_Check(log.At(read.holder)) ? "class" : "attribute";
  }
  return "part";
}

auto PlaceOf(const DependencyRow& row) { return std::tie(row.where, row.kind); }

}  // namespace

std::string WordsOf(const PlaceValue& seen) {
  if (seen.content) return {};
  if (!seen.object) return "absent";
  return PyCode_Check(seen.object.get()) ? std::string() : ShortText(seen.object.get());
}

bool DependencyRecord::IsOfObject(std::string_view path) { return path.starts_with(kObject); }

DependencyRecord::DependencyRecord(std::vector<DependencyRow> rows) : rows_(std::move(rows)) {
  if (!std::ranges::is_sorted(rows_, {}, PlaceOf)) std::ranges::sort(rows_, {}, PlaceOf);
  // Of one place with two contents both stay: such a record holds nowhere, and no recording makes it.
  const auto same = [](const DependencyRow& a, const DependencyRow& b) {
    return PlaceOf(a) == PlaceOf(b) && a.digest == b.digest;
  };
  rows_.erase(std::unique(rows_.begin(), rows_.end(), same), rows_.end());
  for (size_t i = 0; i < rows_.size(); ++i) {
    const std::string_view where = rows_[i].where;
    const auto pair = proto::ParsePlacePair(where);
    if (IsOfObject(where) || (pair && IsOfObject(pair->second))) of_objects_.push_back(i);
  }
  Hasher hasher;
  for (const DependencyRow& row : rows_) {
    hasher.AddField(row.kind);
    hasher.AddField(row.where);
    hasher.Add(row.digest.low);
    hasher.Add(row.digest.high);
  }
  digest_ = hasher.Finish();
}

std::vector<const DependencyRow*> DependencyRecord::ChangedSince(const DependencyRecord& before) const {
  std::vector<const DependencyRow*> changed;
  auto old = before.rows_.begin();
  for (const DependencyRow& row : rows_) {
    const auto precedes = [&row](const DependencyRow& other) { return PlaceOf(other) < PlaceOf(row); };
    while (old != before.rows_.end() && precedes(*old)) ++old;
    const bool is_known = old != before.rows_.end() && PlaceOf(*old) == PlaceOf(row);
    if (is_known && old->digest != row.digest) changed.push_back(&row);
  }
  return changed;
}

DependencyRecord DependencyRecord::Of(const ObservedLog& log) {
  std::vector<DependencyRow> rows;
  rows.reserve(log.reads().size());
  for (size_t i = 0; i < log.reads().size(); ++i) {
    const ObservedLog::Read& read = log.reads()[i];
    std::string where = log.PathOf(read.holder);
    if (where.empty() || !AppendStep(where, read.access, read.key.get())) continue;
    // Which places lead to one object, no row of what they hold says, nor of what holds them.
    if (PlacePartition::HasIdentity(read.seen.object.get())) {
      const auto number = log.Find(read.seen.object.get());
      if (number && log.PathOf(*number) != where) {
        const std::string both = proto::PlacePairText(where, log.PathOf(*number));
        rows.push_back({std::string(proto::kSameObject), both, DigestOf(both), {}});
      }
    }
    if (log.IsOfFetched(read)) continue;
    std::string text = WordsOf(read.seen);
    if (!text.empty() && text != "absent") text += " (" + read.line.ToText() + ")";
    const bool is_fetched = log.IsFetched(read.seen);
    const std::string kind = is_fetched ? "fetched" : KindOf(log, read, where);
    if (is_fetched) text = PyLong_CheckExact(read.seen.object.get()) ? "an integer" : "a tensor";
    rows.push_back({kind, std::move(where), log.digests()[i], std::move(text)});
  }
  for (const auto& [one, other] : log.apart()) {
    const std::string both = proto::PlacePairText(log.PathOf(one), log.PathOf(other));
    rows.push_back({"apart", both, DigestOf(both), {}});
  }
  for (const auto& [path, number] : log.other_roots()) {
    const std::string both = proto::PlacePairText(path, log.PathOf(number));
    rows.push_back({"same", both, DigestOf(both), {}});
  }
  for (const ObservedLog::Import& one : log.imports()) {
    std::string where = log.PathOf(one.table);
    if (AppendStep(where, AccessKind::kItem, one.name.get()))
      rows.push_back({"import", std::move(where), one.module, {}});
  }
  return DependencyRecord(std::move(rows));
}

PythonRef PathReader::Root(std::string_view path, size_t& at) const {
  const size_t sigil = std::min(path.find_first_of("[~$%!@#("), path.size());
  const size_t colon = path.substr(0, sigil).find(':');
  if (colon != path.npos && !DependencyRecord::IsOfObject(path)) {
    at = colon + 1;
    const PythonRef name(PyUnicode_FromStringAndSize(path.data(), static_cast<Py_ssize_t>(colon)));
    PyObject* module = name ? PyDict_GetItemWithError(PyImport_GetModuleDict(), name.get()) : nullptr;
    DropError();
    // PyTorch loads parts of itself when they are first asked for; they belong to the version that
    // the key names.
    if (module == nullptr && path.starts_with("torch.")) {
      PythonRef loaded(PyImport_Import(name.get()));
      DropError();
      return loaded;
    }
    return PythonRef::Borrow(module);
  }
  at = std::min(path.find_first_of(kSigils), path.size());
  const auto it = roots_.find(std::string(path.substr(0, at)));
  return PythonRef::Borrow(it == roots_.end() ? nullptr : it->second);
}

Result<Step> PathReader::StepAt(std::string_view path, size_t& at) {
  // Behind a module's colon stands a bare name.
  const bool is_bare = at > 0 && at < path.size() && path[at - 1] == ':' && kSigils.find(path[at]) == kSigils.npos;
  if (!is_bare) return ParseStep(path, at);
  const size_t end = std::min(path.find_first_of(".[~$%!@#(\"", at), path.size());
  PyObject* name = PyUnicode_DecodeUTF8(path.data() + at, static_cast<Py_ssize_t>(end - at), "strict");
  DropError();
  if (name == nullptr) return Error(Code::kCorrupt, "path '" + std::string(path) + "' is no text");
  PyUnicode_InternInPlace(&name);
  at = end;
  return Step{AccessKind::kAttribute, PythonRef(name)};
}

std::optional<PathReader::Place> PathReader::PlaceOf(std::string_view path) {
  const size_t shared = static_cast<size_t>(std::ranges::mismatch(path, text_).in1 - path.begin());
  // A step that ends where the paths part may be longer in one of them.
  const auto ends = [&](size_t at) { return at >= path.size() || kSigils.find(path[at]) != std::string_view::npos; };
  while (!met_.empty() && (met_.back().end > shared || met_.back().end >= path.size() ||
                           (!ends(met_.back().end) && path[met_.back().end - 1] != ':'))) {
    met_.pop_back();
  }
  text_ = path;
  size_t at = 0;
  if (met_.empty()) {
    PythonRef root = Root(path, at);
    if (!root) return std::nullopt;
    met_.push_back({at, std::move(root)});
  }
  at = met_.back().end;
  for (;;) {
    auto parsed = StepAt(path, at);
    if (!parsed) return std::nullopt;
    Step step = std::move(parsed).value();
    if (at >= path.size()) return Place{PythonRef::Borrow(met_.back().object.get()), std::move(step)};
    PlaceValue seen = LoadPlace(met_.back().object.get(), step.access, step.key.get());
    if (!seen.object) return std::nullopt;
    met_.push_back({at, std::move(seen.object)});
  }
}

PythonRef PathReader::Resolve(std::string_view path) {
  size_t at = 0;
  if (path.find_first_of(kSigils) == path.npos &&
      !(path.find(':') != path.npos && !path.ends_with(':') && !DependencyRecord::IsOfObject(path))) {
    return Root(path, at);
  }
  const auto place = PlaceOf(path);
  if (!place) return PythonRef();
  return std::move(LoadPlace(place->holder.get(), place->step.access, place->step.key.get()).object);
}

}  // namespace ingot::client
