# What can be set, and who has set it: for the daemon and the command line.
include_guard(GLOBAL)
ingot_library(ingot_config
  BUNDLED ${CMAKE_CURRENT_LIST_DIR}/state/config.cpp
  LINK ingot_base nlohmann_json::nlohmann_json fmt::fmt)
