// SPDX-License-Identifier: Apache-2.0
#include "client/lib/run/admitted_operator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "client/lib/run/alias_marks.h"
#include "proto/operator_space.h"

namespace ingot::client {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// All of PyTorch's, and of Ingot's.
std::vector<c10::OperatorHandle> Registered() {
  std::vector<c10::OperatorHandle> all;
  for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) {
    if (name.name.starts_with("ingot_program_test::")) continue;  // Of program_test.cpp, in this process.
    if (const auto op = c10::Dispatcher::singleton().findSchema(name)) all.push_back(*op);
  }
  return all;
}

std::string NameOf(const c10::OperatorHandle& op) { return c10::toString(op.operator_name()); }

std::string Why(const std::string& name, NamedBy by = NamedBy::kPlan) {
  const size_t dot = name.find('.');
  const auto op = c10::Dispatcher::singleton().findSchema(
      {name.substr(0, dot), dot == name.npos ? std::string() : name.substr(dot + 1)});
  return op ? WhyNotAdmitted(*op, by) : "is not registered";
}

/// Of all operators of a fresh process.
std::set<std::string> AdmittedWhere(const std::function<bool(const c10::FunctionSchema&)>& holds) {
  std::set<std::string> found;
  for (const c10::OperatorHandle& op : Registered()) {
    if (WhyNotAdmitted(op, NamedBy::kPlan).empty() && holds(op.schema())) found.insert(NameOf(op));
  }
  return found;
}

bool Takes(const c10::FunctionSchema& schema, const std::function<bool(const c10::Argument&)>& holds) {
  return std::ranges::any_of(schema.arguments(), holds);
}

TEST(AdmittedOperators, AreOfNamespacesThatAreKnown) {
  std::set<std::string> foreign;
  for (const c10::OperatorHandle& op : Registered()) {
    if (proto::OperatorSpaceOf(op.schema().name()) == proto::OperatorSpace::kForeign) foreign.insert(NameOf(op));
  }
  EXPECT_THAT(foreign, IsEmpty());  // A namespace of a later PyTorch has to be put somewhere (proto/operator_space.h).
}

TEST(AdmittedOperators, TakeNothingThatReachesOutside) {
  EXPECT_THAT(AdmittedWhere([](const auto& schema) {
                return Takes(schema, [](const c10::Argument& argument) {
                  const std::string type = argument.real_type()->str();
                  return type == "Generator" || type.find("Storage") != type.npos || type.find("Stream") != type.npos ||
                         type.find("__torch__") != type.npos || type.find("Dict") != type.npos;
                });
              }),
              IsEmpty());
  EXPECT_THAT(AdmittedWhere([](const auto& schema) {
                return Takes(schema, [](const c10::Argument& argument) {
                  const bool is_text = argument.real_type()->str().find("str") != std::string::npos;
                  return is_text && (argument.name().find("file") != std::string::npos ||
                                     argument.name().find("path") != std::string::npos || argument.name() == "name");
                });
              }),
              IsEmpty());
}

// Which arguments are texts at all, of everything that is admitted.
TEST(AdmittedOperators, TakeTextsOfTheseNames) {
  std::set<std::string> names;
  AdmittedWhere([&names](const auto& schema) {
    for (const c10::Argument& argument : schema.arguments()) {
      if (argument.real_type()->str().find("str") != std::string::npos) names.insert(argument.name());
    }
    return true;
  });
  for (const std::string& name : names) {
    EXPECT_THAT((std::set<std::string>{"approximate", "rounding_mode", "reduce",   "norm",       "ord",
                                       "p",           "interpolation", "driver",   "mode",       "pad_mode",
                                       "padding",     "padding_side",  "side",     "indexing",   "UPLO",
                                       "reduce_op",   "group_name",    "equation", "assert_msg", "api_name"}),
                ::testing::Contains(name));
  }
  EXPECT_TRUE(names.contains("approximate"));
}

TEST(AdmittedOperators, AreThoseOfTheCompiler) {
  struct {
    void Add(std::string_view op) { names.emplace_back(op); }
    std::vector<std::string> names;
  } table;
#include "compiler/ops/ops.def"
  size_t known = 0;
  for (std::string name : table.names) {
    if (!name.starts_with("aten.") && !name.starts_with("_c10d_functional.")) continue;
    name.replace(name.find('.'), 1, "::");
    const std::string why = Why(name);
    if (why == "is not registered") continue;  // Of another version of PyTorch.
    if (name.starts_with("aten::cudnn_")) continue;  // Of GPUs alone.
    EXPECT_EQ(why, "") << name;
    ++known;
  }
  EXPECT_GT(known, 400u);
}

TEST(AdmittedOperators, AreDecidedByTheirSchemas) {
  const std::map<std::string, std::string> refused = {
      {"aten::from_file", "takes text ('filename')"},
      {"aten::from_file.out", "takes text ('filename')"},
      {"aten::_print", "takes text ('s')"},
      {"aten::set_", "changes the sizes or the memory"},
      {"aten::set_.source_Storage", "takes a Storage ('source')"},
      {"aten::set.source_Storage", "takes a Storage ('source')"},
      {"aten::set_.source_Tensor_storage_offset", "changes the sizes or the memory"},
      {"aten::set_data", "gives nothing back"},
      {"aten::resize_", "changes the sizes or the memory"},
      {"aten::resize_as_", "changes the sizes or the memory"},
      {"aten::as_strided_", "changes the sizes or the memory"},
      {"aten::_resize_output_", "has no kernel for dense tensors"},
      {"aten::record_stream", "takes a Stream ('s')"},
      {"aten::_cummax_helper", "gives nothing back"},
      {"aten::_reshape_alias", "checks no bounds"},
      {"aten::_cufft_clear_plan_cache", "neither takes a tensor nor makes one"},
      {"aten::_nnpack_available", "neither takes a tensor nor makes one"},
      {"aten::_sparse_coo_tensor_with_dims_and_tensors", "has no kernel for dense tensors"},
      {"aten::qscheme", "makes a QScheme"},
      {"aten::_test_string_default", "takes text ('a')"},
      {"quantized::linear", "takes a __torch__"},
      {"inductor::_reinterpret_tensor", "inner workings"},
      {"inductor::resize_storage_bytes_", "inner workings"},
      {"profiler::_record_function_exit", "inner workings"},
      {"ingot_client::own_rows", "inner workings"},
  };
  for (const auto& [name, why] : refused) {
    const std::string said = Why(name);
    if (said == "is not registered") continue;
    EXPECT_THAT(said, HasSubstr(why)) << name;
  }
  for (const char* const name : {"aten::add.Tensor",
                                 "aten::add_.Tensor",
                                 "aten::mm.out",
                                 "aten::copy_",
                                 "aten::index_put_",
                                 "aten::as_strided",
                                 "aten::rand",
                                 "aten::bernoulli",
                                 "aten::dropout",
                                 "aten::gelu",
                                 "aten::pad",
                                 "aten::einsum",
                                 "aten::stft.center",
                                 "aten::_linalg_check_errors",
                                 "aten::_assert_async.msg",
                                 "aten::empty.memory_format",
                                 "aten::_foreach_add_.List",
                                 "aten::detach_",
                                 "aten::scaled_dot_product_attention",
                                 "aten::_assert_scalar",
                                 "aten::to.device"}) {
    EXPECT_EQ(Why(name), "") << name;
    const bool in_archive = Why(name, NamedBy::kArchive).empty();
    EXPECT_EQ(in_archive, !std::string_view(name).starts_with("aten::_foreach_")) << name;
  }
}

// A tensor stays where it is: what is written is elements, of aten's operators alone.
TEST(AdmittedOperators, WriteElementsAlone) {
  for (const std::string& name : AdmittedWhere([](const auto& schema) {
         return Takes(schema, [](const c10::Argument& argument) { return IsWritten(argument.alias_info()); });
       })) {
    EXPECT_TRUE(name.starts_with("aten::") || name.starts_with("_c10d_functional::")) << name;
    for (const char* const part : {"::resize", "::set", "_resize_", "as_strided_.", "shallow", "storage"}) {
      EXPECT_TRUE(name.find(part) == name.npos || name.find("out") != name.npos) << name;
    }
  }
}

TEST(AdmittedOperators, OfAnArchiveAreAtensAndPrims) {
  for (const c10::OperatorHandle& op : Registered()) {
    const std::string name = NameOf(op);
    if (name.starts_with("aten::") || name.starts_with("prims::")) continue;
    EXPECT_NE(WhyNotAdmitted(op, NamedBy::kArchive), "") << name;
  }
}

TEST(AdmittedOperators, AreRefusedInWords) {
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::from_file", "");
  const Status refused = CheckAdmitted(op, NamedBy::kPlan);
  EXPECT_EQ(refused.error().code(), Code::kUnsupported);
  EXPECT_EQ(refused.error().message(),
            "operator aten::from_file takes text ('filename') that may be anything: a file or a recording may not name "
            "it, and it is not run; call it outside of what is compiled");
  EXPECT_TRUE(CheckAdmitted("a_library::op"));
  EXPECT_THAT(CheckAdmitted("c10d::barrier").error().message(), HasSubstr("operator c10d::barrier belongs to"));
}

TEST(AdmittedOperators, TakeWordsThatAreKnown) {
  for (const auto& [argument, text] : std::map<std::string, std::string>{{"approximate", "tanh"},
                                                                         {"mode", "reflect"},
                                                                         {"equation", "bij,bjk->...ik"},
                                                                         {"assert_msg", "any / text"}}) {
    EXPECT_TRUE(IsKnownText(argument, text)) << argument;
  }
  for (const auto& [argument, text] : std::map<std::string, std::string>{{"approximate", "tan"},
                                                                         {"mode", "constant reflect"},
                                                                         {"reduce", ""},
                                                                         {"equation", "ij/ik"},
                                                                         {"filename", "none"},
                                                                         {"side", " "}}) {
    EXPECT_FALSE(IsKnownText(argument, text)) << argument;
  }
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::gelu", "");
  EXPECT_TRUE(CheckGiven(op, 1, c10::IValue("none")));
  EXPECT_THAT(CheckGiven(op, 1, c10::IValue("nothing")).error().message(),
              HasSubstr("'approximate' may not be 'nothing'"));
  const auto segments = c10::Dispatcher::singleton().findSchemaOrThrow("aten::segment_reduce", "");
  const auto unsafe = static_cast<size_t>(*segments.schema().argumentIndexWithName("unsafe"));
  EXPECT_TRUE(CheckGiven(segments, unsafe, c10::IValue(false)));
  EXPECT_THAT(CheckGiven(segments, unsafe, c10::IValue(true)).error().message(), HasSubstr("'unsafe' may not be true"));
}

}  // namespace
}  // namespace ingot::client
