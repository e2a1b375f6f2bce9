# The client of the wire, without torch: the daemon's tests and the CLI include this file where
# the rest of the client is not built.
include_guard(GLOBAL)
ingot_library(ingot_connection
  BUNDLED ${CMAKE_CURRENT_LIST_DIR}/connect/channel.cpp ${CMAKE_CURRENT_LIST_DIR}/connect/connection.cpp
          ${CMAKE_CURRENT_LIST_DIR}/connect/start_daemon.cpp
  LINK ingot_base ingot_proto fmt::fmt Threads::Threads ${CMAKE_DL_LIBS})
