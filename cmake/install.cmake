# What `cmake --install` puts where: libhal.so and libhal.a, the headers, the CMake package `hal` (targets hal::hal and
# hal::hal_static), hal.pc and the licence. Everything is relocatable: the tree may be moved after it is installed.
include(CMakePackageConfigHelpers)

set_target_properties(hal_shared PROPERTIES EXPORT_NAME hal)
install(TARGETS hal_shared hal_static EXPORT halTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY hal/include/hal scheduler/include/hal DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN *.h)
install(FILES LICENSE CHANGELOG.md README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR} FILES_MATCHING PATTERN *.md) # README.md points there

set(hal_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/hal)
install(EXPORT halTargets NAMESPACE hal:: DESTINATION ${hal_package_dir})
configure_package_config_file(cmake/halConfig.cmake.in ${CMAKE_BINARY_DIR}/halConfig.cmake
  INSTALL_DESTINATION ${hal_package_dir})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/halConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/halConfig.cmake ${CMAKE_BINARY_DIR}/halConfigVersion.cmake
  DESTINATION ${hal_package_dir})

# hal.pc finds its prefix from its own place, unless the packager gave absolute folders.
if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}" OR IS_ABSOLUTE "${CMAKE_INSTALL_INCLUDEDIR}")
  set(HAL_PC_PREFIX ${CMAKE_INSTALL_PREFIX})
  set(HAL_PC_LIBDIR ${CMAKE_INSTALL_FULL_LIBDIR})
  set(HAL_PC_INCLUDEDIR ${CMAKE_INSTALL_FULL_INCLUDEDIR})
else()
  file(RELATIVE_PATH hal_up "/prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/prefix")
  string(REGEX REPLACE "/$" "" hal_up "${hal_up}")
  set(HAL_PC_PREFIX "\${pcfiledir}/${hal_up}")
  set(HAL_PC_LIBDIR "\${prefix}/${CMAKE_INSTALL_LIBDIR}")
  set(HAL_PC_INCLUDEDIR "\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}")
endif()
configure_file(cmake/hal.pc.in ${CMAKE_BINARY_DIR}/hal.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/hal.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
