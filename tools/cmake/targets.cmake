# How every folder declares what it builds: warnings, include root and tests are the same everywhere.

set(INGOT_WARNINGS -Wall -Wextra -Werror -Wno-missing-field-initializers)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  # -Wrestrict is wrong about std::string in GCC 12 (PR 105329). -Wsubobject-linkage takes the sources
  # of a bundle for headers. -Wmismatched-new-delete does not see that coroutines take their frames from Asio.
  list(APPEND INGOT_WARNINGS -Wno-restrict $<$<COMPILE_LANGUAGE:CXX>:-Wno-subobject-linkage>
       $<$<COMPILE_LANGUAGE:CXX>:-Wno-mismatched-new-delete>)
else()
  # The headers of GCC 12 call what they deprecate. base/mutex.h has what tells Clang which lock guards what.
  list(APPEND INGOT_WARNINGS -Wno-deprecated-declarations -Wthread-safety)
endif()

# Most of a compile is headers (PyTorch's, LLVM's, Asio's, GoogleTest's), so that sources of a target are compiled
# together in bundles; names in their unnamed namespaces then differ. CMake's own unity builds name
# sources by absolute paths, which no other clone finds in ccache; bundles name them from the root.
set(INGOT_BUNDLE_SOURCES 10 CACHE STRING "Sources compiled together at most; 1: each alone")

# ingot_bundles(variable name a.cpp ...): the sources of target `name` in bundles, evenly filled.
function(ingot_bundles variable name)
  list(LENGTH ARGN count)
  if(count EQUAL 0 OR INGOT_BUNDLE_SOURCES EQUAL 1)
    set(${variable} ${ARGN} PARENT_SCOPE)
    return()
  endif()
  math(EXPR bundles "(${count} + ${INGOT_BUNDLE_SOURCES} - 1) / ${INGOT_BUNDLE_SOURCES}")
  set(files)
  foreach(bundle RANGE 1 ${bundles})
    math(EXPR first "(${bundle} - 1) * ${count} / ${bundles}")
    math(EXPR length "${bundle} * ${count} / ${bundles} - ${first}")
    list(SUBLIST ARGN ${first} ${length} sources)
    set(text)
    foreach(source IN LISTS sources)
      cmake_path(ABSOLUTE_PATH source NORMALIZE)
      cmake_path(RELATIVE_PATH source BASE_DIRECTORY ${PROJECT_SOURCE_DIR})
      string(APPEND text "#include \"${source}\"\n")
    endforeach()
    set(file ${PROJECT_BINARY_DIR}/bundles/${name}_${bundle}.cpp)
    file(CONFIGURE OUTPUT ${file} CONTENT "${text}" @ONLY)
    list(APPEND files ${file})
  endforeach()
  set(${variable} ${files} PARENT_SCOPE)
endfunction()

# ingot_library(name SOURCES a.cpp ... BUNDLED b.cpp ... LINK dep ...): one static library of sources that
# are compiled alone and in bundles.
function(ingot_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;BUNDLED;LINK" ${ARGN})
  ingot_bundles(bundles ${name} ${arg_BUNDLED})
  add_library(${name} STATIC ${arg_SOURCES} ${bundles})
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR})
  target_compile_options(${name} PRIVATE ${INGOT_WARNINGS})
  target_link_libraries(${name} PUBLIC ${arg_LINK})
endfunction()

# ingot_program(name SOURCES a.cpp ... BUNDLED b.cpp ... LINK dep ...)
function(ingot_program name)
  cmake_parse_arguments(arg "" "" "SOURCES;BUNDLED;LINK" ${ARGN})
  ingot_bundles(bundles ${name} ${arg_BUNDLED})
  add_executable(${name} ${arg_SOURCES} ${bundles})
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

# ingot_test(name SOURCES a_test.cpp ... LINK dep ...): one test program, whose sources are compiled in bundles. They are
# not optimized: half of a compile of tests was that. What they test is as the build says.
function(ingot_test name)
  if(NOT INGOT_TESTS)
    return()
  endif()
  cmake_parse_arguments(arg "" "" "SOURCES;LINK" ${ARGN})
  ingot_program(${name} BUNDLED ${arg_SOURCES} LINK ${arg_LINK} GTest::gmock GTest::gtest_main)
  target_compile_options(${name} PRIVATE -O0)
  math(EXPR last "${INGOT_TEST_SHARDS} - 1")
  foreach(shard RANGE ${last})
    add_test(NAME ${name}.${shard} COMMAND ${name})
    set_tests_properties(${name}.${shard} PROPERTIES
      TIMEOUT 300 ENVIRONMENT "${INGOT_TEST_ENVIRONMENT};GTEST_SHARD_INDEX=${shard}")
  endforeach()
endfunction()
