# kbuild.cmake puts kbuild before the compilers of a CMake project, and before its device links, which no launcher variable of CMake's reaches:
#
#     cmake -DCMAKE_PROJECT_INCLUDE=/path/to/kbuild.cmake ...
#
# `kbuild cc --cmake` writes this file. KBUILD_LAUNCHER names the launcher where it is not the one that wrote it.

if(CMAKE_VERSION VERSION_LESS 3.19)
  message(FATAL_ERROR "kbuild.cmake needs CMake 3.19 or newer")
endif()
include_guard(GLOBAL)
cmake_policy(PUSH)
cmake_policy(SET CMP0057 NEW) # IN_LIST; functions keep it

if(NOT KBUILD_LAUNCHER)
  set(KBUILD_LAUNCHER "@LAUNCHER@")
endif()
foreach(language IN ITEMS @LANGUAGES@)
  if(NOT CMAKE_${language}_COMPILER_LAUNCHER)
    set(CMAKE_${language}_COMPILER_LAUNCHER "${KBUILD_LAUNCHER}")
  endif()
endforeach()

# The rules of device links are variables, which CMake sets when CUDA is enabled, and reads at the end.
function(kbuild_before_device_links)
  get_property(languages GLOBAL PROPERTY ENABLED_LANGUAGES)
  if(NOT "CUDA" IN_LIST languages)
    message(STATUS "kbuild: this project compiles no CUDA")
    return()
  endif()
  foreach(rule IN ITEMS CMAKE_CUDA_DEVICE_LINK_LIBRARY CMAKE_CUDA_DEVICE_LINK_EXECUTABLE)
    if(CMAKE_CUDA_COMPILER_ID STREQUAL "NVIDIA" AND ${rule})
      set(${rule} "\"${KBUILD_LAUNCHER}\" ${${rule}}" PARENT_SCOPE)
    endif()
  endforeach()
  message(STATUS "kbuild: ${KBUILD_LAUNCHER} stands before the compilers and the device links")
endfunction()
get_property(languages GLOBAL PROPERTY ENABLED_LANGUAGES)
if("CUDA" IN_LIST languages)
  kbuild_before_device_links()
else()
  cmake_language(DEFER DIRECTORY "${CMAKE_SOURCE_DIR}" CALL kbuild_before_device_links)
endif()
cmake_policy(POP)
