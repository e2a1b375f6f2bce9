// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <filesystem>
#include <limits>
#include <memory>

#include "base/filesystem.h"
#include "client/onnx/element_types.h"
#include "client/onnx/external_data.h"
#include "client/onnx/model.h"

namespace ingot::onnx {
namespace {

/// protobuf's own limit for one message.
constexpr uint64_t kModelBytesMax = std::numeric_limits<int32_t>::max();

/// Numbers of element types.
constexpr int32_t kByte = 2, kUnsignedNibble = 21, kSignedNibble = 22;

class Reader {
 public:
  Reader(wire::ModelFields fields, const std::string& folder) : fields_(std::move(fields)), external_(folder) {}

  Result<Model> Read() {
    Model model;
    model.producer = fields_.producer;
    model.opsets = fields_.opsets;
    model.functions = fields_.functions;
    TRY(ReadGraph(fields_, model));
    return model;
  }

 private:
  Status ReadGraph(wire::GraphFields& fields, Graph& graph) {
    if (fields.has_sparse) return Error(Code::kUnsupported, "sparse initializers");
    for (const wire::TensorFields& tensor : fields.initializers) {
      const bool is_narrow = tensor.type == kUnsignedNibble || tensor.type == kSignedNibble;
      Result<at::Tensor> read = is_narrow ? ReadNibbles(tensor) : ReadTensor(tensor);
      if (!read) return std::move(read).error().Wrap(fmt::format("initializer '{}'", tensor.name));
      if (is_narrow) {
        graph.nibbles[tensor.name] =
            std::make_shared<const Nibbles>(Nibbles{tensor.sizes, tensor.type == kSignedNibble});
      }
      if (!graph.initializers.emplace(tensor.name, *std::move(read)).second) {
        return Error(Code::kCorrupt, fmt::format("two initializers '{}'", tensor.name));
      }
    }
    for (wire::NodeFields& node : fields.nodes) {
      TRY_ASSIGN(Node read, ReadNode(node));
      graph.nodes.push_back(std::move(read));
    }
    for (const wire::ValueFields& value : fields.inputs) {
      if (!graph.initializers.contains(value.name)) graph.inputs.push_back(ReadValue(value));
    }
    for (const wire::ValueFields& value : fields.outputs) graph.outputs.push_back(ReadValue(value));
    return {};
  }

  static ValueInfo ReadValue(const wire::ValueFields& value) {
    if (!value.type) return {value.name, std::nullopt, "no tensor", std::nullopt};
    return {value.name, ScalarTypeOf(*value.type), NameOf(*value.type), value.dims};
  }

  Result<Node> ReadNode(wire::NodeFields& node) {
    Node read{node.name, node.op, node.domain, std::move(node.inputs), std::move(node.outputs), {}};
    if (!node.overload.empty()) {
      return Error(Code::kUnsupported, fmt::format("node '{}' ({}) calls a function's overload", node.name, node.op));
    }
    for (wire::AttributeFields& attribute : node.attributes) {
      Attribute made{std::move(attribute), {}};
      const auto label = [&] { return fmt::format("node '{}' ({}), attribute '{}'", node.name, node.op, made.name); };
      if (made.is_reference) return Error(Code::kUnsupported, label() + " is one of a function");
      if (made.kind == Attribute::Kind::kTensor) {
        Result<at::Tensor> tensor = ReadTensor(made.fields);
        if (!tensor) return std::move(tensor).error().Wrap(label());
        made.tensor = *std::move(tensor);
      }
      if (made.kind == Attribute::Kind::kGraph) {
        auto body = std::make_shared<Graph>();
        const Status status = ReadGraph(*made.graph, *body);
        if (!status) return Error(status.error()).Wrap(label());
        made.body = std::move(body);
      }
      read.attributes.push_back(std::move(made));
    }
    return read;
  }

  /// The bytes of elements of 4 bits.
  Result<at::Tensor> ReadNibbles(const wire::TensorFields& tensor) {
    int64_t count = 1;
    for (const int64_t size : tensor.sizes) {
      if (size < 0 || __builtin_mul_overflow(count, size, &count)) return Error(Code::kCorrupt, "impossible sizes");
    }
    wire::TensorFields bytes = tensor;
    bytes.type = kByte;
    bytes.sizes = {count / 2 + count % 2};
    return ReadTensor(bytes);
  }

  Result<at::Tensor> ReadTensor(const wire::TensorFields& tensor) {
    const auto dtype = ScalarTypeOf(tensor.type);
    if (!dtype) {
      return Error(Code::kUnsupported,
                   fmt::format("elements of type {}, which PyTorch does not compute with", NameOf(tensor.type)));
    }
    const std::vector<int64_t>& sizes = tensor.sizes;
    int64_t count = 1;
    for (const int64_t size : sizes) {
      if (size < 0 || __builtin_mul_overflow(count, size, &count)) return Error(Code::kCorrupt, "impossible sizes");
    }
    int64_t bytes = 0;
    if (__builtin_mul_overflow(count, static_cast<int64_t>(c10::elementSize(*dtype)), &bytes)) {
      return Error(Code::kCorrupt, "impossible sizes");
    }
    if (tensor.is_external) {
      TRY_ASSIGN(const ExternalData::Window window, external_.Find(tensor.external, static_cast<uint64_t>(bytes)));
      return Borrow(window.bytes.data(), sizes, *dtype, window.file);
    }
    if (tensor.raw) {
      if (static_cast<int64_t>(tensor.raw->size()) != bytes) return WrongCount(bytes, tensor.raw->size());
      return Borrow(tensor.raw->data(), sizes, *dtype, fields_.message);
    }
    return ReadFields(tensor, sizes, count, *dtype);
  }

  static Error WrongCount(int64_t wanted, size_t found) {
    return Error(Code::kCorrupt, fmt::format("its sizes ask for {} elements or bytes, found {}", wanted, found));
  }

  /// A tensor over memory that `owner` keeps. Memory that does not lie as its elements must is copied.
  static at::Tensor Borrow(const uint8_t* data, const std::vector<int64_t>& sizes, at::ScalarType dtype,
                           std::shared_ptr<const void> owner) {
    const at::TensorOptions options = at::TensorOptions(dtype);
    at::Tensor tensor = at::empty(sizes, options);
    if (tensor.numel() == 0) return tensor;
    if (reinterpret_cast<uintptr_t>(data) % c10::elementSize(dtype) != 0) {
      std::memcpy(tensor.data_ptr(), data, tensor.nbytes());
      return tensor;
    }
    return at::from_blob(const_cast<uint8_t*>(data), sizes, [owner = std::move(owner)](void*) {}, options);
  }

  /// Elements as numbers of the message; narrow ones lie in wider fields, narrow floats as their bits.
  static Result<at::Tensor> ReadFields(const wire::TensorFields& tensor, const std::vector<int64_t>& sizes,
                                       int64_t count, at::ScalarType dtype) {
    const auto made = [&](const auto& field, at::ScalarType as,
                          std::optional<at::ScalarType> bits = std::nullopt) -> Result<at::Tensor> {
      const bool is_complex = c10::isComplexType(dtype);
      const auto found = static_cast<int64_t>(field.size());
      if (found != count * (is_complex ? 2 : 1)) return WrongCount(count, field.size());
      if (count == 0) return at::empty(sizes, dtype);
      const at::Tensor all = at::from_blob(const_cast<void*>(static_cast<const void*>(field.data())), {found}, as);
      if (is_complex) return at::view_as_complex(all.clone().view({count, 2})).view(sizes);
      if (bits) return all.to(*bits).view(dtype).view(sizes).clone();
      return all.to(dtype, false, true).view(sizes);
    };
    switch (dtype) {
      case at::kFloat:
      case at::kComplexFloat: return made(tensor.floats, at::kFloat);
      case at::kDouble:
      case at::kComplexDouble: return made(tensor.doubles, at::kDouble);
      case at::kLong: return made(tensor.longs, at::kLong);
      case at::kHalf:
      case at::kBFloat16: return made(tensor.ints, at::kInt, at::kShort);
      case at::kFloat8_e4m3fn:
      case at::kFloat8_e5m2: return made(tensor.ints, at::kInt, at::kByte);
      default: return made(tensor.ints, at::kInt);
    }
  }

  wire::ModelFields fields_;
  ExternalData external_;
};

}  // namespace

Result<Model> ParseModel(Bytes bytes, const std::string& folder) {
  TRY_ASSIGN(wire::ModelFields fields, wire::Parse(bytes));
  try {
    return Reader(std::move(fields), folder).Read();
  } catch (const std::exception& e) {
    return Error(Code::kCorrupt, e.what());
  }
}

Result<Model> ReadModel(const std::string& path) {
  Result<Buffer> bytes = RealFilesystem().Read(path, kModelBytesMax);
  if (!bytes && bytes.error().code() == Code::kExhausted) {
    return Error(Code::kExhausted, path + " is larger than protobuf allows (2 GB); save its tensors as external data");
  }
  TRY(bytes);
  Result<Model> model = ParseModel(*bytes, std::filesystem::path(path).parent_path().string());
  if (!model) return std::move(model).error().Wrap(path);
  return model;
}

}  // namespace ingot::onnx
