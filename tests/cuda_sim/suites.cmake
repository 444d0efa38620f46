# What runs on the stand-in besides the conformance suite: every operator's tests, the cases and the examples, as on a
# card. Included when all of their targets exist. They need libhal's own CUDA kernels, which nvcc makes.
if(NOT TARGET cuda_sim)
  return()
endif()

# hal_sim_test(NAME SETTINGS COMMAND...): SETTINGS are further environment variables, or "".
function(hal_sim_test name settings)
  if(NOT HAL_NVCC)
    add_test(NAME ${name} COMMAND ${CMAKE_COMMAND} -E echo "skipped: nvcc was not found, so libhal has no CUDA kernels")
    set_tests_properties(${name} PROPERTIES SKIP_REGULAR_EXPRESSION "^skipped: ")
    return()
  endif()
  add_test(NAME ${name} COMMAND ${ARGN})
  set(environment HAL_BACKEND=cuda HAL_CUDA_LIBRARY=$<TARGET_FILE:cuda_sim> HAL_CACHE_DIR=${CMAKE_BINARY_DIR}/test-cache
    ${settings})
  set_tests_properties(${name} PROPERTIES ENVIRONMENT "${environment}" LABELS "cuda_sim" TIMEOUT 900)
endfunction()

get_property(targets DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}/operators PROPERTY BUILDSYSTEM_TARGETS)
get_property(scheduler_targets DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}/scheduler PROPERTY BUILDSYSTEM_TARGETS)
list(APPEND targets ${scheduler_targets})
list(FILTER targets INCLUDE REGEX "^test_")
list(REMOVE_ITEM targets test_kernel_abi) # needs no device
foreach(target IN LISTS targets)
  string(REPLACE test_ "" operator ${target})
  hal_sim_test(${operator}.cuda_sim "" ${target})
endforeach()

# The GEMM for asynchronous matrix units, which a device with one unit is given for all but few rows, at every timing; other
# devices have none.
foreach(operator gemm gemm_options)
  hal_sim_test(${operator}.cuda_sim_async "HAL_LIMITS=units=1;HAL_TEST_WITHOUT=test_long*" test_${operator}) # those have few rows
endforeach()
foreach(timing late seed:7)
  string(REGEX REPLACE ":.*" "" variant ${timing})
  set(settings HAL_LIMITS=units=1 HAL_CUDA_SIM_TIMING=${timing})
  hal_sim_test(gemm.cuda_sim_async_${variant} "${settings};HAL_TEST_ONLY=test_s*" test_gemm) # sizes, splits, special values
  hal_sim_test(gemm_options.cuda_sim_async_${variant} "${settings}" test_gemm_options)
endforeach()
foreach(profile a100 b200)
  hal_sim_test(gemm.cuda_sim_${profile} "HAL_CUDA_SIM_PROFILE=${profile};HAL_TEST_ONLY=test_async*" test_gemm)
endforeach()

# The cases take a second, so they also run on the other devices and with asynchronous copies at their worst.
if(TARGET run_cases)
  set(data ${PROJECT_SOURCE_DIR}/tests/data)
  foreach(variant "" _a100 _b200 _late _seed)
    set(settings "")
    if(variant MATCHES "_([ab][12]00)")
      set(settings HAL_CUDA_SIM_PROFILE=${CMAKE_MATCH_1})
    elseif(variant)
      string(REPLACE "_seed" "seed:7" timing ${variant})
      string(REPLACE "_" "" timing ${timing})
      set(settings HAL_CUDA_SIM_TIMING=${timing})
    endif()
    hal_sim_test(cases.cuda_sim${variant} "${settings}" run_cases --backend cuda ${data}/onnx ${data}/recipes ${data}/own)
  endforeach()
  hal_sim_test(cases_refused.cuda_sim "" run_cases --backend cuda ${data}/refused)
  if(HAL_NVCC)
    set_tests_properties(cases_refused.cuda_sim PROPERTIES
      PASS_REGULAR_EXPRESSION "${HAL_CASES_REFUSED}")
  endif()
endif()

foreach(example vector_add gemm replay ffn_graph decoder_layer)
  if(TARGET example_${example})
    hal_sim_test(examples.${example}.cuda_sim "" example_${example})
  endif()
endforeach()

# 256 cubed are 8,192 instructions of m16n8k16, whatever the tiles.
if(TARGET hal-bench)
  hal_sim_test(bench.counters.cuda_sim "" hal-bench gemm --backend cuda --m 256 --n 256 --k 256 --dtype bf16 --quick --counters)
  if(HAL_NVCC)
    set_tests_properties(bench.counters.cuda_sim PROPERTIES PASS_REGULAR_EXPRESSION "gemm_mma[^\n]* 8192 ")
  endif()
  hal_sim_test(bench.counters_async.cuda_sim HAL_LIMITS=units=1
    hal-bench gemm --backend cuda --m 256 --n 256 --k 256 --dtype bf16 --quick --counters)
  if(HAL_NVCC) # 64 of m64n256k16
    set_tests_properties(bench.counters_async.cuda_sim PROPERTIES PASS_REGULAR_EXPRESSION "gemm_async[^\n]* 0 +64 +33554432")
  endif()
endif()
