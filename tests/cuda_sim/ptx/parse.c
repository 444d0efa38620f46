#include "ptx.h"
