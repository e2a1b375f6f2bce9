// SPDX-License-Identifier: Apache-2.0
// What comes of an instruction whose sizes the observer follows (observe_sizes.cpp): its result becomes a term, and the
// integers that it gave to operators are found among those that the recorder wrote down.

#include <algorithm>
#include <utility>

#include "client/native/cpython/drop_error.h"
#include "client/native/cpython/origin.h"
#include "client/native/cpython/python_numbers.h"
#include "client/native/effects/effect_table.h"
#include "client/native/observe/observer.h"
#include "client/native/places/tensor_facts.h"

namespace ingot::client {

namespace {

using Op = SizeTerms::Op;
using Relation = SizeTerms::Relation;

bool IsSize(PyObject* value) { return std::string_view(Py_TYPE(value)->tp_name) == "torch.Size"; }

std::vector<PyObject*> PartsOf(PyObject* key) {
  if (!PyTuple_Check(key)) return {key};
  std::vector<PyObject*> parts;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); ++i) parts.push_back(PyTuple_GET_ITEM(key, i));
  return parts;
}

/// Whether a part of a key is a tensor of positions, which takes one dim; masks take as many as they have.
bool IsPositions(PyObject* part) {
  if (!IsTensor(part)) return false;
  const PythonRef type(PyObject_GetAttrString(part, "dtype"));
  const PythonRef text(type ? PyObject_Str(type.get()) : nullptr);
  DropError();
  return text && ViewOf(text.get()) != "torch.bool" && ViewOf(text.get()) != "torch.uint8";
}

/// How many dims the parts of a key take; nothing where one does not say so.
std::optional<int64_t> DimsTaken(const std::vector<PyObject*>& parts) {
  int64_t taken = 0;
  for (PyObject* part : parts) {
    if (part == Py_None || part == Py_Ellipsis) continue;
    // Lists become tensors.
    if (!PySlice_Check(part) && !PyLong_CheckExact(part) && !IsPositions(part)) return std::nullopt;
    ++taken;
  }
  return taken;
}

}  // namespace

/// The operators that took a part of a tensor, one after the other, by the integers they were given.
struct Observer::PartSteps {
  const IntLog& log;
  size_t at;  ///< the first integer of the next operator

  /// The integers of the next operator; null where it is another, or was given fewer.
  const IntLog::Entry* Next(std::string_view op, size_t count) const {
    if (at + count > log.ints.size()) return nullptr;
    const IntLog::Entry* first = &log.ints[at];
    if (first->step >= log.steps.size() || *log.steps[first->step] != op) return nullptr;
    for (size_t i = 0; i < count; ++i) {
      if (first[i].step != first->step) return nullptr;
    }
    return first;
  }
};

/// Gives what takes the result's place, a new reference, or null.
PyObject* Observer::FollowResult(size_t number, PyObject* result) {
  if (number >= pending_results_.size() || refused_) return nullptr;
  const PendingResult pending = std::move(pending_results_[number]);
  pending_results_[number].kind = PendingResult::kDone;
  if (pending.kind == PendingResult::kNumber) {
    PyObject *a = pending.tensors[0].get(), *b = pending.tensors.size() > 1 ? pending.tensors[1].get() : nullptr;
    const auto is_other = [this](PyObject* one) {
      return one != nullptr && numbers_.Find(one) != nullptr && floats_.Find(one) == nullptr;
    };
    const bool is_of_sizes = !is_other(a) && !is_other(b);
    PyObject* taken = numbers_.Combine(pending.number_op, a, b, result);
    if (is_of_sizes) floats_.Note(pending.number_op, a, b, taken != nullptr ? taken : result, Where());
    return taken;
  }
  if (pending.kind == PendingResult::kList) {
    if (result != nullptr && PyList_CheckExact(result)) numbers_.ReadAll(pending.tensors[0].get(), result);
    return FixTensors(pending.tensors), nullptr;
  }
  if (sizes_.lost()) return nullptr;
  if (pending.kind == PendingResult::kOperator && pending.name == "item" && result != nullptr &&
      !pending.tensors.empty())
    return numbers_.Read(pending.tensors[0].get(), result);
  switch (pending.kind) {
    case PendingResult::kNumber:
    case PendingResult::kList: break;
    case PendingResult::kTerm: {
      const auto value = result == nullptr ? std::nullopt : IntOf(result);
      if (value && *value == sizes_.ValueOf(pending.term)) return sizes_.Make(pending.term, Where());
      sizes_.GiveUp("a computation with sizes gave another number at " + Where());
      return nullptr;
    }
    case PendingResult::kLength: {
      // `__len__` has given a size; else it has been looked at.
      const auto term = std::exchange(given_length_, std::nullopt);
      const auto value = result == nullptr ? std::nullopt : IntOf(result);
      return term && value && *value == sizes_.ValueOf(*term) ? sizes_.Make(*term, Where()) : nullptr;
    }
    case PendingResult::kAttribute: return SizesOf(pending, result);
    case PendingResult::kOperator: {
      ExplainInts(pending);
      return SizesOf(pending, result);
    }
    case PendingResult::kPart: ExplainPart(pending); return nullptr;
    case PendingResult::kDone: break;
  }
  return nullptr;
}

/// The result of looking at a tensor: what says sizes becomes terms.
PyObject* Observer::SizesOf(const PendingResult& pending, PyObject* result) {
  if (result == nullptr || pending.tensors.empty()) return nullptr;
  PyObject* tensor = pending.tensors[0].get();
  const std::string_view name = pending.name;
  if (pending.kind == PendingResult::kOperator && name == "contiguous" && result == tensor) {
    // It lay so already: PyTorch's dispatcher sees nothing of it, nor does the recorder.
    if (!pending.is_plain) return FixTensors(pending.tensors), nullptr;
    sizes_.Fix(sizes_.OfTensor(Op::IsContiguous, tensor, 0, 1), Where());
    return nullptr;
  }
  if (IsSize(result) || (name == "stride" && PyTuple_Check(result))) {
    const Op op = name == "stride" ? Op::Stride : Op::Size;
    if (op == Op::Size && name != "shape" && name != "size") return FixTensors(pending.tensors), nullptr;
    // Nobody else has seen it yet.
    if (Py_REFCNT(result) != 1) return FixTensors(pending.tensors), nullptr;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(result); ++i) {
      const auto value = IntOf(PyTuple_GET_ITEM(result, i));
      if (!value) return FixTensors(pending.tensors), nullptr;
      PyObject* made = sizes_.Make(sizes_.OfTensor(op, tensor, i, *value), Where());
      if (made == nullptr) continue;
      PyObject* old = PyTuple_GET_ITEM(result, i);
      PyTuple_SET_ITEM(result, i, made);
      Py_DECREF(old);
    }
    return nullptr;
  }
  const bool is_number = PyLong_Check(result) || PyFloat_Check(result);  // A bool is an int.
  if (!is_number && !PyUnicode_Check(result) &&
      !((PyTuple_Check(result) || PyList_Check(result)) && PySequence_Fast_GET_SIZE(result) > 0 &&
        !IsTensor(PySequence_Fast_GET_ITEM(result, 0))))
    return nullptr;
  if (AnswersWithoutSizes(name)) return nullptr;
  const auto value = IntOf(result);
  if (value && (name == "numel" || name == "nelement"))
    return sizes_.Make(sizes_.OfTensor(Op::Elements, tensor, 0, *value), Where());
  if (value && (name == "len" || name == "__len__"))
    return sizes_.Make(sizes_.OfTensor(Op::Size, tensor, 0, *value), Where());
  if (value && (name == "size" || name == "stride")) {
    const PythonRef rank(PyObject_CallMethod(tensor, "dim", nullptr));
    DropError();
    const auto dims = rank ? IntOf(rank.get()) : std::nullopt;
    const bool has_dim = pending.dim.has_value() && dims && *pending.dim >= -*dims && *pending.dim < *dims;
    if (!has_dim) return FixTensors(pending.tensors), nullptr;
    const int64_t dim = *pending.dim < 0 ? *pending.dim + *dims : *pending.dim;
    return sizes_.Make(sizes_.OfTensor(name == "size" ? Op::Size : Op::Stride, tensor, dim, *value), Where());
  }
  if (PyBool_Check(result) && name == "is_contiguous" && pending.is_plain) {
    const auto term = sizes_.OfTensor(Op::IsContiguous, tensor, 0, result == Py_True ? 1 : 0);
    sizes_.Fix(term, Where());
    return nullptr;
  }
  FixTensors(pending.tensors);
  return nullptr;
}

/// Finds each size that was passed among the integers of the operators that ran; what cannot be told
/// for sure is fixed.
void Observer::ExplainInts(const PendingResult& pending) {
  if (pending.given.empty()) return;
  const auto fix = [&](size_t i) {
    if (pending.given[i].is_size) sizes_.Fix(pending.given[i].term, Where());
  };
  if (int_log_ == nullptr) {
    for (size_t i = 0; i < pending.given.size(); ++i) fix(i);
    return;
  }
  const std::vector<IntLog::Entry> entries(
      int_log_->ints.begin() + static_cast<long>(std::min(pending.ints_before, int_log_->ints.size())),
      int_log_->ints.end());
  const auto value = [&](size_t i) { return sizes_.ValueOf(pending.given[i].term); };
  bool alike = entries.size() == pending.given.size() && int_log_->steps.size() == pending.steps_before + 1;
  for (size_t i = 0; alike && i < entries.size(); ++i) alike = entries[i].value == value(i);
  for (size_t i = 0; i < pending.given.size(); ++i) {
    if (!pending.given[i].is_size) continue;
    if (alike) {
      sizes_.Explain(entries[i], pending.given[i].term);
      continue;
    }
    // As many of its value were given as came through: they keep their order.
    size_t given = 0, rank = 0, came = 0;
    const IntLog::Entry* found = nullptr;
    for (size_t k = 0; k < pending.given.size(); ++k) {
      if (value(k) != value(i)) continue;
      rank += k < i ? 1 : 0;
      ++given;
    }
    for (const IntLog::Entry& entry : entries) {
      if (entry.value != value(i)) continue;
      if (came++ == rank) found = &entry;
    }
    if (given == came && found != nullptr && (given == 1 || pending.is_positional)) {
      sizes_.Explain(*found, pending.given[i].term);
    } else {
      fix(i);
    }
  }
}

/// `tensor[key]`; what cannot be told for sure is fixed.
void Observer::ExplainPart(const PendingResult& pending) {
  PyObject* tensor = pending.tensors[0].get();
  PyObject* key = pending.tensors[1].get();
  if (int_log_ != nullptr && ExplainKey(tensor, key, {*int_log_, pending.ints_before})) return;
  SpecializeOnContent(key);
  FixTensor(tensor);
}

/// One operator for each part of the key, none for a slice that takes all. False where that is not what ran.
bool Observer::ExplainKey(PyObject* tensor, PyObject* key, PartSteps steps) {
  const std::vector<PyObject*> parts = PartsOf(key);
  const PythonRef rank_object(PyObject_CallMethod(tensor, "dim", nullptr));
  DropError();
  const int64_t rank = rank_object ? IntOf(rank_object.get()).value_or(-1) : -1;
  const std::optional<int64_t> taken = DimsTaken(parts);
  if (!taken || *taken > rank) return false;
  int64_t dim = 0;
  for (PyObject* part : parts) {
    if (part == Py_Ellipsis) {
      dim += rank - *taken;
      continue;
    }
    if (part == Py_None) {
      if (steps.Next("aten::unsqueeze", 1) != nullptr) ++steps.at;
      continue;
    }
    if (PyLong_CheckExact(part) && !ExplainIndex(part, steps)) return false;
    if (PySlice_Check(part) && !ExplainSlice(tensor, dim, part, steps)) return false;
    ++dim;
  }
  return true;
}

bool Observer::ExplainIndex(PyObject* index, PartSteps& steps) {
  const IntLog::Entry* entry = steps.Next("aten::select.int", 2);
  const auto term = sizes_.Find(index);
  if (term && (entry == nullptr || entry[1].value != sizes_.ValueOf(*term))) return false;
  if (term) sizes_.Explain(entry[1], *term);
  if (entry != nullptr) steps.at += 2;
  return true;
}

bool Observer::ExplainSlice(PyObject* tensor, int64_t dim, PyObject* part, PartSteps& steps) {
  const auto* slice = reinterpret_cast<PySliceObject*>(part);
  const auto bound = [](PyObject* object, int64_t otherwise) {
    return object == Py_None ? std::optional(otherwise) : IntOf(object);
  };
  const auto start = bound(slice->start, 0), stop = bound(slice->stop, INT64_MAX), step = bound(slice->step, 1);
  if (!start || !stop || !step) return false;
  const IntLog::Entry* entry = steps.Next("aten::slice.Tensor", 4);
  const bool is_it = entry != nullptr && entry[1].value == *start && entry[2].value == *stop && entry[3].value == *step;
  if (is_it) {
    if (const auto term = sizes_.Find(slice->start)) sizes_.Explain(entry[1], *term);
    if (const auto term = sizes_.Find(slice->stop)) sizes_.Explain(entry[2], *term);
    if (const auto term = sizes_.Find(slice->step)) sizes_.Explain(entry[3], *term);
    steps.at += 4;
    return true;
  }
  // It takes all of the dim.
  SpecializeOn(slice->start);
  SpecializeOn(slice->step);
  const auto term = slice->stop == Py_None ? std::nullopt : TermOf(slice->stop);
  const PythonRef size(PyObject_CallMethod(tensor, "size", "L", static_cast<long long>(dim)));
  DropError();
  const auto all = size ? IntOf(size.get()) : std::nullopt;
  if (*start != 0 || *step != 1 || !all || (*stop != *all && *stop != INT64_MAX)) return false;
  if (term) sizes_.Guard(Relation::Equal, *term, sizes_.OfTensor(Op::Size, tensor, dim, *all), Where());
  return true;
}

/// What nobody came back to: the instruction raised, or the run ended in it.
void Observer::EndFollowing() {
  if (const size_t store = std::exchange(open_store_, 0); store != 0) FollowResult(store - 1, nullptr);
  for (const PendingResult& pending : pending_results_) {
    for (const PendingResult::Given& given : pending.given) {
      if (pending.kind != PendingResult::kDone && given.is_size) sizes_.Fix(given.term, "a call that raised");
    }
    if (pending.kind == PendingResult::kTerm) continue;
    if (pending.kind == PendingResult::kNumber) {
      for (const PythonRef& operand : pending.tensors) numbers_.Fix(operand.get());
      continue;
    }
    if (pending.kind == PendingResult::kPart && pending.tensors.size() > 1)
      SpecializeOnContent(pending.tensors[1].get());
  }
  pending_results_.clear();
  passed_on_.clear();
}

}  // namespace ingot::client
