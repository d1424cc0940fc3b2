# cmake -DFUNCTION=Name -DHEADER=folder/embedded_files.h -DFILE=file -DOUTPUT=file.cc -P embed_file.cmake
# Writes the source that defines `std::string_view Name()`: the bytes of the file.
file(READ "${FILE}" bytes HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
string(REGEX REPLACE "(0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,)"
  "\\1\n" bytes "${bytes}")
string(REGEX REPLACE "/.*" "" folder "${HEADER}")
file(WRITE "${OUTPUT}" "#include \"${HEADER}\"

namespace fathom::${folder} {
namespace {

constexpr unsigned char kBytes[] = {
${bytes}};

}  // namespace

std::string_view ${FUNCTION}() {
  return {reinterpret_cast<const char*>(kBytes), sizeof(kBytes)};
}

}  // namespace fathom::${folder}
")
