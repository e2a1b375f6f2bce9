// SPDX-License-Identifier: Apache-2.0
#include "client/native/output_tree.h"

#include <torch/csrc/autograd/python_variable.h>

#include <string_view>

namespace ingot::client {
namespace {

constexpr size_t kKeptMax = 1 << 20;

Error Invalid(const char* what) {
  return Error(Code::kInvalid, std::string("output tree: ") + what);
}

}  // namespace

Result<std::unique_ptr<OutputTree>> OutputTree::Parse(PyObject* spec, size_t leaf_count,
                                                      size_t input_count) {
  if (!PyTuple_Check(spec) || PyTuple_GET_SIZE(spec) < 2) return Invalid("expected (kind, ...)");
  const char* kind = PyUnicode_AsUTF8(PyTuple_GET_ITEM(spec, 0));
  if (kind == nullptr) {
    PyErr_Clear();
    return Invalid("the kind is a string");
  }
  std::unique_ptr<OutputTree> tree(new OutputTree);
  PyObject* second = PyTuple_GET_ITEM(spec, 1);
  const std::string_view name(kind);
  if (name == "leaf" || name == "detached" || name == "input") {
    tree->kind_ = name == "leaf" ? Kind::kLeaf : name == "input" ? Kind::kInput : Kind::kDetached;
    tree->number_ = PyLong_AsSize_t(second);
    if (PyErr_Occurred() || tree->number_ >= (name == "input" ? input_count : leaf_count)) {
      PyErr_Clear();
      return Invalid("a tensor that the artifact neither returns nor takes");
    }
  } else if (name == "same" || name == "keep") {
    tree->kind_ = name == "same" ? Kind::kSame : Kind::kKeep;
    tree->number_ = PyLong_AsSize_t(second);
    if (PyErr_Occurred() || tree->number_ >= kKeptMax) {
      PyErr_Clear();
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
  } else if ((name == "dict" || name == "call") && PyTuple_GET_SIZE(spec) == 3) {
    tree->kind_ = name == "dict" ? Kind::kDict : Kind::kCall;
    tree->object_ = Py_NewRef(second);
    TRY(tree->ParseChildren(PyTuple_GET_ITEM(spec, 2), leaf_count, input_count));
    if (name == "dict" &&
        (!PyList_Check(second) ||
         PyList_GET_SIZE(second) != static_cast<Py_ssize_t>(tree->children_.size()))) {
      return Invalid("as many keys as values");
    }
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

PyObject* OutputTree::Build(std::vector<at::Tensor>& leaves, const Inputs& inputs) const {
  Kept kept;
  PyObject* built = BuildOne(leaves, inputs, kept);
  for (PyObject* object : kept) Py_XDECREF(object);
  return built;
}

PyObject* OutputTree::BuildOne(std::vector<at::Tensor>& leaves, const Inputs& inputs,
                               Kept& kept) const {
  if (kind_ == Kind::kSame) {
    if (number_ < kept.size() && kept[number_] != nullptr) return Py_NewRef(kept[number_]);
    PyErr_SetString(PyExc_RuntimeError, "a result repeats an object that has not been built");
    return nullptr;
  }
  if (kind_ == Kind::kKeep) {
    PyObject* value = children_[0]->BuildOne(leaves, inputs, kept);
    if (value == nullptr) return nullptr;
    if (kept.size() <= number_) kept.resize(number_ + 1, nullptr);
    Py_XSETREF(kept[number_], Py_NewRef(value));
    return value;
  }
  if (kind_ == Kind::kDetached && leaves[number_].requires_grad())
    leaves[number_] = leaves[number_].detach();
  if (kind_ == Kind::kLeaf || kind_ == Kind::kDetached) return THPVariable_Wrap(leaves[number_]);
  if (kind_ == Kind::kInput) return THPVariable_Wrap(*inputs[number_]);
  if (kind_ == Kind::kConst) return Py_NewRef(object_);
  const auto count = static_cast<Py_ssize_t>(children_.size());
  if (kind_ == Kind::kDict) {
    PyObject* dict = PyDict_New();
    for (Py_ssize_t i = 0; dict != nullptr && i < count; ++i) {
      PyObject* value = children_[i]->BuildOne(leaves, inputs, kept);
      if (value == nullptr || PyDict_SetItem(dict, PyList_GET_ITEM(object_, i), value) != 0) {
        Py_CLEAR(dict);
      }
      Py_XDECREF(value);
    }
    return dict;
  }
  PyObject* sequence = kind_ == Kind::kTuple ? PyTuple_New(count) : PyList_New(count);
  for (Py_ssize_t i = 0; sequence != nullptr && i < count; ++i) {
    PyObject* value = children_[i]->BuildOne(leaves, inputs, kept);
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
  if (kind_ != Kind::kCall || sequence == nullptr) return sequence;
  PyObject* result = PyObject_CallOneArg(object_, sequence);
  Py_DECREF(sequence);
  return result;
}

}  // namespace ingot::client
