// SPDX-License-Identifier: Apache-2.0
#include "client/native/site/output_tree.h"
#include "client/native/cpython/drop_error.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/python_variable.h>

#include <map>
#include <string_view>

namespace ingot::client {
namespace {

constexpr size_t kKeptMax = 1 << 20;

Error Invalid(const char* what) { return Error(Code::kInvalid, std::string("output tree: ") + what); }

/// Whether a list of (operation, count) takes all but the first of so many values.
bool TakesAll(PyObject* operations, size_t values) {
  size_t taken = 1;
  for (Py_ssize_t i = 0; PyList_Check(operations) && i < PyList_GET_SIZE(operations); ++i) {
    PyObject* one = PyList_GET_ITEM(operations, i);
    if (!PyTuple_Check(one) || PyTuple_GET_SIZE(one) != 2 || !PyLong_Check(PyTuple_GET_ITEM(one, 1))) return false;
    taken += PyLong_AsSize_t(PyTuple_GET_ITEM(one, 1));
  }
  return PyList_Check(operations) && PyErr_Occurred() == nullptr && taken == values;
}

}  // namespace

Result<std::unique_ptr<OutputTree>> OutputTree::Parse(PyObject* spec, size_t leaf_count, size_t input_count) {
  if (!PyTuple_Check(spec) || PyTuple_GET_SIZE(spec) < 2) return Invalid("expected (kind, ...)");
  const char* kind = PyUnicode_AsUTF8(PyTuple_GET_ITEM(spec, 0));
  if (kind == nullptr) {
    DropError();
    return Invalid("the kind is a string");
  }
  std::unique_ptr<OutputTree> tree(new OutputTree);
  PyObject* second = PyTuple_GET_ITEM(spec, 1);
  const std::string_view name(kind);
  if ((name == "view" || name == "part" || name == "detached") && PyTuple_GET_SIZE(spec) == 3) {
    tree->kind_ = name == "view" ? Kind::kView : name == "part" ? Kind::kPart : Kind::kDetached;
    tree->number_ = PyLong_AsSize_t(second);
    tree->base_ = PyLong_AsSize_t(PyTuple_GET_ITEM(spec, 2));
    if (PyErr_Occurred() || tree->number_ >= leaf_count || *tree->base_ >= leaf_count) {
      DropError();
      return Invalid("a view of a tensor that the artifact does not return");
    }
  } else if (name == "leaf" || name == "detached" || name == "input" || name == "sized" || name == "item") {
    tree->kind_ = name == "leaf"    ? Kind::kLeaf
                  : name == "input" ? Kind::kInput
                  : name == "sized" ? Kind::kSized
                  : name == "item"  ? Kind::kItem
                                    : Kind::kDetached;
    tree->number_ = PyLong_AsSize_t(second);
    if (PyErr_Occurred() || tree->number_ >= (name == "input" ? input_count : leaf_count)) {
      DropError();
      return Invalid("a tensor that the artifact neither returns nor takes");
    }
  } else if (name == "same" || name == "keep") {
    tree->kind_ = name == "same" ? Kind::kSame : Kind::kKeep;
    tree->number_ = PyLong_AsSize_t(second);
    if (PyErr_Occurred() || tree->number_ >= kKeptMax) {
      DropError();
      return Invalid("the number of something kept");
    }
    if (name == "keep") {
      if (PyTuple_GET_SIZE(spec) != 3) return Invalid("what is kept");
      TRY_ASSIGN(auto child, Parse(PyTuple_GET_ITEM(spec, 2), leaf_count, input_count));
      tree->children_.push_back(std::move(child));
    }
  } else if (name == "const") {
    tree->object_ = Py_NewRef(second);
  } else if (name == "tuple" || name == "list") {
    tree->kind_ = name == "tuple" ? Kind::kTuple : Kind::kList;
    TRY(tree->ParseChildren(second, leaf_count, input_count));
  } else if ((name == "dict" || name == "call" || name == "then") && PyTuple_GET_SIZE(spec) == 3) {
    tree->kind_ = name == "dict" ? Kind::kDict : name == "call" ? Kind::kCall : Kind::kThen;
    tree->object_ = Py_NewRef(second);
    TRY(tree->ParseChildren(PyTuple_GET_ITEM(spec, 2), leaf_count, input_count));
    if (name == "dict" &&
        (!PyList_Check(second) || PyList_GET_SIZE(second) != static_cast<Py_ssize_t>(tree->children_.size()))) {
      return Invalid("as many keys as values");
    }
    if (name == "then" && !TakesAll(second, tree->children_.size())) return Invalid("operations and their values");
  } else {
    return Invalid("unknown kind");
  }
  return tree;
}

Status OutputTree::ParseChildren(PyObject* children, size_t leaf_count, size_t input_count) {
  if (!PyList_Check(children)) return Invalid("children are a list");
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(children); ++i) {
    TRY_ASSIGN(auto child, Parse(PyList_GET_ITEM(children, i), leaf_count, input_count));
    children_.push_back(std::move(child));
  }
  return {};
}

OutputTree::~OutputTree() { Py_XDECREF(object_); }

int OutputTree::Traverse(visitproc visit, void* arg) const {
  Py_VISIT(object_);
  for (const auto& child : children_) {
    if (const int stop = child->Traverse(visit, arg)) return stop;
  }
  return 0;
}

struct OutputTree::Building {
  std::vector<at::Tensor>& leaves;
  const std::vector<const at::Tensor*>& inputs;
  std::vector<PyObject*> kept;
  std::vector<bool> linked;                 ///< leaves that are what they shall be
  std::map<size_t, at::Tensor> whole = {};  ///< what parts are views of, by their j
};

PyObject* OutputTree::Build(std::vector<at::Tensor>& leaves, const std::vector<const at::Tensor*>& inputs) const {
  Building building{leaves, inputs, {}, std::vector<bool>(leaves.size())};
  PyObject* built = nullptr;
  try {
    built = BuildOne(building);
  } catch (const std::exception& e) {
    PyErr_SetString(PyExc_RuntimeError, e.what());
  }
  for (PyObject* object : building.kept) Py_XDECREF(object);
  return built;
}

void OutputTree::Link(Building& building) const {
  at::Tensor& leaf = building.leaves.at(number_);
  if (kind_ == Kind::kLeaf || building.linked[number_]) return;
  building.linked[number_] = true;
  if (leaf.is_inference()) return;  // Nobody looks at their versions.
  if (!base_) {
    if (leaf.is_view()) leaf = leaf.detach();
    return;
  }
  const at::Tensor& other = building.leaves.at(*base_);
  if (!leaf.is_alias_of(other) || leaf.scalar_type() != other.scalar_type()) return;
  at::Tensor base = other;
  if (kind_ == Kind::kPart) {
    at::Tensor& whole = building.whole[*base_];
    if (!whole.defined()) {
      const auto count = static_cast<int64_t>(leaf.storage().nbytes() / leaf.element_size());
      whole = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(leaf.storage()), leaf.key_set(), leaf.dtype());
      whole.unsafeGetTensorImpl()->set_sizes_contiguous({count});
    }
    base = whole;
  }
  leaf = base.as_strided(leaf.sizes(), leaf.strides(), leaf.storage_offset());
  if (kind_ == Kind::kDetached) leaf = leaf.detach();
}

PyObject* OutputTree::BuildOne(Building& building) const {
  auto& [leaves, inputs, kept, linked, whole] = building;
  if (kind_ == Kind::kSame) {
    if (number_ < kept.size() && kept[number_] != nullptr) return Py_NewRef(kept[number_]);
    PyErr_SetString(PyExc_RuntimeError, "a result repeats an object that has not been built");
    return nullptr;
  }
  if (kind_ == Kind::kKeep) {
    PyObject* value = children_[0]->BuildOne(building);
    if (value == nullptr) return nullptr;
    if (kept.size() <= number_) kept.resize(number_ + 1, nullptr);
    Py_XSETREF(kept[number_], Py_NewRef(value));
    return value;
  }
  if (kind_ == Kind::kSized) return PyLong_FromLongLong(leaves.at(number_).size(-1));
  if (kind_ == Kind::kItem) {
    const at::Tensor& leaf = leaves.at(number_);
    if (leaf.is_floating_point()) return PyFloat_FromDouble(leaf.item<double>());
    return PyLong_FromLongLong(leaf.item<int64_t>());
  }
  if (kind_ == Kind::kInput) return THPVariable_Wrap(*inputs.at(number_));
  if (kind_ <= Kind::kPart) {
    Link(building);
    return THPVariable_Wrap(leaves.at(number_));
  }
  if (kind_ == Kind::kConst) return Py_NewRef(object_);
  const auto count = static_cast<Py_ssize_t>(children_.size());
  if (kind_ == Kind::kDict) {
    PyObject* dict = PyDict_New();
    for (Py_ssize_t i = 0; dict != nullptr && i < count; ++i) {
      PyObject* value = children_[i]->BuildOne(building);
      if (value == nullptr || PyDict_SetItem(dict, PyList_GET_ITEM(object_, i), value) != 0) {
        Py_CLEAR(dict);
      }
      Py_XDECREF(value);
    }
    return dict;
  }
  PyObject* sequence = kind_ == Kind::kTuple ? PyTuple_New(count) : PyList_New(count);
  for (Py_ssize_t i = 0; sequence != nullptr && i < count; ++i) {
    PyObject* value = children_[i]->BuildOne(building);
    if (value == nullptr) {
      Py_DECREF(sequence);
      return nullptr;
    }
    if (kind_ == Kind::kTuple) {
      PyTuple_SET_ITEM(sequence, i, value);
    } else {
      PyList_SET_ITEM(sequence, i, value);
    }
  }
  if (kind_ == Kind::kThen && sequence != nullptr) return Done(sequence);
  if (kind_ != Kind::kCall || sequence == nullptr) return sequence;
  PyObject* result = PyObject_CallOneArg(object_, sequence);
  Py_DECREF(sequence);
  return result;
}

/// Operations of C functions: no handler of a signal runs before all are done, so that an interrupt finds objects as
/// a whole call leaves them. Takes over `values`.
PyObject* OutputTree::Done(PyObject* values) const {
  PyObject* const* next = PySequence_Fast_ITEMS(values) + 1;
  PyObject* result = Py_NewRef(PyList_GET_ITEM(values, 0));
  for (Py_ssize_t i = 0; result != nullptr && i < PyList_GET_SIZE(object_); ++i) {
    PyObject* one = PyList_GET_ITEM(object_, i);
    const size_t count = PyLong_AsSize_t(PyTuple_GET_ITEM(one, 1));
    PyObject* none = PyObject_Vectorcall(PyTuple_GET_ITEM(one, 0), next, count, nullptr);
    if (none == nullptr) Py_CLEAR(result);
    Py_XDECREF(none);
    next += count;
  }
  Py_DECREF(values);
  return result;
}

}  // namespace ingot::client
