# Run by every build (cmake -P): the commit of the sources, into a file that is touched only if it
# has changed. Works where there is no git and where the sources are no checkout.
set(FATHOM_COMMIT unknown)
find_program(GIT git)
if(GIT)
  # The checkout must be ours: the sources may be unpacked inside somebody else's.
  execute_process(COMMAND ${GIT} -C ${SOURCE_DIR} rev-parse --show-toplevel
    OUTPUT_VARIABLE top OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed ERROR_QUIET)
  file(REAL_PATH ${SOURCE_DIR} source)
  if(NOT failed AND top STREQUAL source)
    execute_process(COMMAND ${GIT} -C ${SOURCE_DIR} rev-parse --short=12 HEAD
      OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed ERROR_QUIET)
    execute_process(COMMAND ${GIT} -C ${SOURCE_DIR} diff-index --quiet HEAD -- src cmake CMakeLists.txt
      RESULT_VARIABLE changed OUTPUT_QUIET ERROR_QUIET)
    if(NOT failed)
      set(FATHOM_COMMIT ${commit})
      if(changed)
        string(APPEND FATHOM_COMMIT "+")
      endif()
    endif()
  endif()
endif()
configure_file(${CMAKE_CURRENT_LIST_DIR}/build_info.cc.in ${OUTPUT} @ONLY)
