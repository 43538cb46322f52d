# What `cmake --install` gives: libpeal.so, the public headers, the tool, the data, a CMake package and a pkg-config file.
# libpeal.so holds the objects of every room except the other front ends; only words marked PEAL_API leave it.
include(CMakePackageConfigHelpers)

set(library_rooms "")
set(library_objects "")
set(outside_libraries "")
get_property(built_rooms GLOBAL PROPERTY PEAL_BUILT_ROOMS)
foreach(room IN LISTS built_rooms)
  if(NOT room MATCHES "^(cli|nccl_api|torch_api|mpi_api)$")
    list(APPEND library_objects $<TARGET_OBJECTS:peal_${room}>)
    get_property(needs GLOBAL PROPERTY PEAL_OUTSIDE_LIBRARIES_${room})
    list(APPEND outside_libraries ${needs})
  endif()
endforeach()
list(REMOVE_DUPLICATES outside_libraries)

add_library(peal SHARED ${library_objects})
set_target_properties(peal PROPERTIES LINKER_LANGUAGE CXX VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
target_include_directories(peal INTERFACE $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_compile_features(peal INTERFACE cxx_std_20)
target_link_libraries(peal PRIVATE ${outside_libraries})
target_link_options(peal PRIVATE -Wl,--version-script=${CMAKE_CURRENT_SOURCE_DIR}/cmake/peal.map)
set_property(TARGET peal APPEND PROPERTY LINK_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/cmake/peal.map)
# An undefined word is found here and not by the first program that links against the library. Sanitizers leave theirs open.
if(NOT PEAL_SANITIZE AND NOT PEAL_BUILD_FUZZ)
  target_link_options(peal PRIVATE -Wl,--no-undefined)
endif()
peal_options(peal)

install(TARGETS peal EXPORT peal_targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/peal DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.hpp")
if(TARGET peal_tool)
  install(TARGETS peal_tool RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(DIRECTORY data/ DESTINATION ${CMAKE_INSTALL_DATADIR}/peal PATTERN ".git*" EXCLUDE)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/peal)

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/peal)
install(EXPORT peal_targets NAMESPACE peal:: FILE peal-targets.cmake DESTINATION ${package_folder})
configure_package_config_file(cmake/peal-config.cmake.in ${CMAKE_CURRENT_BINARY_DIR}/peal-config.cmake INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/peal-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/peal-config.cmake ${CMAKE_CURRENT_BINARY_DIR}/peal-config-version.cmake DESTINATION ${package_folder})

# pkg-config finds the prefix from the place of its own file, so the installed tree may be moved.
file(RELATIVE_PATH PEAL_PREFIX_FROM_PC ${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
configure_file(cmake/peal.pc.in ${CMAKE_CURRENT_BINARY_DIR}/peal.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/peal.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
