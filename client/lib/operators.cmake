# Which operators of PyTorch's may be called for somebody else: who records asks, and who runs plans.
include_guard(GLOBAL)
ingot_library(ingot_operators
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/run/admitted_operator.cpp ${CMAKE_CURRENT_LIST_DIR}/run/believing_operator.cpp
  LINK ingot_base ingot_proto)
target_link_libraries(ingot_operators PUBLIC torch_cpu)
# As in ingot_client.
target_compile_definitions(ingot_operators PRIVATE FMT_HEADER_ONLY)
