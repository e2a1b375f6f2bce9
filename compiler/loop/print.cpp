// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "compiler/loop/ops.h"
#include "compiler/loop/text.h"

namespace ingot::compiler::loop {
namespace {

/// Writes values in the order of the blocks, so that two kernels that differ only in where their
/// instructions lie in `insts` have one text.
class Printer {
 public:
  explicit Printer(const Kernel& kernel) : kernel_(kernel), number_(kernel.insts.size(), kNone) {}

  std::string Run(std::string_view name) {
    fmt::format_to(Out(), "kernel {} symbols {} {{\n", name, kernel_.symbol_count);
    for (size_t i = 0; i < kernel_.params.size(); ++i) {
      const Param& p = kernel_.params[i];
      constexpr std::string_view kModes[] = {"in", "out", "inout"};
      fmt::format_to(Out(), "  param p{}: {} {}[{}]\n", i, kModes[static_cast<uint8_t>(p.mode)],
                     guards::NameOf(p.dtype), p.elements.ToText());
    }
    for (size_t i = 0; i < kernel_.row_buffers.size(); ++i) {
      const RowBuffer& b = kernel_.row_buffers[i];
      fmt::format_to(Out(), "  buffer b{}: {}[{}]\n", i, guards::NameOf(b.dtype), b.extent.ToText());
    }
    text_ += "  rows [";
    for (size_t i = 0; i < kernel_.rows.size(); ++i) {
      if (i > 0) text_ += ", ";
      text_ += kernel_.rows[i].ToText();
    }
    text_ += "]\n";
    for (const Block& block : kernel_.blocks) PrintBlock(block);
    text_ += "}\n";
    return std::move(text_);
  }

 private:
  std::back_insert_iterator<std::string> Out() { return std::back_inserter(text_); }

  void PrintBlock(const Block& block) {
    has_many_k_ = block.depths.size() > 1;
    if (block.is_contraction()) {
      fmt::format_to(Out(), "  contract [{}", block.extent.ToText());
      for (const Dim& depth : block.depths) fmt::format_to(Out(), ", {}", depth.ToText());
      fmt::format_to(Out(), "] into b{}", block.into);
    } else if (block.is_loop) {
      fmt::format_to(Out(), "  loop [{}]", block.extent.ToText());
    } else {
      text_ += "  row";
    }
    if (block.has_active_range()) PrintActiveRange(block.active_range);
    text_ += " {\n";
    for (Id id : block.insts) {
      if (id < number_.size()) number_[id] = next_;
      ++next_;
      if (id < kernel_.insts.size()) PrintInst(kernel_.insts[id]);
    }
    text_ += "  }\n";
  }

  void PrintActiveRange(const ActiveRange& active_range) {
    text_ += active_range.of_depth ? " over k [" : " over j [";
    if (active_range.first == kNone) {
      text_ += '0';
    } else {
      Value(active_range.first);
    }
    text_ += ", ";
    Value(active_range.end);
    text_ += ')';
  }

  void Value(Id id) { fmt::format_to(Out(), "%{}", id < number_.size() ? number_[id] : kNone); }

  void PrintInst(const Inst& inst) {
    const OpTraits& traits = TraitsOf(inst.op);
    text_ += "    ";
    if (inst.op != ScalarOp::kStore) fmt::format_to(Out(), "%{} = ", next_ - 1);
    text_ += traits.name;
    switch (traits.cls) {
      case OpClass::kConst:
        if (guards::IsFloat(inst.dtype)) {
          fmt::format_to(Out(), " {}", inst.imm_f);
        } else {
          fmt::format_to(Out(), " {}", inst.imm_i);
        }
        break;
      case OpClass::kSize: fmt::format_to(Out(), " ({})", inst.size.ToText()); break;
      case OpClass::kIndex: PrintIndex(inst.index); break;
      case OpClass::kLoad:
      case OpClass::kStore: PrintAccess(inst); break;
      default: PrintArgs(inst); break;
    }
    if (inst.check != IndexCheck::kNone) {
      const std::string_view name = inst.check == IndexCheck::kWrap ? "check" : "within";
      fmt::format_to(Out(), " {} ({})", name, inst.check_dim.ToText());
    }
    if (inst.op != ScalarOp::kStore) fmt::format_to(Out(), " : {}", guards::NameOf(inst.dtype));
    text_ += '\n';
  }

  void PrintArgs(const Inst& inst) {
    for (size_t i = 0; i < inst.args.size(); ++i) {
      text_ += i == 0 ? " " : ", ";
      Value(inst.args[i]);
    }
  }

  void PrintAccess(const Inst& inst) {
    const size_t params = kernel_.params.size();
    if (inst.buffer < params) {
      fmt::format_to(Out(), " p{}", inst.buffer);
    } else {
      fmt::format_to(Out(), " b{}", inst.buffer - params);
    }
    PrintIndex(inst.index);
    if (inst.op == ScalarOp::kStore) {
      text_ += " =";
      PrintArgs(inst);
    }
    if (inst.predicate != kNone) {
      text_ += " if ";
      Value(inst.predicate);
    }
  }

  void Coef(const Dim& coef) {
    if (coef.is_const() && coef.const_value() >= 0) {
      fmt::format_to(Out(), "{}", coef.const_value());
    } else {
      fmt::format_to(Out(), "({})", coef.ToText());
    }
  }

  void PrintIndex(const Index& index) {
    text_ += " [";
    bool first = true;
    const auto begin_term = [&](const Dim& coef) {
      if (!first) text_ += " + ";
      first = false;
      if (coef.is_one()) return;
      Coef(coef);
      text_ += '*';
    };
    for (size_t k = 0; k < index.coefs.size(); ++k) {
      if (index.coefs[k].is_zero()) continue;
      begin_term(index.coefs[k]);
      if (k < kernel_.rows.size()) {
        fmt::format_to(Out(), "i{}", k);
      } else {
        text_ += k == kernel_.rows.size() ? 'j' : 'k';
        if (has_many_k_ && k > kernel_.rows.size()) fmt::format_to(Out(), "{}", k - kernel_.rows.size() - 1);
      }
    }
    for (const Index::Gathered& g : index.gathered) {
      begin_term(g.coef);
      Value(g.value);
    }
    if (first || !index.offset.is_zero()) {
      if (!first) text_ += " + ";
      Coef(index.offset);
    }
    text_ += ']';
  }

  const Kernel& kernel_;
  std::vector<Id> number_;
  Id next_ = 0;
  bool has_many_k_ = false;  // Of the block being printed.
  std::string text_;
};

}  // namespace

std::string Print(const Kernel& kernel) { return Printer(kernel).Run(kernel.name); }

Digest KernelDigest(const Kernel& kernel) { return DigestOf(Printer(kernel).Run("_")); }

}  // namespace ingot::compiler::loop
