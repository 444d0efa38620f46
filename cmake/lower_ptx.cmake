# Copy PTX from INPUT to OUTPUT with its .version line set to VERSION: an older driver refuses a newer version even where the
# text uses nothing new.
file(READ "${INPUT}" text)
string(REGEX REPLACE "\n\\.version [0-9.]+" "\n.version ${VERSION}" text "${text}")
file(WRITE "${OUTPUT}" "${text}")
