/* Computes 2 (a + b) with the kernels `vadd` and `scale`, which CMakeLists.txt compiles into the library `kernels`. The program loads the
   CUDA driver at run time. Under `tileworks run`, this driver is the CPU device. */
#include "scale.h"
#include "vadd.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

enum { ELEMENTS = 1024, TILE = 256 };

/* The library of the CUDA driver, from dlopen. */
static void *driver;

/* Calls the driver function `name`, whose parameter types are `types`. Ends the program if the driver lacks the function or the call fails. */
#define CALL(name, types, arguments)                                          \
    do {                                                                      \
        int (*call) types = (int (*) types)dlsym(driver, #name);              \
        int status = call ? call arguments : -1;                              \
        if (status != 0) {                                                    \
            fprintf(stderr, "%s fails with status %d\n", #name, status);      \
            exit(1);                                                          \
        }                                                                     \
    } while (0)

/* Launches a kernel of a fatbin with one CTA per tile of the arrays, and waits until the kernel is complete. */
static void launch(const unsigned long long *fatbin, const struct tileworks_kernel *kernel, void **arguments) {
    void *module, *function;
    CALL(cuModuleLoadData, (void **, const void *), (&module, fatbin));
    CALL(cuModuleGetFunction, (void **, void *, const char *), (&function, module, kernel->name));
    CALL(cuLaunchKernel,
         (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **),
         (function, ELEMENTS / TILE, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL));
    CALL(cuCtxSynchronize, (void), ());
    CALL(cuModuleUnload, (void *), (module));
}

int main(void) {
    int device, extent = ELEMENTS, stride = 1;
    void *context;
    float host[2][ELEMENTS], factor = 2;
    unsigned long long arrays[4];
    driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    CALL(cuInit, (unsigned), (0));
    CALL(cuDeviceGet, (int *, int), (&device, 0));
    CALL(cuDevicePrimaryCtxRetain, (void **, int), (&context, device));
    CALL(cuCtxSetCurrent, (void *), (context));
    for (int i = 0; i < ELEMENTS; i++) {
        host[0][i] = (float)i;
        host[1][i] = 1;
    }
    for (int i = 0; i < 4; i++)
        CALL(cuMemAlloc_v2, (unsigned long long *, size_t), (&arrays[i], sizeof host[0]));
    for (int i = 0; i < 2; i++)
        CALL(cuMemcpyHtoD_v2, (unsigned long long, const void *, size_t), (arrays[i], host[i], sizeof host[i]));
    void *vadd_arguments[] = {&arrays[0], &extent, &stride, &arrays[1], &extent, &stride, &arrays[2], &extent, &stride};
    launch(vadd_fatbin, &vadd_fatbin_kernels[0], vadd_arguments);
    void *scale_arguments[] = {&arrays[2], &extent, &stride, &arrays[3], &extent, &stride, &factor};
    launch(scale_fatbin, &scale_fatbin_kernels[0], scale_arguments);
    CALL(cuMemcpyDtoH_v2, (void *, unsigned long long, size_t), (host[0], arrays[3], sizeof host[0]));
    for (int i = 0; i < ELEMENTS; i++) {
        if (host[0][i] != 2 * ((float)i + 1)) {
            fprintf(stderr, "element %d is %g\n", i, host[0][i]);
            return 1;
        }
    }
    printf("%d elements are right\n", ELEMENTS);
    return 0;
}
