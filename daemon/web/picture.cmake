# Drawing graphs by graphviz: for the page and for the command line.
include_guard(GLOBAL)
include(${PROJECT_SOURCE_DIR}/daemon/compile/sandbox.cmake)
ingot_library(ingot_picture
  BUNDLED ${CMAKE_CURRENT_LIST_DIR}/picture.cpp
  LINK ingot_sandbox ingot_base ingot_proto fmt::fmt)
