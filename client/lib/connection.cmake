# The client of the wire, without torch: the daemon's tests and the CLI include this file where
# the rest of the client is not built.
include_guard(GLOBAL)
ingot_library(ingot_connection
  BUNDLED ${CMAKE_CURRENT_LIST_DIR}/channel.cpp ${CMAKE_CURRENT_LIST_DIR}/connection.cpp
          ${CMAKE_CURRENT_LIST_DIR}/start_daemon.cpp
  LINK ingot_base ingot_proto fmt::fmt Threads::Threads ${CMAKE_DL_LIBS})
