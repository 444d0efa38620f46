# Built-in kernels: one row of hal_builtins[] per hal_builtin() call.
#
#   hal_builtin(NAME gemm FILE gemm [ONE_ENTRY] [CUDA_ARCH 90a])
#
# embeds kernels_cl/gemm.cl (with its local includes resolved), kernels_glsl/gemm.comp compiled to SPIR-V with
# -DHAL_KERNEL_gemm, and kernels_cu/gemm.cu compiled to PTX for compute_80. A language whose file or compiler is
# missing leaves its column NULL, with the reason. The PTX of a file holds every kernel of it and is embedded once.
# ONE_ENTRY: the CUDA form is a single entry, NAME, which reads from its arguments what the constants say.
# CUDA_ARCH: the CUDA form is for this architecture alone, instead of for every one from compute_80 on.

find_program(HAL_GLSLANG NAMES glslangValidator glslang DOC "GLSL to SPIR-V compiler for the built-in Vulkan kernels")
find_program(HAL_NVCC NAMES nvcc HINTS ENV CUDA_HOME PATHS /usr/local/cuda/bin DOC "nvcc, for the built-in CUDA kernels")
find_program(HAL_PTXAS NAMES ptxas HINTS ENV CUDA_HOME PATHS /usr/local/cuda/bin DOC "ptxas, for a cubin of the main target")
set(HAL_SPIRV_DIR "" CACHE PATH "Folder of NAME.spv files to use where there is no glslangValidator")
set(HAL_KERNEL_ABI_DIR ${PROJECT_SOURCE_DIR}/scheduler)
set(HAL_GENERATED ${CMAKE_BINARY_DIR}/generated)
file(MAKE_DIRECTORY ${HAL_GENERATED})
set_property(GLOBAL PROPERTY HAL_BUILTIN_ROWS "")
set_property(GLOBAL PROPERTY HAL_BUILTIN_EXTERNS "")

function(hal_embed input symbol depends_text)
  # Defines const unsigned char symbol[] (with a NUL behind it) and const size_t symbol_size.
  add_custom_command(OUTPUT ${HAL_GENERATED}/${symbol}.c
    COMMAND ${CMAKE_COMMAND} -DINPUT=${input} -DSYMBOL=${symbol} -DOUTPUT=${HAL_GENERATED}/${symbol}.c
            "-DINCLUDES=${PROJECT_SOURCE_DIR}/kernels_cl|${HAL_KERNEL_ABI_DIR}" -P ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
    DEPENDS ${input} ${PROJECT_SOURCE_DIR}/cmake/embed.cmake ${depends_text}
    COMMENT "Embedding ${symbol}" VERBATIM)
  target_sources(hal_objects PRIVATE ${HAL_GENERATED}/${symbol}.c)
  set_property(GLOBAL APPEND_STRING PROPERTY HAL_BUILTIN_EXTERNS
    "extern const unsigned char ${symbol}[];\nextern const size_t ${symbol}_size;\n")
endfunction()

# Remembered here and made by hal_builtins_finish() in the root: a custom command only serves targets of its own folder.
function(hal_builtin)
  cmake_parse_arguments(K "ONE_ENTRY" "NAME;FILE;CUDA_ARCH" "" ${ARGN})
  if(K_ONE_ENTRY)
    set(one true)
  else()
    set(one false)
  endif()
  if(K_CUDA_ARCH)
    set_property(GLOBAL PROPERTY HAL_CUDA_ARCH_${K_FILE} ${K_CUDA_ARCH})
  endif()
  set_property(GLOBAL APPEND PROPERTY HAL_BUILTIN_ONE_ENTRY ${one})
  set_property(GLOBAL APPEND PROPERTY HAL_BUILTIN_NAMES ${K_NAME})
  set_property(GLOBAL APPEND PROPERTY HAL_BUILTIN_FILES ${K_FILE})
endfunction()

function(hal_builtin_make)
  cmake_parse_arguments(K "" "NAME;FILE;ONE_ENTRY" "" ${ARGN})
  set(cl NULL)
  set(spirv "NULL, NULL")
  set(ptx NULL)
  set(cubin "NULL, NULL")
  set(absent "\"this build has no CUDA kernels: nvcc was not found when libhal was configured\"")
  if(NOT EXISTS ${PROJECT_SOURCE_DIR}/kernels_cu/${K_FILE}.cu)
    set(absent "\"this kernel has no CUDA form\"")
  endif()

  set(source ${PROJECT_SOURCE_DIR}/kernels_cl/${K_FILE}.cl)
  if(EXISTS ${source})
    set(symbol hal_cl_${K_FILE})
    get_property(done GLOBAL PROPERTY HAL_DONE_${symbol})
    if(NOT done)
      file(GLOB includes ${PROJECT_SOURCE_DIR}/kernels_cl/*.clh ${HAL_KERNEL_ABI_DIR}/kernel_*.h ${HAL_KERNEL_ABI_DIR}/kernel_*.inc)
      hal_embed(${source} ${symbol} "${includes}")
      set_property(GLOBAL PROPERTY HAL_DONE_${symbol} TRUE)
    endif()
    set(cl "(const char *)${symbol}")
  endif()

  set(source ${PROJECT_SOURCE_DIR}/kernels_glsl/${K_FILE}.comp)
  set(symbol hal_spv_${K_NAME})
  if(EXISTS ${source} AND HAL_GLSLANG)
    file(GLOB includes ${PROJECT_SOURCE_DIR}/kernels_glsl/*.glsl ${HAL_KERNEL_ABI_DIR}/kernel_*.h ${HAL_KERNEL_ABI_DIR}/kernel_*.inc)
    add_custom_command(OUTPUT ${HAL_GENERATED}/${K_NAME}.spv
      COMMAND ${HAL_GLSLANG} --target-env vulkan1.2 -V --quiet -DHAL_KERNEL_${K_NAME}
              -I${PROJECT_SOURCE_DIR}/kernels_glsl -I${HAL_KERNEL_ABI_DIR}
              -o ${HAL_GENERATED}/${K_NAME}.spv ${source}
      DEPENDS ${source} ${includes} COMMENT "Compiling ${K_NAME}.spv" VERBATIM)
    hal_embed(${HAL_GENERATED}/${K_NAME}.spv ${symbol} "")
    set(spirv "${symbol}, &${symbol}_size")
  elseif(EXISTS ${source} AND EXISTS "${HAL_SPIRV_DIR}/${K_NAME}.spv")
    hal_embed(${HAL_SPIRV_DIR}/${K_NAME}.spv ${symbol} "")
    set(spirv "${symbol}, &${symbol}_size")
  endif()

  set(source ${PROJECT_SOURCE_DIR}/kernels_cu/${K_FILE}.cu)
  if(NOT EXISTS ${source})
    set(absent "\"this kernel has no CUDA form\"")
  elseif(HAL_NVCC AND NOT HAL_CUDA STREQUAL "OFF")
    set(symbol hal_ptx_${K_FILE})
    get_property(done GLOBAL PROPERTY HAL_DONE_${symbol})
    if(NOT done)
      file(GLOB includes ${PROJECT_SOURCE_DIR}/kernels_cu/*.cuh ${HAL_KERNEL_ABI_DIR}/kernel_*.h ${HAL_KERNEL_ABI_DIR}/kernel_*.inc)
      # The .version line is lowered to 7.0, or to the first with the instructions of sm_90a, so that an older driver than
      # this nvcc can load the PTX; ptxas checks that the lowered text still assembles. Machine code is for the main
      # target, H100 class.
      get_property(arch GLOBAL PROPERTY HAL_CUDA_ARCH_${K_FILE})
      set(compute_arch 80)
      set(version 7.0)
      set(cubin_arch 90)
      if(arch)
        set(compute_arch ${arch})
        set(version 8.0)
        set(cubin_arch ${arch})
      endif()
      add_custom_command(OUTPUT ${HAL_GENERATED}/${K_FILE}.ptx
        COMMAND ${HAL_NVCC} -O3 -std=c++17 -arch=compute_${compute_arch} --ptx -I${PROJECT_SOURCE_DIR}/kernels_cu
                -I${HAL_KERNEL_ABI_DIR} -o ${HAL_GENERATED}/${K_FILE}.raw.ptx ${source}
        COMMAND ${CMAKE_COMMAND} -DINPUT=${HAL_GENERATED}/${K_FILE}.raw.ptx -DOUTPUT=${HAL_GENERATED}/${K_FILE}.ptx
                -DVERSION=${version} -P ${PROJECT_SOURCE_DIR}/cmake/lower_ptx.cmake
        DEPENDS ${source} ${includes} ${PROJECT_SOURCE_DIR}/cmake/lower_ptx.cmake
        COMMENT "Compiling ${K_FILE}.ptx" VERBATIM)
      hal_embed(${HAL_GENERATED}/${K_FILE}.ptx ${symbol} "")
      if(HAL_PTXAS)
        # The driver would compile for seconds at the first call.
        add_custom_command(OUTPUT ${HAL_GENERATED}/${K_FILE}.sm_${cubin_arch}.cubin
          COMMAND ${HAL_PTXAS} -arch=sm_${cubin_arch} -O3 -o ${HAL_GENERATED}/${K_FILE}.sm_${cubin_arch}.cubin ${HAL_GENERATED}/${K_FILE}.ptx
          DEPENDS ${HAL_GENERATED}/${K_FILE}.ptx COMMENT "Assembling ${K_FILE}.sm_${cubin_arch}.cubin" VERBATIM)
        hal_embed(${HAL_GENERATED}/${K_FILE}.sm_${cubin_arch}.cubin hal_cubin_${K_FILE} "")
      endif()
      set_property(GLOBAL PROPERTY HAL_DONE_${symbol} TRUE)
    endif()
    set(ptx "(const char *)${symbol}")
    if(HAL_PTXAS)
      set(cubin "hal_cubin_${K_FILE}, &hal_cubin_${K_FILE}_size")
    endif()
    set(absent NULL)
  endif()
  set_property(GLOBAL APPEND_STRING PROPERTY HAL_BUILTIN_ROWS
    "    {\"${K_NAME}\", ${cl}, ${spirv}, ${ptx}, ${cubin}, ${absent}, ${K_ONE_ENTRY}},\n")
endfunction()

function(hal_builtins_finish)
  get_property(names GLOBAL PROPERTY HAL_BUILTIN_NAMES)
  get_property(files GLOBAL PROPERTY HAL_BUILTIN_FILES)
  get_property(one_entries GLOBAL PROPERTY HAL_BUILTIN_ONE_ENTRY)
  foreach(name file one IN ZIP_LISTS names files one_entries)
    hal_builtin_make(NAME ${name} FILE ${file} ONE_ENTRY ${one})
  endforeach()
  get_property(externs GLOBAL PROPERTY HAL_BUILTIN_EXTERNS)
  get_property(rows GLOBAL PROPERTY HAL_BUILTIN_ROWS)
  file(CONFIGURE OUTPUT ${HAL_GENERATED}/builtins.c @ONLY CONTENT
"/* Generated by cmake/kernels.cmake. */
#include \"core.h\"

@externs@
const hal_builtin hal_builtins[] = {
@rows@    {NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, false},
};
const size_t hal_builtin_count = sizeof hal_builtins / sizeof hal_builtins[0] - 1;
")
  target_sources(hal_objects PRIVATE ${HAL_GENERATED}/builtins.c)
  if(NOT HAL_NVCC)
    message(STATUS "nvcc not found: the CUDA backend builds without its kernels")
  endif()
  if(NOT HAL_GLSLANG AND NOT HAL_SPIRV_DIR)
    message(STATUS "glslangValidator not found: the Vulkan backend builds without its kernels (install glslang-tools)")
  endif()
endfunction()
