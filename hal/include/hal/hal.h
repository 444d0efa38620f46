/* hal/hal.h - libhal's core: devices, memory, streams, programs, command lists. Operators are in hal/ops.h. */
#ifndef HAL_HAL_H
#define HAL_HAL_H
#include <hal/base.h>
#include <hal/buffer.h>
#include <hal/cmdlist.h>
#include <hal/debug.h>
#include <hal/device.h>
#include <hal/module.h>
#include <hal/numeric.h>
#include <hal/stream.h>
#endif
