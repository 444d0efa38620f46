cmake_minimum_required(VERSION 3.20)
# Write a C file OUTPUT that holds the bytes of INPUT as SYMBOL. They end with a NUL that SYMBOL_size does not count;
# OpenCL C has its #include "..." lines resolved from INCLUDES ("|"-separated folders), once each, but for
# NAME.inc, which is there to be included again.
set(seen "")
if(INPUT MATCHES "\\.cl$")
  # file(READ) keeps semicolons and brackets; the includes are replaced until none is left.
  file(READ "${INPUT}" text)
  foreach(round RANGE 32)
    string(REGEX MATCH "#include \"([^\"\n]+)\"" line "${text}")
    if(NOT line)
      break()
    endif()
    set(name "${CMAKE_MATCH_1}")
    set(body "")
    if(NOT name IN_LIST seen OR name MATCHES "\\.inc$")
      list(APPEND seen "${name}")
      string(REPLACE "|" ";" folders "${INCLUDES}")
      unset(found CACHE)
      find_file(found "${name}" PATHS ${folders} NO_DEFAULT_PATH)
      if(NOT found)
        message(FATAL_ERROR "${INPUT}: cannot find ${name} in ${INCLUDES}")
      endif()
      file(READ "${found}" body)
    endif()
    string(REPLACE "${line}" "${body}" text "${text}")
  endforeach()
  file(WRITE "${OUTPUT}.txt" "${text}")
  set(INPUT "${OUTPUT}.txt")
endif()
file(SIZE "${INPUT}" size)
# The assembler takes the bytes in: a C array of a few MiB takes the compiler many seconds.
file(WRITE "${OUTPUT}" "/* Generated from a kernel by cmake/embed.cmake. */
#include <stddef.h>
extern const size_t ${SYMBOL}_size;
const size_t ${SYMBOL}_size = ${size};
__asm__(\".section .rodata\\n\"
        \".balign 16\\n\"
        \".globl ${SYMBOL}\\n\"
        \".hidden ${SYMBOL}\\n\"
        \"${SYMBOL}:\\n\"
        \".incbin \\\"${INPUT}\\\"\\n\"
        \".byte 0\\n\"
        \".previous\\n\");
")
