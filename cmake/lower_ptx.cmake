# Copy PTX from INPUT to OUTPUT with its .version line set to VERSION: an older driver refuses a newer version even where the
# text uses nothing new. The used_bytes_mask pragma (PTX 8.3, which bytes of a vector load are used) is a hint and is dropped.
file(READ "${INPUT}" text)
string(REGEX REPLACE "\n\\.version [0-9.]+" "\n.version ${VERSION}" text "${text}")
string(REGEX REPLACE "\n[ \t]*\\.pragma \"used_bytes_mask[^\n]*" "" text "${text}")
file(WRITE "${OUTPUT}" "${text}")
