/* Simulates the driver: calls the functions of the linked host object and checks their results. The exit code is the number of the
 * failed check, or 0. `CALL` is the calling convention. */
#include <stdint.h>
#include <string.h>
extern uint64_t __CUDA_TILEIR_CALLBACKS[9];
extern CALL int __CUDA_TILEIR_ON_PRE_LOAD(void *operations, uint64_t handle, int version, uint64_t **out);

static int query_count, query_works;
static CALL int query(uint64_t handle, int attribute, int *value) {
    char align[16] __attribute__((aligned(16)));
    query_count++;
    query_works = handle == 77 && attribute == 16 && ((uintptr_t)align & 15) == 0;
    *value = 108;
    return 0;
}

int main(void) {
    void *operations[8] = {0, 0, 0, 0, 0, 0, (void *)query, 0};
    uint64_t *table = 0, *entries;
    if (__CUDA_TILEIR_ON_PRE_LOAD(operations, 77, 0, &table) != 1 || table) return 1;
    if (__CUDA_TILEIR_ON_PRE_LOAD(operations, 77, 2, &table) != 0 || query_count) return 2;
    if (__CUDA_TILEIR_ON_PRE_LOAD(operations, 77, 1, &table) != 0 || query_count != 1 || !query_works) return 3;
    if (table == __CUDA_TILEIR_CALLBACKS || table[0] != 2 || table[2] != 0 || table[4] != 64 || table[6] != 2 || table[7] != 2) return 4;
    if (table[8] != (uint64_t)(uintptr_t)__CUDA_TILEIR_ON_PRE_LOAD) return 5;
    entries = (uint64_t *)table[5];
    if (strcmp((char *)entries[0], "first") || strcmp((char *)entries[8], "second")) return 6;
    for (int i = 0; i < 2; i++) {
        CALL int (*changed)(void *, void *, void *, uint8_t *) = (CALL int (*)(void *, void *, void *, uint8_t *))entries[8 * i + 5];
        if (changed(0, 0, 0, 0) != 0) return 7;
    }
    return 0;
}
