# Filled in by the packaging work: install rules, CMake package, pkg-config.
