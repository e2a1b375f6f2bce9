# Every library Ingot uses, found in one place with its minimum version. Folders link the names
# below; which folder may link which is checked by tools/tidy.py.
find_package(Threads REQUIRED)
find_package(fmt 9 REQUIRED)
find_package(spdlog 1.10 REQUIRED)
find_package(FlatBuffers 2.0 REQUIRED)
find_package(GTest REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(xxhash REQUIRED IMPORTED_TARGET libxxhash>=0.8)
pkg_check_modules(libzstd REQUIRED IMPORTED_TARGET libzstd>=1.5)
find_program(FLATC flatc REQUIRED)

# LLVM before RocksDB: both look for zstd, and only LLVM's way makes the target lld links.
if("compiler" IN_LIST INGOT_FOLDERS)
  # LLVM versions are compatible only within a minor release, so the range is tried by hand.
  foreach(version 22.1 21.1 20.1 19.1)
    if(NOT LLVM_FOUND)
      find_package(LLVM ${version} QUIET CONFIG)
    endif()
  endforeach()
  if(NOT LLVM_FOUND)
    message(FATAL_ERROR "Ingot needs LLVM 19 to 22 with lld (Debian: llvm-22-dev liblld-22-dev)")
  endif()
  message(STATUS "LLVM ${LLVM_PACKAGE_VERSION}")
  find_package(LLD ${LLVM_PACKAGE_VERSION} REQUIRED CONFIG HINTS "${LLVM_LIBRARY_DIR}/cmake/lld" "${LLVM_DIR}/../lld")
endif()
if("cache" IN_LIST INGOT_FOLDERS)
  find_package(RocksDB 7.8 REQUIRED)
  # Somebody waits for a daemon to start, and most of that is the loader's, which binds names: it has RocksDB within
  # (INGOT_STARTS_OFTEN). Sanitizers know the shared library by its name.
  add_library(ingot_rocksdb INTERFACE)
  target_link_libraries(ingot_rocksdb INTERFACE RocksDB::rocksdb-shared)
  if(TARGET RocksDB::rocksdb AND NOT INGOT_SANITIZE)
    if(NOT TARGET zstd::zstd)  # RocksDB's own search does not look where LLVM's has found it.
      add_library(zstd::zstd INTERFACE IMPORTED)
      target_link_libraries(zstd::zstd INTERFACE PkgConfig::libzstd)
    endif()
    set_target_properties(ingot_rocksdb PROPERTIES INTERFACE_LINK_LIBRARIES
      "$<IF:$<BOOL:$<TARGET_PROPERTY:INGOT_STARTS_OFTEN>>,RocksDB::rocksdb,RocksDB::rocksdb-shared>")
  endif()
  pkg_check_modules(sodium REQUIRED IMPORTED_TARGET libsodium>=1.0.18)
  # The compiled library: in builds with assertions its headers end the process for texts that are no TOML.
  pkg_check_modules(tomlplusplus REQUIRED IMPORTED_TARGET tomlplusplus>=3.3)
  find_package(CURL 7.85 REQUIRED)
  find_package(OpenSSL 3.0 REQUIRED)
  pkg_check_modules(hiredis REQUIRED IMPORTED_TARGET hiredis>=0.14)
endif()
if("cache" IN_LIST INGOT_FOLDERS OR "daemon" IN_LIST INGOT_FOLDERS OR "client" IN_LIST INGOT_FOLDERS)
  find_package(Boost 1.81 REQUIRED)
endif()
if("daemon" IN_LIST INGOT_FOLDERS)
  pkg_check_modules(jemalloc REQUIRED IMPORTED_TARGET jemalloc>=5.2)
endif()
if("tools" IN_LIST INGOT_FOLDERS OR "daemon" IN_LIST INGOT_FOLDERS)
  find_package(CLI11 2.1 REQUIRED)
  find_package(tomlplusplus 3 REQUIRED)  # Its headers alone: wheels carry no library for it.
endif()
find_package(nlohmann_json 3.11 REQUIRED)
if("client" IN_LIST INGOT_FOLDERS)
  set(Protobuf_USE_STATIC_LIBS ON)
  find_package(Protobuf 3.12 REQUIRED)
  find_package(ZLIB 1.2.12 REQUIRED)
  find_package(Python REQUIRED COMPONENTS Interpreter Development.Module)
  # Ingot is built beside the PyTorch it will run with, by the rules that hold at import. PyTorch's own
  # CMake package wants the whole CUDA toolkit where it was built with CUDA; the CPU's part needs none.
  execute_process(COMMAND ${Python_EXECUTABLE} -c "
import sys
sys.path.append('${PROJECT_SOURCE_DIR}/client/python/ingot')
import compatibility
try:
  compatibility.check_python(compatibility.this_python())
  import torch
  compatibility.check_torch(torch.__version__, torch.__version__)
  print(torch.__version__.split('+')[0], torch.__path__[0], torch.version.cuda is not None, sep=';')
except ImportError as error:
  sys.exit(str(error))"
                  OUTPUT_VARIABLE torch OUTPUT_STRIP_TRAILING_WHITESPACE
                  ERROR_VARIABLE unusable ERROR_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed)
  if(failed)
    message(FATAL_ERROR "${Python_EXECUTABLE}: ${unusable}. Install a PyTorch that fits there, then "
                        "pip install . --no-build-isolation")
  endif()
  list(GET torch 0 Torch_VERSION)
  list(GET torch 1 TORCH_INSTALL_PREFIX)
  list(GET torch 2 TORCH_HAS_CUDA)
  message(STATUS "PyTorch ${Torch_VERSION} in ${TORCH_INSTALL_PREFIX}")
  foreach(name torch_cpu c10 torch_python)
    find_library(${name}_library ${name} PATHS ${TORCH_INSTALL_PREFIX}/lib NO_DEFAULT_PATH REQUIRED)
    add_library(${name} SHARED IMPORTED)
    set_target_properties(${name} PROPERTIES IMPORTED_LOCATION ${${name}_library})
  endforeach()
  set(TORCH_INCLUDE_DIRS ${TORCH_INSTALL_PREFIX}/include ${TORCH_INSTALL_PREFIX}/include/torch/csrc/api/include)
  target_include_directories(c10 SYSTEM INTERFACE ${TORCH_INCLUDE_DIRS})
  target_compile_definitions(torch_cpu INTERFACE USE_DISTRIBUTED USE_C10D_GLOO USE_RPC USE_TENSORPIPE)
  target_link_libraries(torch_cpu INTERFACE c10)
endif()
