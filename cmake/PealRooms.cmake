# A room is one static library, peal_ROOM, with a private include root src/ROOM/include that only its declared dependents see.
# A large room has its sources in folders; "folder/file.hpp" is then found from the room's own folder.
# The floors, from the ground up; layers.toml says the same in words and tools/check_layers.py holds the two together.
set(PEAL_ROOMS
  base
  net vendor topology schedule reduce
  discovery transport bootstrap tuning
  executor sim
  comm training
  parallel
  api nccl_api torch_api mpi_api cli)

set(PEAL_WARNINGS -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Wno-missing-field-initializers)

# peal_options(TARGET): warnings and sanitizers for a target of our own.
# GCC tidies its memory from 128 MiB on unless told otherwise, which is a fifth of the time of a file with many templates.
function(peal_options target)
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:${PEAL_WARNINGS}> $<$<CXX_COMPILER_ID:GNU>:--param=ggc-min-heapsize=1000000>)
  if(PEAL_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${PEAL_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
    target_link_options(${target} PUBLIC -fsanitize=${PEAL_SANITIZE})
  endif()
  if(PEAL_BUILD_FUZZ)
    target_compile_options(${target} PRIVATE -fsanitize=fuzzer-no-link,address,undefined -fno-omit-frame-pointer -fno-sanitize-recover=all)
    target_link_options(${target} PUBLIC -fsanitize=address,undefined)
  endif()
endfunction()

# Outside headers are most of what a file costs to compile, so a release build compiles them once: cmake/room_headers.hpp for the rooms,
# tests/support/headers.hpp for the tests. The other presets go without, which shows a file that lacks an #include.
# A target takes them where its options are those of their owner.
function(peal_shared_headers owner)
  target_precompile_headers(${owner} PRIVATE ${ARGN})
  # ccache recognises such a compilation by this.
  target_compile_options(${owner} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)
endfunction()

function(peal_take_headers target owner)
  target_precompile_headers(${target} REUSE_FROM ${owner})
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)
endfunction()

# What a file costs to compile is mostly what outside templates cost, in every file anew, so files are compiled several at a time: those of one
# folder, or those of a room that name the dearest headers. A group ends where it has this many bytes. What is grouped: all, dear (only files
# that name those headers) or none.
set(PEAL_GROUPS all CACHE STRING "Files that are compiled several at a time: all, dear or none")
if(NOT PEAL_GROUPS MATCHES "^(all|dear|none)$")
  message(FATAL_ERROR "PEAL_GROUPS is '${PEAL_GROUPS}': write all, dear or none")
endif()
set(PEAL_GROUP_BYTES 60000)
# Of files with dear headers, whose templates cost ten seconds whether one file asks for them or twenty do.
set(PEAL_DEAR_GROUP_BYTES 120000)
set(PEAL_DEAR_HEADERS "^#include <(nlohmann/json|CLI/CLI)[.]hpp>")

# peal_group_files(TARGET [APART]): the names in the unnamed namespaces of a folder must differ, and those of the files with dear headers.
# Files whose names match APART are compiled alone.
function(peal_group_files target)
  if(PEAL_GROUPS STREQUAL none)
    return()
  endif()
  set(apart "${ARGN}")
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  # Meant for headers: in the main file of a compilation GCC does not say it.
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
  get_target_property(sources ${target} SOURCES)
  foreach(source IN LISTS sources)
    get_filename_component(name ${source} NAME)
    if(apart AND name MATCHES "${apart}")
      continue()
    endif()
    file(STRINGS ${source} dear REGEX "${PEAL_DEAR_HEADERS}")
    set(most ${PEAL_GROUP_BYTES})
    if(dear)
      set(key dear)
      set(most ${PEAL_DEAR_GROUP_BYTES})
    elseif(PEAL_GROUPS STREQUAL all)
      get_filename_component(key ${source} DIRECTORY)
      get_filename_component(key ${key} NAME)
    else()
      continue()
    endif()
    if(NOT DEFINED number_${key})
      set(number_${key} 1)
      set(bytes_${key} 0)
    endif()
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${key}_${number_${key}})
    file(SIZE ${source} bytes)
    math(EXPR bytes_${key} "${bytes_${key}} + ${bytes}")
    if(bytes_${key} GREATER most)
      math(EXPR number_${key} "${number_${key}} + 1")
      set(bytes_${key} 0)
    endif()
  endforeach()
endfunction()

# peal_room(NAME [OWN_OPTIONS] [GROUPED [APART regex]] [UNHURRIED] [USES room...] [LIBRARIES target...] [PRIVATE_LIBRARIES target...])
# USES: rooms whose words appear in this room; LIBRARIES: outside libraries that its headers name; PRIVATE_LIBRARIES: those only its sources name.
# OWN_OPTIONS: it is compiled with options of its own. GROUPED: its files are compiled a few at a time, but for APART (peal_group_files).
# UNHURRIED: it reads, asks, plans and prints, and is released with less optimisation, which compiles a quarter to a third faster.
function(peal_room name)
  cmake_parse_arguments(ARG "OWN_OPTIONS;GROUPED;UNHURRIED" "APART" "USES;LIBRARIES;PRIVATE_LIBRARIES" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp ${CMAKE_CURRENT_SOURCE_DIR}/*/*.cpp)
  add_library(peal_${name} STATIC ${sources})
  target_include_directories(peal_${name} PUBLIC ${CMAKE_CURRENT_SOURCE_DIR}/include PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  list(TRANSFORM ARG_USES PREPEND peal_)
  target_link_libraries(peal_${name} PUBLIC ${ARG_USES} ${ARG_LIBRARIES} PRIVATE ${ARG_PRIVATE_LIBRARIES})
  peal_options(peal_${name})
  if(NOT ARG_OWN_OPTIONS)
    peal_take_headers(peal_${name} peal_room_headers)
  endif()
  if(ARG_GROUPED)
    peal_group_files(peal_${name} ${ARG_APART})
  endif()
  if(ARG_UNHURRIED)
    target_compile_options(peal_${name} PRIVATE $<$<CONFIG:Release>:-O1>)
  endif()
  # libpeal.so is made of the rooms' objects and needs what they need (cmake/PealInstall.cmake).
  set_property(GLOBAL APPEND PROPERTY PEAL_BUILT_ROOMS ${name})
  set_property(GLOBAL APPEND PROPERTY PEAL_OUTSIDE_LIBRARIES_${name} ${ARG_LIBRARIES} ${ARG_PRIVATE_LIBRARIES})
endfunction()

# What is tested is built as it is released; the tests' own code compiles a third faster with less optimisation. (Without any it would
# compile faster still and run twice as long.)
function(peal_test_options target)
  peal_options(${target})
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
endfunction()

# Of the five places that ./check gives to tests that run at a time a test takes one if it waits, two if it computes and four if it keeps every
# core busy: ranks that give way to one another take three times as long beside somebody who computes.
function(peal_computes test)
  set_property(TEST ${test} PROPERTY PROCESSORS 2)
endfunction()

function(peal_crowded test)
  set_property(TEST ${test} PROPERTY PROCESSORS 4)
endfunction()

# peal_test(NAME [CROWDED] [WAITS] [GROUPED] [ROOMS room...] [LIBRARIES target...] [LABELS label...] [TIMEOUT s])
# One GoogleTest program of every *_test.cpp in the current folder, run as one ctest test. LABELS: quick (unless said) or full.
# CROWDED: it keeps every core busy (peal_crowded). WAITS: it waits for nearly all of its time. Others compute on one core (peal_computes).
# Its cases are written to test-results/NAME.xml, from which tools/count_tests.py counts them.
function(peal_test name)
  cmake_parse_arguments(ARG "CROWDED;WAITS;GROUPED" "TIMEOUT" "ROOMS;LIBRARIES;LABELS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 60)
  endif()
  if(PEAL_SANITIZE)
    math(EXPR ARG_TIMEOUT "${ARG_TIMEOUT} * 5")
  endif()
  if(NOT ARG_LABELS)
    set(ARG_LABELS quick)
  endif()
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*_test.cpp)
  if(NOT sources)
    return()
  endif()
  foreach(room IN LISTS ARG_ROOMS)
    if(NOT TARGET peal_${room})
      message(STATUS "test ${name} is not built: the room ${room} is not")
      return()
    endif()
  endforeach()
  add_executable(test_${name} ${sources})
  list(TRANSFORM ARG_ROOMS PREPEND peal_)
  target_link_libraries(test_${name} PRIVATE ${ARG_ROOMS} ${ARG_LIBRARIES} peal_test_support)
  peal_test_options(test_${name})
  peal_take_headers(test_${name} peal_test_support)
  if(ARG_GROUPED)
    peal_group_files(test_${name})
  endif()
  add_test(NAME ${name} COMMAND test_${name} --gtest_output=xml:${CMAKE_BINARY_DIR}/test-results/${name}.xml)
  # What this host's table would choose is not what the tests expect.
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT} ENVIRONMENT PEAL_TUNING=off)
  if(ARG_CROWDED)
    peal_crowded(${name})
  elseif(NOT ARG_WAITS)
    peal_computes(${name})
  endif()
endfunction()

# peal_fuzz(NAME [ROOMS room...])
# The fuzz target fuzz_NAME of fuzz_NAME.cpp. In the fuzz preset it is a libFuzzer program; elsewhere one program, fuzz_replay, replays the
# corpus of each (corpus/NAME), and each is a test (peal_fuzz_replay).
function(peal_fuzz name)
  cmake_parse_arguments(ARG "" "" "ROOMS" ${ARGN})
  foreach(room IN LISTS ARG_ROOMS)
    if(NOT TARGET peal_${room})
      return()
    endif()
  endforeach()
  list(TRANSFORM ARG_ROOMS PREPEND peal_)
  set_property(GLOBAL APPEND PROPERTY PEAL_FUZZ_TARGETS ${name})
  set_property(GLOBAL APPEND PROPERTY PEAL_FUZZ_ROOMS ${ARG_ROOMS})
  if(PEAL_BUILD_FUZZ)
    add_executable(fuzz_${name} fuzz_${name}.cpp)
    target_link_libraries(fuzz_${name} PRIVATE ${ARG_ROOMS})
    peal_test_options(fuzz_${name})
    target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
  endif()
endfunction()

# peal_fuzz_replay(): after the last peal_fuzz. Targets are small and what they include is not, so they are compiled several at a time,
# each under a name of its own instead of the one that libFuzzer calls; the names in their unnamed namespaces must differ.
function(peal_fuzz_replay)
  if(PEAL_BUILD_FUZZ)
    return()
  endif()
  get_property(targets GLOBAL PROPERTY PEAL_FUZZ_TARGETS)
  get_property(rooms GLOBAL PROPERTY PEAL_FUZZ_ROOMS)
  list(REMOVE_DUPLICATES rooms)
  set(at_a_time 11)
  set(number 0)
  set(count 0)
  set(sources replay.cpp)
  foreach(name IN LISTS targets)
    string(APPEND declared "extern \"C\" int fuzz_${name}(const std::uint8_t*, std::size_t);\n")
    string(APPEND listed "    {\"${name}\", fuzz_${name}},\n")
    string(APPEND text_${number} "#define LLVMFuzzerTestOneInput fuzz_${name}\n#include \"fuzz_${name}.cpp\"\n#undef LLVMFuzzerTestOneInput\n")
    math(EXPR count "${count} + 1")
    math(EXPR number "${count} / ${at_a_time}")
  endforeach()
  foreach(i RANGE ${number})
    if(DEFINED text_${i})
      file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/fuzz_targets_${i}.cpp CONTENT "${text_${i}}" @ONLY)
      list(APPEND sources ${CMAKE_CURRENT_BINARY_DIR}/fuzz_targets_${i}.cpp)
    endif()
  endforeach()
  file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/fuzz_table.cpp @ONLY CONTENT
    "#include \"replay.hpp\"\n\n${declared}\nconst std::vector<Replay>& replays() {\n  static const std::vector<Replay> all = {\n${listed}  };\n  return all;\n}\n")
  add_executable(fuzz_replay ${sources} ${CMAKE_CURRENT_BINARY_DIR}/fuzz_table.cpp)
  target_include_directories(fuzz_replay PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  target_link_libraries(fuzz_replay PRIVATE ${rooms} peal_test_support)
  peal_test_options(fuzz_replay)
  peal_take_headers(fuzz_replay peal_test_support)
  foreach(name IN LISTS targets)
    add_test(NAME fuzz_corpus_${name} COMMAND fuzz_replay ${name} ${CMAKE_CURRENT_SOURCE_DIR}/corpus/${name})
    set_tests_properties(fuzz_corpus_${name} PROPERTIES LABELS quick TIMEOUT 60)
  endforeach()
endfunction()
