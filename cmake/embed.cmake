cmake_minimum_required(VERSION 3.20)
# Write INPUT as a C byte array named SYMBOL to OUTPUT. Text is terminated by a NUL that SYMBOL_size does not count;
# OpenCL C has its #include "..." lines resolved from INCLUDES ("|"-separated folders), once each.
set(seen "")
if(INPUT MATCHES "\\.cl$")
  # file(READ) keeps semicolons and brackets; the includes are replaced until none is left.
  file(READ "${INPUT}" text)
  foreach(round RANGE 8)
    string(REGEX MATCH "#include \"([^\"\n]+)\"" line "${text}")
    if(NOT line)
      break()
    endif()
    set(name "${CMAKE_MATCH_1}")
    set(body "")
    if(NOT name IN_LIST seen)
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
file(READ "${INPUT}" hex HEX)
string(LENGTH "${hex}" digits)
math(EXPR size "${digits} / 2")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
string(REGEX REPLACE "(0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,)" "\\1\n" bytes "${bytes}")
file(WRITE "${OUTPUT}" "/* Generated from a kernel by cmake/embed.cmake. */
#include <stddef.h>
extern const unsigned char ${SYMBOL}[];
extern const size_t ${SYMBOL}_size;
_Alignas(16) const unsigned char ${SYMBOL}[] = {
${bytes}0x00};
const size_t ${SYMBOL}_size = ${size};
")
