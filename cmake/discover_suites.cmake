# cmake -DPROGRAM=file -DLABEL=name -DNOT_DEBUG=regex -DNOT_TSAN=regex -DSLOW=regex
#       -DOUTPUT=file.cmake -P discover_suites.cmake
# Writes the ctest entries of a GoogleTest program: one for each suite, so that a suite loads its
# model once. A suite whose parameters have names (a checkpoint, an instruction set) has one entry
# for each of them, so that the longest suites spread over the processors. Each entry has the label
# LABEL, and not_debug, not_tsan and slow where its name matches (fathom_test in fathom.cmake).
execute_process(COMMAND ${PROGRAM} --gtest_list_tests
  OUTPUT_VARIABLE listing COMMAND_ERROR_IS_FATAL ANY)
string(REGEX REPLACE "[][;]" "" listing "${listing}")  # what a list of CMake cannot hold
string(REGEX REPLACE "[ ]*#[^\n]*" "" listing "${listing}")
string(REPLACE "\n" ";" lines "${listing}")

set(entries "")
foreach(line IN LISTS lines)
  if(line MATCHES "^([A-Za-z0-9_/]+)\\.$")
    set(suite ${CMAKE_MATCH_1})
  elseif(line MATCHES "^  [A-Za-z0-9_]+(/[A-Za-z0-9_]*[A-Za-z][A-Za-z0-9_]*)?$")
    list(APPEND entries "${suite}.*${CMAKE_MATCH_1}")
  elseif(line MATCHES "^  [A-Za-z0-9_]+/[0-9]+$")
    list(APPEND entries "${suite}.*")
  endif()
endforeach()
list(REMOVE_DUPLICATES entries)

set(script "")
foreach(filter IN LISTS entries)
  string(REPLACE ".*" "" name "${filter}")
  set(labels ${LABEL})
  foreach(label NOT_DEBUG NOT_TSAN SLOW)
    if(name MATCHES "^(${${label}})$")
      string(TOLOWER ${label} label)
      list(APPEND labels ${label})
    endif()
  endforeach()
  string(APPEND script "add_test([[${LABEL}.${name}]] [[${PROGRAM}]] [[--gtest_filter=${filter}]])\n"
    "set_tests_properties([[${LABEL}.${name}]] PROPERTIES LABELS \"${labels}\" TIMEOUT 1800)\n")
endforeach()
file(WRITE ${OUTPUT} "${script}")
