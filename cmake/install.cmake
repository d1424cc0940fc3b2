# `cmake --install`: the embedded model, where the binary looks for it (../share/fathom/models/fairy
# beside its bin folder), without the golden outputs that only the tests read.
install(DIRECTORY ${CMAKE_SOURCE_DIR}/models/fairy
  DESTINATION ${CMAKE_INSTALL_DATADIR}/fathom/models
  PATTERN "golden*" EXCLUDE
  PATTERN "greedy.json" EXCLUDE)
install(FILES ${CMAKE_SOURCE_DIR}/LICENSE ${CMAKE_SOURCE_DIR}/README.md
  DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY ${CMAKE_SOURCE_DIR}/docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR})
