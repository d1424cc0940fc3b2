# cmake -DFOLDER=folder -DSCRIPTS=a.js,b.js -DPAGE=page.html -DPOLICY=policy.txt -P join_page.cmake
# Puts FOLDER/page.css and the scripts, in that order, into FOLDER/page.html, so that the page is one
# file; and writes its Content-Security-Policy: nothing is loaded but this very style and script,
# known by their hashes, and nothing can be reached but the server the page came from.
cmake_minimum_required(VERSION 3.25)

# As the policy has it: base64 of the SHA-256.
function(csp_hash text result)
  string(SHA256 hex "${text}")
  set(alphabet "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
  set(base64 "")
  # 32 bytes and one zero: 11 groups of 24 bits; the last of the 44 characters stands for the zero.
  foreach(group RANGE 10)
    math(EXPR start "6 * ${group}")
    string(SUBSTRING "${hex}00" ${start} 6 digits)
    foreach(shift 18 12 6 0)
      math(EXPR index "(0x${digits} >> ${shift}) & 63")
      string(SUBSTRING "${alphabet}" ${index} 1 character)
      string(APPEND base64 "${character}")
    endforeach()
  endforeach()
  string(SUBSTRING "${base64}" 0 43 base64)
  set(${result} "'sha256-${base64}='" PARENT_SCOPE)
endfunction()

set(script "\n")
string(REPLACE "," ";" SCRIPTS "${SCRIPTS}")
foreach(file IN LISTS SCRIPTS)
  file(READ "${FOLDER}/${file}" text)
  string(APPEND script "${text}\n")
endforeach()
file(READ "${FOLDER}/page.css" style)
if("${script}${style}" MATCHES "</|<!--")
  message(FATAL_ERROR "${FOLDER}: a script or style that contains '${CMAKE_MATCH_0}' would end early")
endif()
csp_hash("${script}" script_hash)
csp_hash("${style}" style_hash)

# Trusted Types: the browser refuses to parse markup at run time, whoever asks.
set(policy "default-src 'none'; script-src ${script_hash}; style-src ${style_hash}; \
connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; trusted-types 'none'; \
require-trusted-types-for 'script'")
file(READ "${FOLDER}/page.html" page)
string(REPLACE "@POLICY@" "${policy}" page "${page}")
string(REPLACE "@STYLE@" "${style}" page "${page}")
string(REPLACE "@SCRIPT@" "${script}" page "${page}")
file(WRITE "${PAGE}" "${page}")
# frame-ancestors is not allowed in the page itself.
file(WRITE "${POLICY}" "${policy}; frame-ancestors 'none'")
