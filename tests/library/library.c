/* Tests libtileworks: library TOOLS K.TILEIRBC CUBIN_SM_80 CUBIN_SM_90 FATBIN. The last three files are from the command line. */
#include "tileworks.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct file {
    unsigned char *bytes;
    size_t size;
};

#define CHECK(condition)                                                          \
    do {                                                                          \
        if (!(condition)) {                                                       \
            fprintf(stderr, "line %d: %s is false\n", __LINE__, #condition);      \
            exit(1);                                                              \
        }                                                                         \
    } while (0)

static const char *tools;
static struct file input, expected[3];

static struct file read_file(const char *path) {
    struct file file = {malloc(1 << 24), 0};
    FILE *stream = fopen(path, "rb");
    CHECK(stream && file.bytes);
    file.size = fread(file.bytes, 1, 1 << 24, stream);
    fclose(stream);
    return file;
}

static tileworks_compilation *compilation_of(const void *bytes, size_t size) {
    tileworks_compilation *compilation = tileworks_compilation_create(bytes, size, "k.tileirbc");
    CHECK(compilation);
    CHECK(tileworks_set_option(compilation, "tools", tools) == TILEWORKS_OK);
    return compilation;
}

/* Compiles for one of the targets, or for both, and compares the output with the file of the command line. */
static void *compile_and_compare(void *argument) {
    size_t which = (size_t)argument % 3, size;
    tileworks_compilation *compilation = compilation_of(input.bytes, input.size);
    if (which == 2)
        CHECK(tileworks_set_option(compilation, "emit", "fatbin") == TILEWORKS_OK);
    if (which != 1)
        CHECK(tileworks_set_option(compilation, "gpu-name", "sm_80") == TILEWORKS_OK);
    if (which != 0)
        CHECK(tileworks_set_option(compilation, "gpu-name", "sm_90") == TILEWORKS_OK);
    tileworks_result *result = tileworks_compile(compilation);
    if (tileworks_result_status(result) != TILEWORKS_OK)
        fprintf(stderr, "%s", tileworks_result_json(result));
    CHECK(tileworks_result_status(result) == TILEWORKS_OK);
    const void *output = tileworks_result_output(result, &size);
    CHECK(size == expected[which].size && memcmp(output, expected[which].bytes, size) == 0);
    tileworks_result_destroy(result);
    tileworks_compilation_destroy(compilation);
    return NULL;
}

static enum tileworks_status status_of(tileworks_compilation *compilation, const char *expected_text) {
    struct tileworks_diagnostic diagnostic;
    size_t size;
    tileworks_result *result = tileworks_compile(compilation);
    enum tileworks_status status = tileworks_result_status(result);
    CHECK(tileworks_result_output(result, &size) != NULL && size == 0);
    CHECK(tileworks_result_diagnostic_count(result) >= 1);
    CHECK(tileworks_result_diagnostic(result, 0, &diagnostic, sizeof diagnostic) == TILEWORKS_OK);
    CHECK(strcmp(diagnostic.severity, "error") == 0 && diagnostic.resource == NULL);
    if (!strstr(tileworks_result_json(result), expected_text)) {
        fprintf(stderr, "no '%s' in %s", expected_text, tileworks_result_json(result));
        exit(1);
    }
    CHECK(tileworks_result_diagnostic(result, 1000, &diagnostic, sizeof diagnostic) == TILEWORKS_USAGE);
    tileworks_result_destroy(result);
    return status;
}

static void errors_are_results(void) {
    tileworks_compilation *compilation = compilation_of(input.bytes, input.size);
    CHECK(status_of(compilation, "no target") == TILEWORKS_CONFIGURATION);
    tileworks_set_option(compilation, "gpu-name", "sm_75");
    CHECK(status_of(compilation, "sm_75") == TILEWORKS_USAGE);
    tileworks_compilation_destroy(compilation);

    compilation = compilation_of(input.bytes, input.size);
    tileworks_set_option(compilation, "save-temps", "folder");
    CHECK(status_of(compilation, "save-temps") == TILEWORKS_USAGE);
    tileworks_compilation_destroy(compilation);

    compilation = compilation_of("\x7f" "ELF", 4);
    CHECK(status_of(compilation, "does not correspond to Tile IR bytecode") == TILEWORKS_INPUT);
    tileworks_compilation_destroy(compilation);

    compilation = compilation_of(input.bytes, input.size / 2);
    tileworks_set_option(compilation, "gpu-name", "sm_90");
    CHECK(status_of(compilation, "k.tileirbc") == TILEWORKS_INPUT);
    tileworks_compilation_destroy(compilation);

    compilation = compilation_of(input.bytes, input.size);
    tileworks_set_option(compilation, "gpu-name", "sm_90");
    tileworks_set_option(compilation, "tools", "/nowhere");
    CHECK(status_of(compilation, "tile-ptx") == TILEWORKS_COMPILE);
    tileworks_compilation_destroy(compilation);

    compilation = compilation_of(input.bytes, input.size);
    tileworks_set_option(compilation, "gpu-name", "sm_90");
    tileworks_cancel(compilation);
    CHECK(status_of(compilation, "cancelled") == TILEWORKS_CANCELLED);
    tileworks_compilation_destroy(compilation);
}

static void *cancel_soon(void *compilation) {
    usleep(30000);
    tileworks_cancel(compilation);
    return NULL;
}

/* A cancelled compilation ends, wherever it is, and so does each later one of the object. */
static void cancellation_ends_a_compilation(void) {
    pthread_t thread;
    tileworks_compilation *compilation = compilation_of(input.bytes, input.size);
    tileworks_set_option(compilation, "gpu-name", "sm_90");
    CHECK(pthread_create(&thread, NULL, cancel_soon, compilation) == 0);
    tileworks_result *result = tileworks_compile(compilation);
    enum tileworks_status status = tileworks_result_status(result);
    CHECK(status == TILEWORKS_CANCELLED || status == TILEWORKS_OK);
    tileworks_result_destroy(result);
    pthread_join(thread, NULL);
    CHECK(status_of(compilation, "cancelled") == TILEWORKS_CANCELLED);
    tileworks_compilation_destroy(compilation);
}

static void wrong_arguments_are_refused(void) {
    size_t size = 1;
    CHECK(tileworks_compilation_create(NULL, 1, NULL) == NULL);
    CHECK(tileworks_set_option(NULL, "a", "b") == TILEWORKS_USAGE);
    tileworks_compilation *compilation = tileworks_compilation_create(NULL, 0, NULL);
    CHECK(compilation && tileworks_set_option(compilation, NULL, "b") == TILEWORKS_USAGE);
    tileworks_compilation_destroy(compilation);
    CHECK(tileworks_compile(NULL) == NULL && tileworks_result_status(NULL) == TILEWORKS_INTERNAL);
    CHECK(tileworks_result_output(NULL, &size) != NULL && size == 0);
    CHECK(tileworks_result_diagnostic_count(NULL) == 0 && tileworks_result_json(NULL)[0] == 0);
    tileworks_result_destroy(NULL);
    tileworks_compilation_destroy(NULL);
    tileworks_cancel(NULL);
}

int main(int count, char **arguments) {
    pthread_t threads[8];
    CHECK(count == 6 && tileworks_abi_version() >= TILEWORKS_ABI_VERSION && tileworks_version()[0] != 0);
    tools = arguments[1];
    input = read_file(arguments[2]);
    for (int i = 0; i < 3; i++)
        expected[i] = read_file(arguments[3 + i]);
    for (size_t i = 0; i < 8; i++)
        CHECK(pthread_create(&threads[i], NULL, compile_and_compare, (void *)i) == 0);
    for (size_t i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    errors_are_results();
    cancellation_ends_a_compilation();
    wrong_arguments_are_refused();
    free(input.bytes);
    for (int i = 0; i < 3; i++)
        free(expected[i].bytes);
    return 0;
}
