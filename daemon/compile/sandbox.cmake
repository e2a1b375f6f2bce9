# Shuts processes off: those of workers, those that read foreign models, those that draw.
include_guard(GLOBAL)
ingot_library(ingot_sandbox
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/sandbox.cpp
  LINK ingot_base ingot_proto fmt::fmt)
