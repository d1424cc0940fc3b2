# The functions every CMakeLists.txt of this project is written with.

find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json 3.11 REQUIRED)

# -ffp-contract=off: the order and the rounding of every sum is part of the result (docs/numerics.md);
# the compiler may not fuse what the source does not fuse.
# -Wno-missing-field-initializers: designated initialisers name what differs from the default.
# Warnings are errors, but not with sanitizers, whose checks make gcc warn of what cannot happen.
set(warnings_are_errors -Werror)
if(CMAKE_CXX_FLAGS MATCHES -fsanitize)
  set(warnings_are_errors "")
endif()
# Presets compile the files of a folder twelve at a time (CMAKE_UNITY_BUILD), which takes half the
# processor time; gcc then warns of unnamed namespaces as if they were in headers.
set(unity_warnings $<$<BOOL:${CMAKE_UNITY_BUILD}>:-Wno-subobject-linkage>)
add_library(fathom_options INTERFACE)
# gcc would collect its garbage from 128 MiB on: a tenth of its time, for a fifth less memory.
target_compile_options(fathom_options INTERFACE
  -Wall -Wextra -Wshadow -Wconversion -Wno-missing-field-initializers ${unity_warnings}
  ${warnings_are_errors}
  $<$<CXX_COMPILER_ID:GNU>:--param=ggc-min-heapsize=1000000>
  -ffp-contract=off)
target_include_directories(fathom_options INTERFACE ${CMAKE_SOURCE_DIR}/src)

# fathom_precompile(NAME OPTIONS options... HEADERS headers...): the headers, parsed once for all
# targets that are compiled with these options; reading them takes most of the time of a file.
function(fathom_precompile name)
  cmake_parse_arguments(ARG "" "" "OPTIONS;HEADERS;LIBRARIES" ${ARGN})
  set(source ${CMAKE_BINARY_DIR}/${name}.cc)
  file(CONFIGURE OUTPUT ${source} CONTENT "")
  add_library(fathom_${name} OBJECT ${source})
  target_link_libraries(fathom_${name} PRIVATE fathom_options fmt::fmt ${ARG_LIBRARIES})
  target_compile_options(fathom_${name} PRIVATE ${ARG_OPTIONS})
  target_precompile_headers(fathom_${name} PRIVATE ${ARG_HEADERS})
endfunction()

set(standard_headers <algorithm> <filesystem> <functional> <map> <memory> <mutex> <optional> <span>
  <string> <string_view> <thread> <unordered_map> <utility> <vector> <fmt/format.h> <tl/expected.hpp>)

# The optimisation of folders that run once per request, of loops that take most of the time of tests,
# and of the tests: compiling matters more than running, but for the loops. gcc takes a third less time
# with -Og than with -O1, and hardly more than with -O0, whose templates would also take the place of
# optimised ones in the programs. With sanitizers it takes half as long for the tests' own code with -O0.
# Undefined behaviour is looked for in src alone: without it the tests' own code compiles in two thirds of
# the time.
set(cold_options -O1)
set(loop_options "")
set(test_options -Og)
if(CMAKE_CXX_FLAGS MATCHES -fsanitize)
  set(cold_options "")
  set(loop_options -O1)
  set(test_options -O0 -fno-sanitize=undefined)
endif()

fathom_precompile(headers HEADERS ${standard_headers})
if(cold_options)
  fathom_precompile(cold_headers OPTIONS ${cold_options} HEADERS ${standard_headers})
endif()

# fathom_compile_alone(FILES file ... [OPTIONS option ...]): files that are compiled apart from others
# of their folder: generated files, and files with options of their own, with which the precompiled
# headers were not made.
function(fathom_compile_alone)
  cmake_parse_arguments(ARG "" "" "FILES;OPTIONS" ${ARGN})
  set_source_files_properties(${ARG_FILES} PROPERTIES
    LANGUAGE CXX COMPILE_OPTIONS "${ARG_OPTIONS}" SKIP_PRECOMPILE_HEADERS ON
    SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()

# fathom_library(NAME [COLD] LINKS folder ... [LIBRARIES third_party ...] [SOURCES more.cc ...]
#                [EXCLUDE pattern] [PRECOMPILED NO])
# One folder of src/ is one target: all its .cc files, those that match EXCLUDE left out. LINKS names
# the folders it may include: tools/check_layers.py compares the #includes with it. LIBRARIES are
# third-party and stay private to the folder. COLD folders run once per request or per program, not
# per token and byte: -O1 compiles them in half the time of -O3.
function(fathom_library name)
  cmake_parse_arguments(ARG "COLD" "EXCLUDE;PRECOMPILED" "SOURCES;LINKS;LIBRARIES" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS *.cc)
  if(ARG_EXCLUDE)
    list(FILTER sources EXCLUDE REGEX ${ARG_EXCLUDE})
  endif()
  list(TRANSFORM ARG_LINKS PREPEND fathom_)
  if(NOT sources)  # headers only
    add_library(fathom_${name} INTERFACE)
    target_link_libraries(fathom_${name} INTERFACE ${ARG_LINKS})
    return()
  endif()
  add_library(fathom_${name} STATIC ${sources} ${ARG_SOURCES})
  target_link_libraries(fathom_${name} PUBLIC ${ARG_LINKS} PRIVATE fathom_options ${ARG_LIBRARIES})
  target_include_directories(fathom_${name} PUBLIC ${CMAKE_SOURCE_DIR}/src)
  if(ARG_COLD AND cold_options)
    target_compile_options(fathom_${name} PRIVATE ${cold_options})
    target_precompile_headers(fathom_${name} REUSE_FROM fathom_cold_headers)
  elseif(NOT "${ARG_PRECOMPILED}" STREQUAL "NO")
    target_precompile_headers(fathom_${name} REUSE_FROM fathom_headers)
  endif()
endfunction()

# fathom_module_interface(SOURCES a.cc ... HEADERS b.h ...): tells sources of this folder, in the
# program and in a module, the digest of the headers of what passes between the two. All paths are
# relative to the folder (base/module_file.h).
function(fathom_module_interface)
  cmake_parse_arguments(ARG "" "" "SOURCES;HEADERS" ${ARGN})
  set(digests "")
  foreach(header ${ARG_HEADERS} ${CMAKE_SOURCE_DIR}/src/base/result.h)
    cmake_path(ABSOLUTE_PATH header)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${header})
    file(SHA256 ${header} digest)
    string(APPEND digests ${digest})
  endforeach()
  string(SHA256 interface "${digests}")
  set_source_files_properties(${ARG_SOURCES} PROPERTIES
    COMPILE_DEFINITIONS "FATHOM_MODULE_INTERFACE=\"${interface}\"")
endfunction()

# fathom_module(NAME SOURCES a.cc ... LIBRARIES target ...): fathom_NAME.so beside the program, which
# exports only what its sources say. Libraries of this project are compiled for both.
function(fathom_module name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBRARIES" ${ARGN})
  add_library(fathom_${name} MODULE ${ARG_SOURCES})
  foreach(library ${ARG_LIBRARIES})
    if(library MATCHES "^fathom_")
      set_target_properties(${library} PROPERTIES POSITION_INDEPENDENT_CODE ON)
    endif()
  endforeach()
  set_target_properties(fathom_${name} PROPERTIES PREFIX "" CXX_VISIBILITY_PRESET hidden
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
  target_link_libraries(fathom_${name} PRIVATE ${ARG_LIBRARIES} fathom_options fmt::fmt)
  install(TARGETS fathom_${name} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/fathom)
endfunction()

# fathom_test(FOLDER LINKS folder ... [LIBRARIES third_party ...] [SOURCES more.cc ...]
#             [EXCLUDE pattern] [NOT_DEBUG pattern ...] [NOT_TSAN pattern ...] [SLOW pattern ...])
# All tests of one folder are one program, FOLDER_test; its suites are the ctest entries. Suites whose
# whole names match a pattern have a label of its name. The presets debug and tsan leave out not_debug
# and not_tsan, where others run the same code or, with ThreadSanitizer, where no thread is started;
# `./test FOLDER`, which should take less than two minutes, leaves out slow.
function(fathom_test name)
  cmake_parse_arguments(ARG "" "EXCLUDE" "SOURCES;LINKS;LIBRARIES;NOT_DEBUG;NOT_TSAN;SLOW" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS *.cc)
  if(ARG_EXCLUDE)
    list(FILTER sources EXCLUDE REGEX ${ARG_EXCLUDE})
  endif()
  add_executable(${name}_test ${sources} ${ARG_SOURCES})
  list(TRANSFORM ARG_LINKS PREPEND fathom_)
  target_link_libraries(${name}_test PRIVATE
    fathom_testing ${ARG_LINKS} fathom_options ${ARG_LIBRARIES} fmt::fmt GTest::gmock
    GTest::gtest_main)
  target_include_directories(${name}_test PRIVATE ${CMAKE_SOURCE_DIR})
  target_compile_options(${name}_test PRIVATE ${test_options})
  target_precompile_headers(${name}_test REUSE_FROM fathom_test_headers)
  set(labels "")
  foreach(label NOT_DEBUG NOT_TSAN SLOW)
    list(JOIN ARG_${label} "|" pattern)
    list(APPEND labels "-D${label}=${pattern}")
  endforeach()
  set(suites ${CMAKE_CURRENT_BINARY_DIR}/${name}_suites.cmake)
  add_custom_command(TARGET ${name}_test POST_BUILD
    COMMAND ${CMAKE_COMMAND} -DPROGRAM=$<TARGET_FILE:${name}_test> -DLABEL=${name}
      ${labels} -DOUTPUT=${suites} -P ${CMAKE_SOURCE_DIR}/cmake/discover_suites.cmake VERBATIM)
  if(NOT EXISTS ${suites})  # a program that is not built fails if its label is asked for
    file(WRITE ${suites} "add_test(${name}_test ${name}_test_is_not_built)\n"
      "set_tests_properties(${name}_test PROPERTIES LABELS ${name})\n")
  endif()
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${suites})
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

# fathom_embed(FOLDER FUNCTION file ...): the bytes of each file as `std::string_view FUNCTION()` of
# FOLDER/embedded_files.h, in the library of that folder. The assembler includes the files, which takes
# no time, and follows their changes.
function(fathom_embed name)
  set(assembly "")
  set(declarations "")
  set(functions "")
  set(files "")
  while(ARGN)
    list(POP_FRONT ARGN function file)
    cmake_path(ABSOLUTE_PATH file)
    list(APPEND files ${file})
    string(APPEND assembly
      "    \"${name}_${function}: .incbin \\\"${file}\\\"\\n${name}_${function}_end:\\n\"\n")
    string(APPEND declarations "extern const char ${name}_${function}[], ${name}_${function}_end[];\n")
    string(APPEND functions "std::string_view ${function}() {\n"
      "  return {${name}_${function}, ${name}_${function}_end};\n}\n")
  endwhile()
  set(output ${CMAKE_CURRENT_BINARY_DIR}/embedded_files.cc)
  file(CONFIGURE OUTPUT ${output} @ONLY CONTENT
"#include \"@name@/embedded_files.h\"

asm(\".pushsection .rodata\\n\"
@assembly@    \".popsection\");

extern \"C\" {
@declarations@}

namespace fathom::@name@ {

@functions@
}  // namespace fathom::@name@
")
  target_sources(fathom_${name} PRIVATE ${output})
  set_source_files_properties(${output} PROPERTIES OBJECT_DEPENDS "${files}")
  fathom_compile_alone(FILES ${output})
endfunction()
