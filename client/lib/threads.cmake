# The threads of calls, and their part of the machine; without torch, so that it is tested where the client is not built.
include_guard(GLOBAL)
ingot_library(ingot_threads
  BUNDLED ${CMAKE_CURRENT_LIST_DIR}/threads/intra_op_pool.cpp ${CMAKE_CURRENT_LIST_DIR}/threads/machine_share.cpp
  LINK ingot_base ingot_proto fmt::fmt Threads::Threads)
ingot_test(threads_test
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/threads/intra_op_pool_test.cpp ${CMAKE_CURRENT_LIST_DIR}/threads/machine_share_test.cpp
  LINK ingot_threads)
