# Writes build_id.h: cmake -D FOLDER= -D SOURCES= -D BUILD_ID= -D LLVM= -D VERSION= -D OUTPUT= -P build_id.cmake
# SOURCES: a file with one path a line, below FOLDER. BUILD_ID: empty, or what stands in place of their digest.
if(BUILD_ID STREQUAL "")
  file(STRINGS ${SOURCES} sources)
  set(digests "${LLVM}\n")
  foreach(source IN LISTS sources)
    file(SHA256 ${FOLDER}/${source} digest)
    string(APPEND digests "${source} ${digest}\n")
  endforeach()
  string(SHA256 BUILD_ID "${digests}")
  string(SUBSTRING ${BUILD_ID} 0 12 BUILD_ID)
endif()
set(PROJECT_VERSION ${VERSION})
configure_file(${CMAKE_CURRENT_LIST_DIR}/build_id.h.in ${OUTPUT} @ONLY)
