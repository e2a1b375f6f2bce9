# How every folder declares what it builds: warnings, include root and tests are the same everywhere.
include(GoogleTest)

# -Wrestrict is wrong about std::string in GCC 12 (PR 105329).
set(INGOT_WARNINGS -Wall -Wextra -Werror -Wno-missing-field-initializers -Wno-restrict)

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

# ingot_test(name SOURCES a_test.cpp ... LINK dep ...): one test program, each case known to ctest.
function(ingot_test name)
  if(NOT INGOT_TESTS)
    return()
  endif()
  ingot_program(${name} ${ARGN})
  target_link_libraries(${name} PRIVATE GTest::gmock GTest::gtest_main)
  gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 300)
endfunction()
