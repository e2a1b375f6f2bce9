# What `cmake --install` gives to C++ programs: headers, libingot, programs, find_package(ingot).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# Headers include each other from the root of the sources; installed, that root is <ingot/...>.
set(package ${PROJECT_BINARY_DIR}/package)
foreach(header base/error.h base/result.h client/api/client.h)
  file(READ ${PROJECT_SOURCE_DIR}/${header} text)
  string(REPLACE "#include \"base/" "#include \"ingot/base/" text "${text}")
  string(REPLACE "client/api/" "" installed ${header})
  file(CONFIGURE OUTPUT ${package}/include/ingot/${installed} CONTENT "${text}" @ONLY)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${header})
endforeach()

configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/ingotConfig.cmake.in ${package}/ingotConfig.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/ingot
  PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file(${package}/ingotConfigVersion.cmake COMPATIBILITY SameMinorVersion)

install(DIRECTORY ${package}/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT cpp)
install(TARGETS ingot_shared LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT cpp)
install(FILES ${package}/ingotConfig.cmake ${package}/ingotConfigVersion.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/ingot COMPONENT cpp)
