// SPDX-License-Identifier: Apache-2.0
// Steps of paths as text.
#include <algorithm>
#include <charconv>

#include "client/native/cpython/drop_error.h"
#include "client/native/cpython/origin.h"
#include "client/native/places/place_access.h"

namespace ingot::client {
namespace {

Error Corrupt(std::string_view path, size_t at) {
  return Error(Code::kCorrupt, "path '" + std::string(path) + "': no step at position " + std::to_string(at));
}

/// Names that need no quotes behind a sigil.
bool IsPlainName(std::string_view name) {
  const auto plain = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  return !name.empty() && std::ranges::all_of(name, plain);
}

constexpr char kHexDigits[] = "0123456789abcdef";

/// Bytes between quotes, those of which `is_plain` does not say that they may stand there as numbers.
template <typename IsPlain>
void AppendQuoted(std::string& out, std::string_view bytes, const IsPlain& is_plain) {
  out += '"';
  for (size_t i = 0; i < bytes.size(); ++i) {
    const char c = bytes[i];
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte == 0x7f || !is_plain(i)) {
      out += "\\x";
      out += kHexDigits[byte >> 4];
      out += kHexDigits[byte & 15];
    } else {
      out += c;
    }
  }
  out += '"';
}

/// UTF-8, and bytes like it for lone surrogates, of which UTF-8 knows nothing: paths are UTF-8.
void AppendQuotedText(std::string& out, PyObject* text) {
  const PythonRef encoded(PyUnicode_AsEncodedString(text, "utf-8", "surrogatepass"));
  DropError();
  if (!encoded) return;  // Without memory.
  const std::string_view bytes(PyBytes_AS_STRING(encoded.get()), static_cast<size_t>(PyBytes_GET_SIZE(encoded.get())));
  const auto at = [bytes](size_t i) { return i < bytes.size() ? static_cast<unsigned char>(bytes[i]) : 0; };
  const auto begins_surrogate = [at](size_t i) { return at(i) == 0xed && at(i + 1) >= 0xa0; };
  AppendQuoted(out, bytes, [&](size_t i) {
    return !begins_surrogate(i) && !(i > 0 && begins_surrogate(i - 1)) && !(i > 1 && begins_surrogate(i - 2));
  });
}

void AppendQuotedBytes(std::string& out, PyObject* value) {
  const std::string_view bytes(PyBytes_AS_STRING(value), static_cast<size_t>(PyBytes_GET_SIZE(value)));
  AppendQuoted(out, bytes, [bytes](size_t i) { return static_cast<unsigned char>(bytes[i]) < 0x80; });
}

PythonRef TextFrom(const std::string& quoted) {
  PythonRef text(PyUnicode_DecodeUTF8(quoted.data(), static_cast<Py_ssize_t>(quoted.size()), "surrogatepass"));
  DropError();
  return text;
}

int HexValue(char c) {
  const char* at = c == 0 ? nullptr : std::char_traits<char>::find(kHexDigits, 16, c);
  return at == nullptr ? -1 : static_cast<int>(at - kHexDigits);
}

/// The text behind a quote at `at`; moves behind the closing one.
std::optional<std::string> ParseQuoted(std::string_view path, size_t& at) {
  std::string out;
  for (++at; at < path.size() && path[at] != '"'; ++at) {
    if (path[at] != '\\') {
      out += path[at];
    } else if (at + 1 < path.size() && path[at + 1] != 'x') {
      out += path[++at];
    } else if (at + 3 < path.size() && HexValue(path[at + 2]) >= 0 && HexValue(path[at + 3]) >= 0) {
      out += static_cast<char>(HexValue(path[at + 2]) << 4 | HexValue(path[at + 3]));
      at += 3;
    } else {
      return std::nullopt;
    }
  }
  if (at >= path.size()) return std::nullopt;
  ++at;
  return out;
}

/// Of a key that has a name.
void AppendKey(std::string& path, PyObject* key) {
  if (PyUnicode_CheckExact(key)) {
    AppendQuotedText(path, key);
  } else if (PyBytes_CheckExact(key)) {
    path += 'b';
    AppendQuotedBytes(path, key);
  } else if (key == Py_None || PyBool_Check(key)) {
    path += key == Py_None ? 'N' : key == Py_True ? 'T' : 'F';
  } else {
    path += std::to_string(PyLong_AsLongLong(key));
  }
  path += ']';
}

PythonRef ParseKey(std::string_view path, size_t& at) {
  PythonRef key;
  if (at >= path.size()) return key;
  const char c = path[at];
  if (c == '"' || (c == 'b' && at + 1 < path.size() && path[at + 1] == '"')) {
    if (c == 'b') ++at;
    const auto text = ParseQuoted(path, at);
    if (!text) return key;
    const auto size = static_cast<Py_ssize_t>(text->size());
    key = c == 'b' ? PythonRef(PyBytes_FromStringAndSize(text->data(), size)) : TextFrom(*text);
  } else if (c == 'N' || c == 'T' || c == 'F') {
    ++at;
    key = PythonRef::Borrow(c == 'N' ? Py_None : c == 'T' ? Py_True : Py_False);
  } else {
    long long number = 0;
    const auto [end, error] = std::from_chars(path.data() + at, path.data() + path.size(), number);
    if (error != std::errc()) return key;
    at = static_cast<size_t>(end - path.data());
    key = PythonRef(PyLong_FromLongLong(number));
  }
  if (at >= path.size() || path[at] != ']') return PythonRef();
  ++at;
  return key;
}

}  // namespace

bool HasName(AccessKind access, PyObject* key) {
  const auto is_plain = [](PyObject* one) {
    int overflow = 0;
    if (PyLong_CheckExact(one)) PyLong_AsLongLongAndOverflow(one, &overflow);
    return overflow == 0 && (PyUnicode_CheckExact(one) || PyBytes_CheckExact(one) || one == Py_None ||
                             PyBool_Check(one) || PyLong_CheckExact(one));
  };
  switch (access) {
    case AccessKind::kItem: return is_plain(key);
    case AccessKind::kKeyAt:
    case AccessKind::kValueAt: return true;
    case AccessKind::kAnswer:
      return std::all_of(&PyTuple_GET_ITEM(key, 0), &PyTuple_GET_ITEM(key, 0) + PyTuple_GET_SIZE(key), is_plain);
    default: return PyUnicode_Check(key);
  }
}

bool AppendStep(std::string& path, AccessKind access, PyObject* key) {
  if (!HasName(access, key)) return false;
  // An entry of `__dict__` is the attribute.
  constexpr std::string_view kDict = "!dict";
  if (access == AccessKind::kItem && path.ends_with(kDict) && PyUnicode_CheckExact(key)) {
    path.resize(path.size() - kDict.size());
    return AppendStep(path, AccessKind::kAttribute, key);
  }
  // `torch.nn:Module`, not `torch.nn:.Module`.
  const bool begins =
      access == AccessKind::kAttribute && path.ends_with(':') && PyUnicode_Check(key) && IsPlainName(ViewOf(key));
  if (!begins) path += static_cast<char>(access);
  if (access == AccessKind::kItem) {
    AppendKey(path, key);
  } else if (access == AccessKind::kKeyAt || access == AccessKind::kValueAt) {
    path += std::to_string(PyLong_AsSsize_t(key));
  } else if (access == AccessKind::kAnswer) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); ++i) AppendKey(path, PyTuple_GET_ITEM(key, i));
    path += ')';
  } else {
    const std::string_view name = ViewOf(key);
    IsPlainName(name) ? void(path += name) : AppendQuotedText(path, key);
  }
  return true;
}

Result<Step> ParseStep(std::string_view path, size_t& at) {
  if (at >= path.size() || kSigils.find(path[at]) == std::string_view::npos) return Corrupt(path, at);
  Step step{static_cast<AccessKind>(path[at]), PythonRef()};
  const size_t begin = at++;
  if (step.access == AccessKind::kItem) {
    step.key = ParseKey(path, at);
  } else if (step.access == AccessKind::kKeyAt || step.access == AccessKind::kValueAt) {
    size_t number = 0;
    const auto [end, error] = std::from_chars(path.data() + at, path.data() + path.size(), number);
    if (error != std::errc()) return Corrupt(path, begin);
    at = static_cast<size_t>(end - path.data());
    step.key = PythonRef(PyLong_FromSize_t(number));
  } else if (step.access == AccessKind::kAnswer) {
    const PythonRef list(PyList_New(0));
    while (at < path.size() && path[at] != ')') {
      const PythonRef one = ParseKey(path, at);
      if (!one || PyList_Append(list.get(), one.get()) != 0) return Corrupt(path, begin);
    }
    if (at++ >= path.size()) return Corrupt(path, begin);
    step.key = PythonRef(PyList_AsTuple(list.get()));
  } else if (at < path.size() && path[at] == '"') {
    if (const auto text = ParseQuoted(path, at)) step.key = TextFrom(*text);
  } else {
    const size_t end = std::min(path.find_first_of(".[~$%!@#(\"", at), path.size());
    PyObject* name =
        end == at ? nullptr : PyUnicode_DecodeUTF8(path.data() + at, static_cast<Py_ssize_t>(end - at), "strict");
    DropError();
    if (name != nullptr) PyUnicode_InternInPlace(&name);
    step.key = PythonRef(name);
    at = end;
  }
  if (!step.key) return Corrupt(path, begin);
  return step;
}

std::optional<std::string> CanonicalPath(PyObject* object, std::string_view module, std::string_view qualname) {
  if (module.empty() || qualname.find('<') != qualname.npos) return std::nullopt;
  const PythonRef name(PyUnicode_FromStringAndSize(module.data(), static_cast<Py_ssize_t>(module.size())));
  PythonRef held = PythonRef::Borrow(name ? PyDict_GetItemWithError(PyImport_GetModuleDict(), name.get()) : nullptr);
  std::string path = std::string(module) + ":";
  for (size_t at = 0; held && at < qualname.size();) {
    const size_t end = std::min(qualname.find('.', at), qualname.size());
    const PythonRef part(PyUnicode_FromStringAndSize(qualname.data() + at, static_cast<Py_ssize_t>(end - at)));
    AppendStep(path, AccessKind::kAttribute, part.get());
    held = std::move(LoadPlace(held.get(), AccessKind::kAttribute, part.get()).object);
    at = end + 1;
  }
  DropError();
  if (held.get() == object) return path;
  // The function of a static or class method.
  const bool wraps =
      held && (Py_TYPE(held.get()) == &PyStaticMethod_Type || Py_TYPE(held.get()) == &PyClassMethod_Type);
  static PyObject* const wrapped = PyUnicode_InternFromString("wrapped");
  if (!wraps || LoadPlace(held.get(), AccessKind::kField, wrapped).object.get() != object) return std::nullopt;
  AppendStep(path, AccessKind::kField, wrapped);
  return path;
}

bool HasOwnName(PyObject* value) {
  if (PyType_Check(value)) {
    auto* type = reinterpret_cast<PyTypeObject*>(value);
    return CanonicalPath(value, ModuleOf(type), QualnameOf(type)).has_value();
  }
  if (PyFunction_Check(value)) {
    const auto* function = reinterpret_cast<PyFunctionObject*>(value);
    return CanonicalPath(value, ViewOf(function->func_module), ViewOf(function->func_qualname)).has_value();
  }
  PyObject* name = PyModule_Check(value) ? NameOfGlobals(PyModule_GetDict(value)) : nullptr;
  return name != nullptr && CanonicalPath(value, ViewOf(name), "").has_value();
}

}  // namespace ingot::client
