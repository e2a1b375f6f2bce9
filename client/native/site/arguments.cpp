// SPDX-License-Identifier: Apache-2.0
#include "client/native/site/arguments.h"

#include "client/native/cpython/drop_error.h"
#include "client/native/cpython/exact_text.h"
#include "client/native/cpython/origin.h"
#include "client/native/cpython/python_ref.h"
#include "client/native/effects/context_settings.h"
#include "client/native/observe/moving_numbers.h"
#include "client/native/places/dataclass_fields.h"
#include "client/native/places/field_content.h"
#include "client/native/places/registrations.h"
#include "client/native/places/tensor_facts.h"
#include "client/native/places/value_digest.h"

#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/Device.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/autograd/forward_grad.h>
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>

namespace ingot::client {
namespace {

constexpr int kDepthMax = 32;

bool IsPlainKey(PyObject* key) {
  if (!PyTuple_CheckExact(key)) return IsAtom(key);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); ++i) {
    if (!IsPlainKey(PyTuple_GET_ITEM(key, i))) return false;
  }
  return true;
}

/// Why a tensor is not taken that has a key of the dispatcher's beyond those of plain ones, each a fact that a program
/// can ask for and no signature holds: the elements may be others when they are read, or lie elsewhere.
const char* UnusualKey(const at::Tensor& tensor) {
  using Key = c10::DispatchKey;
  constexpr c10::DispatchKeySet kUsual({Key::CPU, Key::AutogradCPU, Key::ADInplaceOrView, Key::AutocastCPU});
  constexpr c10::DispatchKeySet kLazy({Key::Conjugate, Key::Negative, Key::ZeroTensor});
  const uint64_t unusual = tensor.key_set().raw_repr() & ~kUsual.raw_repr();
  if (unusual == 0) return nullptr;
  if ((unusual & ~kLazy.raw_repr()) == 0) return "lazy-conjugate";
  return tensor.is_quantized() ? "quantized" : "layout";
}

/// Why native code does not stand for what this thread's operators would run: it stands for kernels of the CPU, with
/// autograd above them or not, and nothing between. Transforms (vmap, grad, functionalize), modes of dispatch, tracers,
/// guards that leave layers out and autocast of every device are keys of the thread; null where there are none.
const char* UnusualThread() {
  using Key = c10::DispatchKey;
  const bool is_inference = c10::InferenceMode::is_enabled();
  const auto included =
      is_inference ? c10::default_included_set.remove(Key::ADInplaceOrView) : c10::default_included_set;
  const auto excluded =
      is_inference ? c10::default_excluded_set | c10::autograd_dispatch_keyset : c10::default_excluded_set;
  const c10::impl::LocalDispatchKeySet now = c10::impl::tls_local_dispatch_key_set();
  if (now.excluded_ != excluded) {
    const bool is_autocast = (now.excluded_ | c10::autocast_dispatch_keyset) == excluded;
    return is_autocast ? "autocast" : "dispatch-keys";
  }
  if (now.included_ != included) return now.included_.has(Key::Python) ? "dispatch-mode" : "dispatch-keys";
  using Function = at::impl::PythonTorchFunctionTLS;
  // A mode of the program's own (torch.device as a context) sees every call, and may change it.
  const bool is_plain =
      Function::stack_len() == 0 && Function::get_disabled_state() == at::impl::TorchFunctionDisabledState::ENABLED;
  if (!is_plain) return "function-mode";
  // Tangents may lie in arguments, weights and whatever else a call reads.
  return torch::autograd::ForwardADLevel::try_get_by_idx(0) != nullptr ? "forward-mode" : nullptr;
}

class Flattener {
 public:
  Flattener(Arguments& out, bool want_names) : out_(out), want_names_(want_names) {}

  void Mode() {
    grad_ = at::GradMode::is_enabled();
    out_.signature.push_back(static_cast<char>((grad_ ? 1 : 0) | (c10::InferenceMode::is_enabled() ? 2 : 0)));
    Raw(SettingsNow());
    out_.signature.push_back(static_cast<char>(c10::get_default_dtype_as_scalartype()));
    out_.unsupported = UnusualThread();
    if (OperatorsAreOverridden()) out_.unsupported = "overridden-operator";
  }

  void Value(PyObject* value, const std::string& name) {
    if (IsTensor(value)) {
      TensorValue(value, name);
    } else if (value == Py_None) {
      Tag('N');
    } else if (PyBool_Check(value)) {
      Tag(value == Py_True ? 'T' : 'F');
    } else if (PyLong_CheckExact(value)) {
      Integer(value);
    } else if (PyFloat_CheckExact(value)) {
      Tag('f');
      Raw(PyFloat_AS_DOUBLE(value));
    } else if (PyUnicode_CheckExact(value)) {
      Text(value);
    } else if (PyTuple_CheckExact(value) || PyList_CheckExact(value)) {
      Sequence(value, name);
    } else if (PyDict_CheckExact(value) && HasPlainKeys(value)) {
      Dict(value, name);
    } else if (PyTuple_Check(value)) {
      // Named tuples: the type is part of the structure.
      Tag('n');
      Pointer(Py_TYPE(value));
      if (HasOwnAttributes(value)) Tag('.');
      Sequence(value, name);
    } else if (THPDtype_Check(value) || THPDevice_Check(value)) {
      Exactly(value);
    } else if (PyObject* fields = FieldsOf(Py_TYPE(value))) {
      Dataclass(value, fields, name);
    } else {
      Object(value);
    }
  }

  /// A number that is an input, or a container that is an object.
  void Varying(PyObject* value, const std::string& name) {
    if (IsToldByContent(value)) return Object(value);
    const bool is_number = PyLong_CheckExact(value) || PyFloat_CheckExact(value);
    const auto as = is_number ? FetchedAs(value) : std::nullopt;
    auto number = as ? MovingNumbers::TensorOf(value) : std::nullopt;
    if (!number) return Value(value, name);
    Tag('V');
    Raw(*as);
    out_.tensors.push_back(&out_.numbers.emplace_back(std::move(*number)));
    if (want_names_) out_.names.push_back(name);
  }

  /// One object in two places is a signature of its own, as a tensor is.
  void Object(PyObject* value) {
    const auto first = std::ranges::find(out_.objects, value) - out_.objects.begin();
    const bool is_known = first < std::ssize(out_.objects);
    Tag(is_known ? 'o' : 'O');
    if (is_known) Raw(static_cast<uint32_t>(first));
    Pointer(Py_TYPE(value));
    out_.objects.push_back(value);
  }
  void Tag(char tag) { out_.signature.push_back(tag); }
  template <typename T>
  void Raw(T value) {
    out_.signature.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void Text(PyObject* text) {
    const CodeUnits units = UnitsOf(text);
    Tag('s');
    Raw(units.width);
    Raw(static_cast<uint64_t>(units.bytes.size()));
    out_.signature.append(units.bytes);
  }

 private:
  void Pointer(const void* pointer) { Raw(reinterpret_cast<uintptr_t>(pointer)); }

  void TensorValue(PyObject* value, const std::string& name) {
    out_.parts.push_back(value);
    const at::Tensor& tensor = THPVariable_Unpack(value);
    if (tensor.device().type() != at::kCPU) {
      out_.unsupported = "device";
    } else if (const char* reason = UnusualKey(tensor)) {
      out_.unsupported = reason;
    } else if (grad_ && tensor.requires_grad()) {
      out_.unsupported = "requires-grad";
    }
    if (!THPVariable_CheckExact(value)) out_.unsupported = "subclass";
    // One tensor in two places is one input of the graph, and such a call a signature of its own.
    if (const size_t first = FirstOf(tensor); first < out_.tensors.size()) {
      Tag('^');
      Raw(static_cast<uint32_t>(first));
      return;
    }
    // A program may ask whether it is a Parameter, for attributes that it has or lacks, and for marks of autograd.
    if (tensor.requires_grad()) Tag('g');
    if (tensor.is_inference()) Tag('I');
    Tag(Py_TYPE(value) == TensorTypes()[1] ? 'P' : 'X');
    bool has_own = false;
    ForEachOwnName(value, [&](PyObject* own) {
      if (PyUnicode_CheckExact(own)) Text(own);
      has_own = true;
    });
    if (has_own) Tag('.');
    Raw(static_cast<uint8_t>(tensor.scalar_type()));
    Raw(static_cast<uint8_t>(tensor.dim()));
    out_.tensors.push_back(&tensor);
    if (want_names_) out_.names.push_back(name);
  }

  /// The position of the same tensor among those seen, or their count.
  size_t FirstOf(const at::Tensor& tensor) const {
    const auto same = [&](const at::Tensor* seen) { return seen->is_same(tensor); };
    const auto at = std::ranges::find_if(out_.tensors, same);
    return static_cast<size_t>(at - out_.tensors.begin());
  }

  void Integer(PyObject* value) {
    int overflow = 0;
    const long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
    if (overflow != 0) return Exactly(value);
    Tag('i');
    Raw(static_cast<int64_t>(number));
  }

  void Exactly(PyObject* value) {
    ValueWriter writer;
    writer.Write(value);
    const auto digest = writer.Finish();
    if (!digest) out_.unsupported = "nesting";
    Tag('r');
    Raw(digest.value_or(Digest()).low);
    Raw(digest.value_or(Digest()).high);
  }

  void Sequence(PyObject* value, const std::string& name) {
    if (++depth_ > kDepthMax) out_.unsupported = "nesting";
    out_.parts.push_back(value);
    PyObject** items = PySequence_Fast_ITEMS(value);
    const Py_ssize_t count = PySequence_Fast_GET_SIZE(value);
    Tag(PyTuple_Check(value) ? '(' : '[');
    Raw(static_cast<uint32_t>(count));
    for (Py_ssize_t i = 0; i < count && depth_ <= kDepthMax; ++i) {
      Value(items[i], want_names_ ? name + "[" + std::to_string(i) + "]" : name);
    }
    --depth_;
  }

  void Dict(PyObject* value, const std::string& name) {
    if (++depth_ > kDepthMax) out_.unsupported = "nesting";
    out_.parts.push_back(value);
    Tag('{');
    Raw(static_cast<uint32_t>(PyDict_GET_SIZE(value)));
    Py_ssize_t at = 0;
    PyObject *key, *item;
    while (depth_ <= kDepthMax && PyDict_Next(value, &at, &key, &item)) {
      PyUnicode_CheckExact(key) ? Text(key) : Exactly(key);
      std::string child;
      if (want_names_) child = name + "[" + ReprOf(key) + "]";
      Value(item, child);
    }
    --depth_;
  }

  void Dataclass(PyObject* value, PyObject* fields, const std::string& name) {
    if (++depth_ > kDepthMax) out_.unsupported = "nesting";
    out_.parts.push_back(value);
    Tag('D');
    Pointer(Py_TYPE(value));
    if (HasOwnAttributes(value)) Tag('.');
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(fields) && depth_ <= kDepthMax; ++i) {
      PyObject* field = PyTuple_GET_ITEM(fields, i);
      const PythonRef item = FieldOf(value, field);
      if (!item) {
        Tag('-');
        continue;
      }
      std::string child;
      if (want_names_) child = name + "." + std::string(ViewOf(field));
      Value(item.get(), child);  // The dataclass keeps its fields alive for the length of the call.
    }
    --depth_;
  }

  Arguments& out_;
  const bool want_names_;
  bool grad_ = false;
  int depth_ = 0;
};

std::string PositionalName(PyObject* parameters, size_t i) {
  if (parameters != nullptr && static_cast<Py_ssize_t>(i) < PyTuple_GET_SIZE(parameters)) {
    return std::string(ViewOf(PyTuple_GET_ITEM(parameters, static_cast<Py_ssize_t>(i))));
  }
  return "args[" + std::to_string(i) + "]";
}

}  // namespace

DynamicScalars DynamicScalars::Of(PyObject* arguments) {
  DynamicScalars found;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(arguments); ++i) {
    PyObject* one = PyTuple_GET_ITEM(arguments, i);
    if (PyUnicode_Check(one)) {
      found.names.push_back(PythonRef::Borrow(one));
    } else if (PyLong_Check(one)) {
      found.positions.push_back(PyLong_AsSize_t(one));
    }
  }
  DropError();
  return found;
}

bool DynamicScalars::Has(size_t position) const { return std::ranges::find(positions, position) != positions.end(); }

bool DynamicScalars::Has(PyObject* name) const {
  return std::ranges::any_of(
      names, [name](const PythonRef& one) { return one.get() == name || PyUnicode_Compare(one.get(), name) == 0; });
}

bool HasPlainKeys(PyObject* dict) {
  PyObject *key, *value;
  for (Py_ssize_t at = 0; PyDict_Next(dict, &at, &key, &value);) {
    if (!PyUnicode_CheckExact(key) && !IsPlainKey(key)) return false;
  }
  return true;
}

void Arguments::Clear() {
  signature.clear();
  tensors.clear();
  numbers.clear();
  objects.clear();
  parts.clear();
  names.clear();
  unsupported = nullptr;
}

void Flatten(PyObject* const* args, size_t count, PyObject* kwnames, PyObject* parameters, bool want_names,
             const DynamicScalars* varying, Arguments& out) {
  out.Clear();
  Flattener flattener(out, want_names);
  flattener.Mode();
  flattener.Raw(static_cast<uint32_t>(count));
  for (size_t i = 0; i < count; ++i) {
    const std::string name = want_names ? PositionalName(parameters, i) : std::string();
    varying != nullptr && varying->Has(i) ? flattener.Varying(args[i], name) : flattener.Value(args[i], name);
  }
  const Py_ssize_t keywords = kwnames == nullptr ? 0 : PyTuple_GET_SIZE(kwnames);
  for (Py_ssize_t i = 0; i < keywords; ++i) {
    PyObject* name = PyTuple_GET_ITEM(kwnames, i);
    flattener.Tag('=');
    flattener.Text(name);
    std::string text;
    if (want_names) text = ViewOf(name);
    PyObject* value = args[count + i];
    varying != nullptr && varying->Has(name) ? flattener.Varying(value, text) : flattener.Value(value, text);
  }
}

}  // namespace ingot::client
