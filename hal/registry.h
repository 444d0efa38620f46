/* registry.h - the backends this build has, in order of preference. The only place in hal/ that names them. */
#ifndef HAL_REGISTRY_H
#define HAL_REGISTRY_H

#include "backend.h"

typedef struct hal_registry_entry {
    const char *name;
    const hal_backend *backend; /* NULL: left out of this build */
} hal_registry_entry;

#define HAL_REGISTRY_COUNT 3
extern const hal_registry_entry hal_registry[HAL_REGISTRY_COUNT];

#endif
