/* The Tile IR compiler as a C library. Link with -ltileworks, or `pkg-config --cflags --libs tileworks`.
 *
 * A compilation has an input in memory and options, which are those of tileiras. Several threads can run compilations at a time, also
 * the same one. The library has no global state, writes to no standard stream, and never ends the process. Exception: the Rust
 * runtime prints the message of an internal error to standard error.
 *
 *     tileworks_compilation *compilation = tileworks_compilation_create(bytes, size, "k.tileirbc");
 *     tileworks_set_option(compilation, "gpu-name", "sm_90");
 *     tileworks_result *result = tileworks_compile(compilation);
 *     if (tileworks_result_status(result) == TILEWORKS_OK)
 *         output = tileworks_result_output(result, &output_size);
 *     else
 *         fputs(tileworks_result_json(result), stderr);
 *     tileworks_result_destroy(result);
 *     tileworks_compilation_destroy(compilation);
 *
 * Strings are UTF-8 and end with NUL. The library copies its arguments. */
#ifndef TILEWORKS_H
#define TILEWORKS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this interface. It grows when functions are added; a program needs a library with at least the version of its header. */
#define TILEWORKS_ABI_VERSION 1

typedef struct tileworks_compilation tileworks_compilation;
typedef struct tileworks_result tileworks_result;

enum tileworks_status {
    TILEWORKS_OK = 0,
    TILEWORKS_USAGE = 1,         /* an option is unknown or has an invalid value, or an argument is NULL or not UTF-8 */
    TILEWORKS_CONFIGURATION = 2, /* the options do not fit each other, or a tool is missing */
    TILEWORKS_INPUT = 3,         /* the input is invalid */
    TILEWORKS_COMPILE = 5,       /* a stage rejects the program */
    TILEWORKS_CANCELLED = 6,     /* the compilation was cancelled, or its time is over */
    TILEWORKS_INTERNAL = 101     /* the library or a stage has a bug; also the status of a NULL result */
};

/* A diagnostic. The strings belong to the result. A string is NULL, and a number 0, if the diagnostic has no such value. */
struct tileworks_diagnostic {
    const char *severity; /* error, warning, remark or note */
    const char *code;     /* such as SC100; `tileiras --explain CODE` describes it */
    const char *message;
    const char *file; /* the source position */
    uint32_t line, column;
    const char *resource; /* the resource that the kernel exceeds: shared-memory, tensor-memory, registers, ... */
    uint64_t needed, available;
    const char *hint; /* the option that causes the need or the limit */
};

uint32_t tileworks_abi_version(void);
/* The version of the compiler, such as 0.1.0. */
const char *tileworks_version(void);

/* A compilation of Tile IR bytecode, or of the text of a program. `name` is the name of the input in diagnostics, or NULL. Returns NULL
 * if `input` is NULL and `size` is not 0. */
tileworks_compilation *tileworks_compilation_create(const void *input, size_t size, const char *name);
void tileworks_compilation_destroy(tileworks_compilation *compilation);

/* Adds an option: its name without dashes, and its value. `gpu-name` can occur several times with the `emit` kinds fatbin, c-array and
 * object. `tools` is the folder of the executables tile-ptx and tile-link. tileworks_compile checks the options. */
enum tileworks_status tileworks_set_option(tileworks_compilation *compilation, const char *name, const char *value);

/* Compiles. The result is never NULL, unless the compilation is. */
tileworks_result *tileworks_compile(const tileworks_compilation *compilation);
/* Ends the compilation in progress, and every later one of this object. Any thread can call this function. */
void tileworks_cancel(const tileworks_compilation *compilation);

enum tileworks_status tileworks_result_status(const tileworks_result *result);
/* The output, which belongs to the result. Empty if the compilation failed. */
const void *tileworks_result_output(const tileworks_result *result, size_t *size);
size_t tileworks_result_diagnostic_count(const tileworks_result *result);
/* Fills `diagnostic`. `diagnostic_size` is sizeof(struct tileworks_diagnostic): later versions add fields at the end. */
enum tileworks_status tileworks_result_diagnostic(const tileworks_result *result, size_t index, struct tileworks_diagnostic *diagnostic,
                                                  size_t diagnostic_size);
/* All messages: a JSON object in each line. */
const char *tileworks_result_json(const tileworks_result *result);
void tileworks_result_destroy(tileworks_result *result);

#ifdef __cplusplus
}
#endif

#endif
