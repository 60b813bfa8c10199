# find_package(Tileworks): compiles Tile IR kernels into a library when a project is built.
#
#   tileworks_add_kernels(<name> SOURCES <source>... TARGETS <gpu>... [OPTIONS <option>...] [PYTHON <interpreter>])
#
# Adds the static library <name>. A source is a bytecode file, or FILE.py:KERNEL, a kernel of cuTile Python that the table
# `tileworks_exports` of the file lists. For each source, the library has the object of a fatbin with the code for all TARGETS, and the
# include folder of the library has the header KERNEL.h, which declares the fatbin as KERNEL_fatbin. OPTIONS go to tileiras. PYTHON needs
# the packages `tileworks` and `cuda-tile` [default: python3].
#
# A build compiles a kernel again if its bytecode, an imported Python file, tileiras, a stage, ptxas or libdevice has changed.
cmake_minimum_required(VERSION 3.20)

# The folder of an installed package is PREFIX/lib/cmake/Tileworks. In a source tree, it is packages/cmake.
find_program(TILEWORKS_TILEIRAS tileiras
    HINTS "${CMAKE_CURRENT_LIST_DIR}/../../../bin" "${CMAKE_CURRENT_LIST_DIR}/../../target/release"
    DOC "The driver of Tileworks")
if(NOT TILEWORKS_TILEIRAS)
    set(Tileworks_FOUND FALSE)
    set(Tileworks_NOT_FOUND_MESSAGE "tileiras is not on PATH; set TILEWORKS_TILEIRAS to the driver")
    return()
endif()

# Sets <result> to the bytecode of a source, and <stem> to the name of its kernel. Adds the command that exports a kernel of cuTile Python.
function(_tileworks_bytecode source folder python target result stem)
    if(NOT source MATCHES "^(.+\\.py):([A-Za-z_][A-Za-z0-9_]*)$")
        cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}")
        cmake_path(GET source STEM LAST_ONLY name)
        set(${result} "${source}" PARENT_SCOPE)
        set(${stem} "${name}" PARENT_SCOPE)
        return()
    endif()
    set(module "${CMAKE_MATCH_1}")
    set(kernel "${CMAKE_MATCH_2}")
    cmake_path(ABSOLUTE_PATH module BASE_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}")
    set(bytecode "${folder}/${kernel}.tileirbc")
    add_custom_command(
        OUTPUT "${bytecode}"
        COMMAND ${python} -m tileworks export "${module}" "${kernel}" --gpu-name ${target} --depfile "${bytecode}.d" -o "${bytecode}"
        DEPENDS "${module}"
        DEPFILE "${bytecode}.d"
        COMMENT "Exporting ${kernel}.tileirbc"
        VERBATIM)
    set(${result} "${bytecode}" PARENT_SCOPE)
    set(${stem} "${kernel}" PARENT_SCOPE)
endfunction()

function(tileworks_add_kernels name)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "PYTHON" "SOURCES;TARGETS;OPTIONS")
    if(arg_UNPARSED_ARGUMENTS)
        message(FATAL_ERROR "tileworks_add_kernels(${name}): unknown arguments: ${arg_UNPARSED_ARGUMENTS}")
    endif()
    if(NOT arg_SOURCES OR NOT arg_TARGETS)
        message(FATAL_ERROR "tileworks_add_kernels(${name}): SOURCES and TARGETS are required")
    endif()
    if(NOT arg_PYTHON)
        set(arg_PYTHON python3)
    endif()
    set(folder "${CMAKE_CURRENT_BINARY_DIR}/${name}.kernels")
    file(MAKE_DIRECTORY "${folder}")
    list(TRANSFORM arg_TARGETS PREPEND "--gpu-name=" OUTPUT_VARIABLE options)
    list(GET arg_TARGETS 0 first_target)
    if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64|ARM64)$")
        list(APPEND options --host-arch=aarch64)
    elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|amd64|AMD64)$")
        list(APPEND options --host-arch=x86_64)
    endif()
    if(WIN32)
        list(APPEND options --host-os=windows)
    endif()
    set(outputs)
    foreach(source IN LISTS arg_SOURCES)
        _tileworks_bytecode("${source}" "${folder}" "${arg_PYTHON}" "${first_target}" bytecode stem)
        set(object "${folder}/${stem}.o")
        set(header "${folder}/${stem}.h")
        # tileiras does not write a file again if its contents are the same, but make compares file times.
        add_custom_command(
            OUTPUT "${object}" "${header}"
            COMMAND "${TILEWORKS_TILEIRAS}" "${bytecode}" ${options} --emit=object "--c-header=${header}" -MD -MF "${object}.d"
                    ${arg_OPTIONS} -o "${object}"
            COMMAND "${CMAKE_COMMAND}" -E touch "${object}" "${header}"
            DEPENDS "${bytecode}"
            DEPFILE "${object}.d"
            COMMENT "Compiling ${stem}.o for ${arg_TARGETS}"
            VERBATIM)
        list(APPEND outputs "${object}" "${header}")
    endforeach()
    add_library(${name} STATIC ${outputs})
    list(FILTER outputs INCLUDE REGEX "\\.o$")
    set_source_files_properties(${outputs} PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)
    set_target_properties(${name} PROPERTIES LINKER_LANGUAGE C)
    target_include_directories(${name} INTERFACE "${folder}")
endfunction()
