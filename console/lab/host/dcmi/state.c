/* The state file: found, read again when it changes, shared between threads by reference counts. */
#define _GNU_SOURCE
#include "state.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define STATE_SIZE_MAX (8 << 20)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sim_state *current;       /* holds one reference */
static struct stat seen;                /* of the file that `current`, or the last complaint, came from */

/* NPU_SIM_STATE, else state.json one directory above the library: a caller with a cleaned environment finds it too. */
static const char *state_path(void)
{
    static char beside[PATH_MAX];
    const char *path = getenv("NPU_SIM_STATE");
    if (path != NULL && path[0] != '\0') {
        return path;
    }
    Dl_info info;
    if (beside[0] == '\0' && dladdr((void *)&current, &info) != 0 && info.dli_fname != NULL) {
        snprintf(beside, sizeof(beside), "%s", info.dli_fname);
        char *slash = strrchr(beside, '/');
        char *file = slash == NULL ? beside : slash + 1;
        snprintf(file, (size_t)(beside + sizeof(beside) - file), "../state.json");
    }
    return beside;
}

static bool same_file(const struct stat *a, const struct stat *b)
{
    return a->st_ino == b->st_ino && a->st_size == b->st_size && a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
        a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

static struct sim_state *read_file(const char *path, char *error, size_t error_size)
{
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        snprintf(error, error_size, "%s", strerror(errno));
        return NULL;
    }
    char *text = malloc(STATE_SIZE_MAX);
    size_t length = text == NULL ? 0 : fread(text, 1, STATE_SIZE_MAX, file);
    fclose(file);
    struct sim_state *state = NULL;
    if (length == STATE_SIZE_MAX || text == NULL) {
        snprintf(error, error_size, "too big to read");
    } else {
        state = state_parse(text, length, error, error_size);
    }
    free(text);
    return state;
}

static void drop_reference(struct sim_state *state)
{
    if (state != NULL && atomic_fetch_sub(&state->users, 1) == 1) {
        state_free(state);
    }
}

static void refresh(void)
{
    const char *path = state_path();
    struct stat now = {0};
    if (stat(path, &now) != 0 || same_file(&now, &seen)) {
        return;
    }
    char error[256] = "";
    struct sim_state *fresh = read_file(path, error, sizeof(error));
    seen = now;
    if (fresh == NULL) {
        fprintf(stderr, "libdcmi (lab): cannot use %s: %s; %s\n", path, error,
            current == NULL ? "there is no state to fall back to" : "the state before it stays in force");
        return;
    }
    atomic_store(&fresh->users, 1);
    drop_reference(current);
    current = fresh;
}

struct sim_state *state_acquire(void)
{
    pthread_mutex_lock(&lock);
    refresh();
    if (current != NULL) {
        atomic_fetch_add(&current->users, 1);
    }
    struct sim_state *state = current;
    pthread_mutex_unlock(&lock);
    return state;
}

void state_release(struct sim_state *state)
{
    drop_reference(state);
}

bool state_exists(void)
{
    struct stat now;
    return stat(state_path(), &now) == 0;
}

const struct sim_device *state_device(const struct sim_state *state, int phy)
{
    for (int i = 0; i < state->device_count; i++) {
        if (state->devices[i].phy == phy) {
            return &state->devices[i];
        }
    }
    return NULL;
}
