# Mapping and checking an artifact needs no torch; running it does. The integration tests include
# this file where the rest of the client is not built. So do fuzz targets for exported files.
include_guard(GLOBAL)
ingot_library(ingot_artifact
  BUNDLED ${CMAKE_CURRENT_LIST_DIR}/artifact/cpu_features.cpp ${CMAKE_CURRENT_LIST_DIR}/artifact/elf_check.cpp
          ${CMAKE_CURRENT_LIST_DIR}/artifact/loaded_artifact.cpp ${CMAKE_CURRENT_LIST_DIR}/artifact/manifest_check.cpp
          ${CMAKE_CURRENT_LIST_DIR}/artifact/named_code.cpp
  LINK ingot_guards ingot_proto ingot_base ${CMAKE_DL_LIBS})
ingot_library(ingot_exported
  BUNDLED ${CMAKE_CURRENT_LIST_DIR}/exported/call_signature.cpp ${CMAKE_CURRENT_LIST_DIR}/exported/exported_file.cpp
          ${CMAKE_CURRENT_LIST_DIR}/exported/public_file.cpp ${CMAKE_CURRENT_LIST_DIR}/exported/size_rule.cpp
          ${CMAKE_CURRENT_LIST_DIR}/exported/weight_file.cpp
  LINK ingot_guards ingot_base fmt::fmt nlohmann_json::nlohmann_json)
