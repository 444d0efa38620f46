# PTX must assemble for ARCH without a warning, a spill, or a note that wgmma is serialised or setmaxnreg ignored.
execute_process(COMMAND ${PTXAS} -v -O3 -arch=${ARCH} -o ${OUT} ${PTX}
  RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
string(REGEX MATCHALL "[1-9][0-9]* bytes (stack frame|spill [a-z]+)|\\(C75[0-9]+\\)|warning" bad "${output}")
if(bad OR NOT result EQUAL 0 OR NOT output MATCHES "0 bytes spill stores")
  message(FATAL_ERROR "${bad}\n${output}")
endif()
