# The functions every CMakeLists.txt of this project is written with.

find_package(Threads REQUIRED)
find_package(fmt REQUIRED)

# -ffp-contract=off: the order and the rounding of every sum is part of the result (docs/numerics.md);
# the compiler may not fuse what the source does not fuse.
# -Wno-missing-field-initializers: designated initialisers name what differs from the default.
add_library(fathom_options INTERFACE)
target_compile_options(fathom_options INTERFACE
  -Wall -Wextra -Wshadow -Wconversion -Wno-missing-field-initializers -Werror -ffp-contract=off)
target_include_directories(fathom_options INTERFACE ${CMAKE_SOURCE_DIR}/src)

# fathom_library(NAME SOURCES a.cc ... LINKS folder ... [LIBRARIES third_party ...])
# One folder of src/ is one target. LINKS names the folders it may include: tools/check_layers.py
# compares the #includes with it. LIBRARIES are third-party and stay private to the folder.
function(fathom_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINKS;LIBRARIES" ${ARGN})
  add_library(fathom_${name} STATIC ${ARG_SOURCES})
  list(TRANSFORM ARG_LINKS PREPEND fathom_)
  target_link_libraries(fathom_${name} PUBLIC ${ARG_LINKS} PRIVATE fathom_options ${ARG_LIBRARIES})
  target_include_directories(fathom_${name} PUBLIC ${CMAKE_SOURCE_DIR}/src)
endfunction()

# fathom_test(FOLDER SOURCES a_test.cc ... LINKS folder ... [LIBRARIES third_party ...])
# All tests of one folder are one program, FOLDER_test; each TEST is one ctest entry.
function(fathom_test name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINKS;LIBRARIES" ${ARGN})
  add_executable(${name}_test ${ARG_SOURCES})
  list(TRANSFORM ARG_LINKS PREPEND fathom_)
  target_link_libraries(${name}_test PRIVATE
    fathom_testing ${ARG_LINKS} fathom_options ${ARG_LIBRARIES} GTest::gmock GTest::gtest_main)
  target_include_directories(${name}_test PRIVATE ${CMAKE_SOURCE_DIR})
  target_compile_options(${name}_test PRIVATE -O1)  # tests are compiled more often than they run
  gtest_discover_tests(${name}_test DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 600 LABELS ${name})
endfunction()

# fathom_fuzz(NAME SOURCES a.cc LINKS folder ... [LIBRARIES third_party ...]): a libFuzzer program.
function(fathom_fuzz name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINKS;LIBRARIES" ${ARGN})
  add_executable(${name}_fuzz ${ARG_SOURCES})
  list(TRANSFORM ARG_LINKS PREPEND fathom_)
  target_compile_options(${name}_fuzz PRIVATE -fsanitize=fuzzer)
  target_link_options(${name}_fuzz PRIVATE -fsanitize=fuzzer)
  target_link_libraries(${name}_fuzz PRIVATE ${ARG_LINKS} fathom_options ${ARG_LIBRARIES})
endfunction()

# fathom_embed(FOLDER FUNCTION file): the bytes of a file as `std::string_view FUNCTION()` of
# FOLDER/embedded_files.h, in the library of that folder. Follows changes of the file.
function(fathom_embed name function file)
  set(script ${CMAKE_SOURCE_DIR}/cmake/embed_file.cmake)
  set(output ${CMAKE_CURRENT_BINARY_DIR}/embedded_${function}.cc)
  cmake_path(ABSOLUTE_PATH file)
  add_custom_command(OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -DFUNCTION=${function} -DHEADER=${name}/embedded_files.h
      -DFILE=${file} -DOUTPUT=${output} -P ${script}
    DEPENDS ${file} ${script} VERBATIM)
  target_sources(fathom_${name} PRIVATE ${output})
endfunction()
