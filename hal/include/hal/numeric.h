/* hal/numeric.h - number formats on the host: FP16, BF16, FP8 E4M3FN.
 *
 * Round to nearest, ties to even. NaN stays NaN. Sources: IEEE 754-2019 section 3 (binary16); "FP8 Formats for Deep
 * Learning" (Micikevicius et al., 2022) section 3 for E4M3: bias 7, no infinities, 0x7f and 0xff are NaN, max 448.
 */
#ifndef HAL_NUMERIC_H
#define HAL_NUMERIC_H

#include <hal/base.h>

#ifdef __cplusplus
extern "C" {
#endif

HAL_API uint16_t hal_f16_from_f32(float value); /* overflow gives infinity: 65520 and above */
HAL_API float hal_f16_to_f32(uint16_t bits);
HAL_API uint16_t hal_bf16_from_f32(float value);
HAL_API float hal_bf16_to_f32(uint16_t bits);
/* saturate: finite overflow and infinities become +-448; otherwise NaN. */
HAL_API uint8_t hal_f8e4m3_from_f32(float value, bool saturate);
HAL_API float hal_f8e4m3_to_f32(uint8_t bits);

/* Convert `count` elements from or to float. HAL_ERROR_INVALID_ARGUMENT for an unknown dtype. */
HAL_API hal_status hal_numeric_encode(hal_dtype dtype, const float *values, uint64_t count, void *elements);
HAL_API hal_status hal_numeric_decode(hal_dtype dtype, const void *elements, uint64_t count, float *values);

#ifdef __cplusplus
}
#endif
#endif
