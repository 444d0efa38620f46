#include "bind.h"
