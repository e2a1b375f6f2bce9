// SPDX-License-Identifier: Apache-2.0
#include "client/archive/guard_code.h"

#include <gtest/gtest.h>

namespace ingot::client {
namespace {

using guards::Dim;

/// L['x'] is [s0, 4*s1], L['d']['a'][0] is [s1].
std::string Read(const std::string& text) {
  static const auto& sizes = *new std::map<std::string, std::vector<Dim>, std::less<>>{
      {"L['x']", {Dim::Symbol(0), Dim(4) * Dim::Symbol(1)}}, {"L['d']['a'][0]", {Dim::Symbol(1)}}};
  guards::GuardSet conditions;
  const SizeAt size_at = [](std::string_view place, int64_t dim) -> const Dim* {
    const auto found = sizes.find(place);
    return found == sizes.end() || dim >= static_cast<int64_t>(found->second.size())
               ? nullptr
               : &found->second[static_cast<size_t>(dim)];
  };
  const Status added = AddGuardCode(text, size_at, conditions);
  return added ? conditions.ToText() : std::string(CodeName(added.error().code()));
}

TEST(GuardCode, ReadsComparisonsOfSizes) {
  EXPECT_EQ(Read("L['x'].size()[0] > L['d']['a'][0].size()[0]"), "s1 <= s0 - 1");
  EXPECT_EQ(Read("2 * L['x'].size()[0] > 3 + L['x'].size()[1]"), "s0 >= 2*s1 + 2");
  EXPECT_EQ(Read("L['x'].size()[0]*L['d']['a'][0].size()[0] <= 20"), "s0*s1 <= 20");
  EXPECT_EQ(Read("2 <= L['x'].size()[0] <= 9"), "s0 >= 2 and s0 <= 9");
  EXPECT_EQ(Read("-L['x'].size()[0]**2 + max(3, L['d']['a'][0].size()[0], 5) != 1"), "max(max(s1, 3), 5) != s0*s0 + 1");
}

TEST(GuardCode, ReadsComparisonsThatAllHold) {
  EXPECT_EQ(Read("L['x'].size()[0] > 1 and ((L['x'].size()[0] + 1) * 2 <= 9 and (L['x'].size()[0]) != 2)"),
            "s0 >= 2 and s0 <= 3 and s0 != 2");
  EXPECT_EQ(Read("(L['x'].size()[0] > 1) and (L['x'].size()[0] < 9"), "unsupported");
  EXPECT_EQ(Read("(L['x'].size()[0] > 1 or L['x'].size()[0] < 9)"), "unsupported");
}

TEST(GuardCode, ReadsQuotientsAndRemainders) {
  const auto holds = [](const std::string& text, int64_t size) {
    const auto set = guards::GuardSet::Parse(Read(text));
    EXPECT_TRUE(set) << Read(text);
    return set && set->Holds(std::vector<int64_t>{size, 1});
  };
  for (int64_t size = 0; size < 20; ++size) {
    EXPECT_EQ(holds("(L['x'].size()[0] % 3) == 0", size), size % 3 == 0) << size;
    EXPECT_EQ(holds("(L['x'].size()[0] // 4) != 1", size), size / 4 != 1) << size;
    EXPECT_EQ(holds("L['x'].size()[0] == (4*(L['x'].size()[0] // 4))", size), size % 4 == 0) << size;
    EXPECT_EQ(holds("(L['x'].size()[0] + (-1)*((1 + L['x'].size()[0]) // 2)) != 1", size), size / 2 != 1) << size;
  }
}

TEST(GuardCode, RefusesWhatNobodyCanCheck) {
  for (const char* text :
       {"", "1", "L['x'].stride()[0] == 1", "L['y'].size()[0] > 1", "L['x'].size()[2] > 1", "L['x'].size()[0] / 2 > 1",
        "L['x'].size()[0] // L['x'].size()[0] > 1", "L['x'].size()[0] % 0 == 0", "L['x'].size()[0] > 1.5",
        "(L['x'].size()[0] > 1", "L['x'].size()[0] > 1 or L['x'].size()[0] < 9", "not (L['x'].size()[0] > 1)",
        "L['x'].size()[0] > 99999999999999999999", "L['x'].size()[0]**99 > 1", "L["}) {
    EXPECT_EQ(Read(text), "unsupported") << text;
  }
  EXPECT_EQ(Read(std::string(100, '(') + "1" + std::string(100, ')') + " > 0"), "unsupported");
}

TEST(GuardCode, FindsTensorsWhereTheirGuardsDo) {
  const auto places = [](const char* text) { return PlacesOf(nlohmann::ordered_json::parse(text)); };
  using Places = std::map<std::string, size_t>;
  EXPECT_EQ(places(R"({"args": [{"t": "tensor", "i": 0}, {"t": "dict", "k": ["a", 3, "it's"], "c": [
      {"t": "list", "c": [{"t": "int", "v": 1}, {"t": "tensor", "i": 1}]}, {"t": "tensor", "i": 2},
      {"t": "tensor", "i": 3}]}], "names": ["x", "d"], "kwargs": {"k": {"t": "tensor", "i": 4}}})"),
            (Places{{"L['x']", 0},
                    {"L['d']['a'][1]", 1},
                    {"L['d'][3]", 2},
                    {"L['d'][]", 3},
                    {"L['k']", 4},
                    {"L['flat_args'][0]", 0},
                    {"L['flat_args'][2]", 1},
                    {"L['flat_args'][3]", 2},
                    {"L['flat_args'][4]", 3},
                    {"L['flat_args'][5]", 4}}));
  // `*a`, whose first is `a_0`; and a list `a` before a tensor that is called so.
  EXPECT_EQ(places(R"({"args": [{"t": "tensor", "i": 0}], "names": ["a_0"], "kwargs": {}})").at("L['a'][0]"), 0u);
  EXPECT_FALSE(places(R"({"args": [{"t": "list", "c": [{"t": "tensor", "i": 0}]}, {"t": "tensor", "i": 1}],
      "names": ["a", "a_0"], "kwargs": {}})")
                   .contains("L['a'][0]"));
  // An argument that is called as strict exports call all leaves: the second of it is the third of them.
  const auto called = places(R"({"args": [{"t": "tensor", "i": 0}, {"t": "list", "c": [{"t": "tensor", "i": 1},
      {"t": "tensor", "i": 2}]}], "names": ["x", "flat_args"], "kwargs": {}})");
  EXPECT_EQ(called, (Places{{"L['x']", 0}, {"L['flat_args'][2]", 2}}));
  EXPECT_EQ(places(R"({"args": [{"t": "list", "c": [{"t": "tensor", "i": 0}]}], "names": ["flat_args"],
      "kwargs": {}})"),
            (Places{{"L['flat_args'][0]", 0}}));
}

}  // namespace
}  // namespace ingot::client
