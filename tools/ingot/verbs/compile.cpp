// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "tools/ingot/verb.h"

namespace ingot::tools {

Status RunCompile(const std::vector<std::string>& arguments) {
  std::error_code failed;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", failed);
  const std::string program = (self.parent_path() / "ingot-compile").string();
  std::vector<char*> list{const_cast<char*>(program.c_str())};
  for (const std::string& argument : arguments) list.push_back(const_cast<char*>(argument.c_str()));
  list.push_back(nullptr);
  execv(program.c_str(), list.data());
  return Error(Code::kUnavailable,
               fmt::format("start {}, which is installed beside this program: {}", program, std::strerror(errno)));
}

}  // namespace ingot::tools
