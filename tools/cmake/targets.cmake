# How every folder declares what it builds: warnings, include root and tests are the same everywhere.

set(INGOT_WARNINGS -Wall -Wextra -Werror -Wno-missing-field-initializers)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  # -Wrestrict is wrong about std::string in GCC 12 (PR 105329).
  list(APPEND INGOT_WARNINGS -Wno-restrict)
else()
  # The headers of GCC 12 call what they deprecate.
  list(APPEND INGOT_WARNINGS -Wno-deprecated-declarations)
endif()

# ingot_library(name SOURCES a.cpp ... LINK dep ...): one static library.
function(ingot_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;LINK" ${ARGN})
  add_library(${name} STATIC ${arg_SOURCES})
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR})
  target_compile_options(${name} PRIVATE ${INGOT_WARNINGS})
  target_link_libraries(${name} PUBLIC ${arg_LINK})
endfunction()

# ingot_program(name SOURCES a.cpp ... LINK dep ...)
function(ingot_program name)
  cmake_parse_arguments(arg "" "" "SOURCES;LINK" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR})
  target_compile_options(${name} PRIVATE ${INGOT_WARNINGS})
  target_link_libraries(${name} PRIVATE ${arg_LINK})
endfunction()

# Each test program runs as this many processes, so that its cases share the cores; a process for
# every case would spend most of its time starting.
set(INGOT_TEST_SHARDS 4)
set(INGOT_TEST_ENVIRONMENT GTEST_BRIEF=1 GTEST_TOTAL_SHARDS=${INGOT_TEST_SHARDS}
  UBSAN_OPTIONS=print_stacktrace=1
  # A forked child of a test opens stores, which start threads.
  TSAN_OPTIONS=die_after_fork=0:suppressions=${PROJECT_SOURCE_DIR}/tools/sanitizers/tsan.supp)

# ingot_test(name SOURCES a_test.cpp ... LINK dep ...): one test program.
function(ingot_test name)
  if(NOT INGOT_TESTS)
    return()
  endif()
  ingot_program(${name} ${ARGN})
  target_link_libraries(${name} PRIVATE GTest::gmock GTest::gtest_main)
  math(EXPR last "${INGOT_TEST_SHARDS} - 1")
  foreach(shard RANGE ${last})
    add_test(NAME ${name}.${shard} COMMAND ${name})
    set_tests_properties(${name}.${shard} PROPERTIES
      TIMEOUT 300 ENVIRONMENT "${INGOT_TEST_ENVIRONMENT};GTEST_SHARD_INDEX=${shard}")
  endforeach()
endfunction()
