# Code objects: the device sources (src/kernels/gpu/device), compiled for each architecture. Neither
# needs the other vendor's tools, a driver or a device. nvcc makes one file for all its
# architectures; clang makes one for each of AMD's, without ROCm.

# compute_80 is PTX, which the driver compiles for devices that are not in the list.
set(cuda_architectures sm_80 sm_90a sm_100a sm_120a compute_80)
set(hip_architectures gfx90a gfx942 gfx1030 gfx1100 gfx1101 gfx1150 gfx1151 gfx1200 gfx1201)

find_program(FATHOM_NVCC nvcc HINTS /usr/local/cuda/bin DOC "compiler of the CUDA kernels, 13 or later")
find_program(FATHOM_AMD_CLANG clang++-19 DOC "compiler of the HIP kernels")

# The bits of the CPU: products and sums are not contracted, quotients and roots are rounded
# correctly, subnormal numbers are kept. Objects are not compressed: tools/check_gpu_objects.py reads
# them.
set(nvcc_options ${FATHOM_NVCC} -fatbin -no-compress -std=c++20 -O3
  -fmad=false -prec-div=true -prec-sqrt=true -ftz=false
  --expt-relaxed-constexpr -diag-suppress 554 -Werror all-warnings)
set(nvcc_command ${nvcc_options})
foreach(architecture ${cuda_architectures})
  string(REGEX REPLACE "^(sm|compute)_" "arch=compute_" virtual ${architecture})
  list(APPEND nvcc_command -gencode ${virtual},code=${architecture})
endforeach()
set(clang_command ${FATHOM_AMD_CLANG} -x hip --offload-device-only --no-gpu-bundle-output
  -nogpulib -nogpuinc -std=c++20 -O3 -Wall -Wextra -Wshadow -Werror
  -ffp-contract=off -fhip-fp32-correctly-rounded-divide-sqrt -fno-gpu-flush-denormals-to-zero)

# Sets nvcc_lacks and clang_lacks to a sentence, or to nothing where the compiler can be used.
# Sanitizers check the host's code: the objects would be those of a build without them.
set(nvcc_lacks "")
if(CMAKE_CXX_FLAGS MATCHES -fsanitize)
  set(nvcc_lacks "builds with sanitizers have no code of GPUs")
elseif(NOT FATHOM_NVCC)
  set(nvcc_lacks "nvcc is not installed")
else()
  execute_process(COMMAND ${FATHOM_NVCC} --version OUTPUT_VARIABLE version)
  if(NOT version MATCHES "release ([0-9.]+)" OR CMAKE_MATCH_1 VERSION_LESS 13)
    set(nvcc_lacks "expected nvcc 13 or later, found ${CMAKE_MATCH_1}")
  endif()
endif()
set(clang_lacks "")
if(CMAKE_CXX_FLAGS MATCHES -fsanitize)
  set(clang_lacks ${nvcc_lacks})
elseif(NOT FATHOM_AMD_CLANG)
  set(clang_lacks "clang-19 is not installed (tools/install_packages gpu)")
else()
  execute_process(COMMAND ${FATHOM_AMD_CLANG} -print-prog-name=lld
    OUTPUT_VARIABLE linker OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(NOT EXISTS "${linker}")
    set(clang_lacks "lld-19 is not installed (tools/install_packages gpu)")
  endif()
endif()

# fathom_code_object(SOURCE OUTPUT [SERIALIZED kernel,kernel...] compiler argument...): asynchronous
# products of kernels that are not SERIALIZED may not be made to wait by the compiler
# (tools/compile_cuda).
function(fathom_code_object source output)
  cmake_parse_arguments(PARSE_ARGV 2 object "" SERIALIZED "")
  set(command ${CMAKE_CXX_COMPILER_LAUNCHER} ${object_UNPARSED_ARGUMENTS})
  if(object_SERIALIZED)
    list(PREPEND command --serialized ${object_SERIALIZED})
  endif()
  if(FATHOM_NVCC IN_LIST command)
    list(PREPEND command ${CMAKE_SOURCE_DIR}/tools/compile_cuda)
  endif()
  cmake_path(GET output PARENT_PATH folder)
  file(MAKE_DIRECTORY ${folder})
  cmake_path(RELATIVE_PATH output BASE_DIRECTORY ${CMAKE_BINARY_DIR} OUTPUT_VARIABLE name)
  add_custom_command(OUTPUT ${output}
    COMMAND ${command} -I ${CMAKE_SOURCE_DIR}/src
      -MD -MF ${output}.d -c ${source} -o ${output}
    DEPENDS ${source} DEPFILE ${output}.d COMMENT "Compiling ${name}" VERBATIM)
endfunction()

# fathom_code_objects(cuda|hip OUTPUT): makes the objects of a vendor and the source that embeds
# them, which defines what kernels/vendor/code_objects.h declares. Sets OUTPUT to the source, and
# OUTPUT_OBJECTS to the objects.
function(fathom_code_objects vendor output)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/kernels/gpu/device/*.cu)
  set(objects "")
  set(assembly "")
  set(declarations "")
  set(entries "")
  set(targets ${hip_architectures})
  if(vendor STREQUAL cuda)
    set(targets all)
  endif()
  foreach(target ${targets})
    set(command ${clang_command} --offload-arch=${target})
    set(architecture ${target})
    if(vendor STREQUAL cuda)
      set(command ${nvcc_command})
      set(architecture "")
    endif()
    foreach(source ${sources})
      cmake_path(GET source STEM stem)
      set(object ${CMAKE_CURRENT_BINARY_DIR}/${vendor}/${target}/${stem}.bin)
      fathom_code_object(${source} ${object} ${command})
      list(LENGTH objects i)
      string(APPEND assembly "\"code_${i}: .incbin \\\"${object}\\\"\\n code_${i}_end: .balign 64\\n\"\n")
      string(APPEND declarations "extern const std::byte code_${i}[], code_${i}_end[];\n")
      string(APPEND entries "    {\"${architecture}\", code_${i}, code_${i}_end},\n")
      list(APPEND objects ${object})
    endforeach()
  endforeach()
  list(JOIN ${vendor}_architectures "\", \"" architectures)
  set(file ${CMAKE_CURRENT_BINARY_DIR}/${vendor}_code_objects.cc)
  file(CONFIGURE OUTPUT ${file} @ONLY CONTENT
"#include \"kernels/vendor/code_objects.h\"

asm(\".pushsection .rodata\\n .balign 64\\n\"
@assembly@\".popsection\");

extern \"C\" {
@declarations@}

namespace fathom::kernels {
namespace {

constexpr std::string_view kArchitectures[] = {\"@architectures@\"};
const CodeObject kObjects[] = {
@entries@};

}  // namespace

CodeObjects EmbeddedCodeObjects() { return {kArchitectures, kObjects}; }

}  // namespace fathom::kernels
")
  set_source_files_properties(${file} PROPERTIES OBJECT_DEPENDS "${objects}")
  fathom_compile_alone(FILES ${file})
  set(${output} ${file} PARENT_SCOPE)
  set(${output}_OBJECTS ${objects} PARENT_SCOPE)
endfunction()

# fathom_embed_fatbins(FUNCTION OUTPUT object...): sets OUTPUT to a source that embeds fatbins of
# fathom_code_object, and defines std::span<const std::byte* const> fathom::probe::FUNCTION().
function(fathom_embed_fatbins function output)
  set(assembly "")
  set(names "")
  foreach(object ${ARGN})
    list(LENGTH names i)
    set(name ${function}_${i})
    string(APPEND assembly "    \".balign 64\\n.globl ${name}\\n\"\n"
      "    \"${name}: .incbin \\\"${object}\\\"\\n\"\n")
    list(APPEND names ${name})
  endforeach()
  list(JOIN names "[], " declarations)
  list(JOIN names ", " entries)
  set(file ${CMAKE_CURRENT_BINARY_DIR}/${function}.cc)
  file(CONFIGURE OUTPUT ${file} @ONLY CONTENT
"#include <cstddef>
#include <span>

asm(\".pushsection .rodata\\n\"
@assembly@    \".popsection\");

extern \"C\" {
extern const std::byte @declarations@[];
}

namespace fathom::probe {

std::span<const std::byte* const> @function@() {
  static const std::byte* const kFatbins[] = {@entries@};
  return kFatbins;
}

}  // namespace fathom::probe
")
  set_source_files_properties(${file} PROPERTIES OBJECT_DEPENDS "${ARGN}")
  fathom_compile_alone(FILES ${file})
  set(${output} ${file} PARENT_SCOPE)
endfunction()
