#define _GNU_SOURCE
#include "call.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define HANG_POLL_MS 50

static atomic_int inside;

void nap_ms(long ms)
{
    struct timespec left = {ms / 1000, ms % 1000 * 1000000};
    while (nanosleep(&left, &left) != 0 && errno == EINTR) {
    }
}

/* The real library has no locks: two threads inside at once is a bug of the caller, recorded as one line. */
static void enter(const char *function)
{
    if (atomic_fetch_add(&inside, 1) == 0) {
        return;
    }
    const char *path = getenv("NPU_SIM_VIOLATIONS");
    int file = path == NULL ? -1 : open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (file >= 0) {
        char line[160];
        int length = snprintf(line, sizeof(line), "pid=%d tid=%d entered %s while another thread was inside\n",
            (int)getpid(), (int)syscall(SYS_gettid), function);
        if (write(file, line, (size_t)length) != length) {
            fprintf(stderr, "libdcmi (lab): cannot write %s: %s\n", path, strerror(errno));
        }
        close(file);
    }
}

static bool agrees(int wanted, int is)
{
    return wanted == ANY_ID || wanted == is;
}

static const struct sim_rule *find_rule(const struct call *call, bool reading)
{
    for (int wildcard = 0; wildcard <= (reading ? 1 : 0); wildcard++) {
        const char *name = wildcard ? "*" : call->function;
        for (int i = 0; i < call->state->rule_count; i++) {
            const struct sim_rule *rule = &call->state->rules[i];
            if (strcmp(rule->function, name) == 0 && agrees(rule->card, call->ids.card) &&
                agrees(rule->chip, call->ids.chip) && agrees(rule->logic, call->ids.logic) &&
                agrees(rule->phy, call->ids.phy)) {
                return rule;
            }
        }
    }
    return NULL;
}

/* A call stuck in the kernel takes no signal but SIGKILL; this is as near as a process can come to it. */
static void block_signals(sigset_t *before)
{
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, before);
}

/* Wait and take the state anew. False when the simulated host is gone and nothing will ever end the wait. */
static bool wait_for_change(struct sim_state **state)
{
    nap_ms(HANG_POLL_MS);
    if (!state_exists()) {
        return false;
    }
    state_release(*state);
    *state = state_acquire();
    return true;
}

static int misbehave(struct call *call, bool reading)
{
    sigset_t before;
    bool hung = false;
    int ret = DCMI_OK;
    const struct sim_rule *rule;
    while ((rule = find_rule(call, reading)) != NULL && rule->hang) {
        if (!hung) {
            block_signals(&before);
            hung = true;
        }
        if (!wait_for_change(&call->state)) {
            ret = DCMI_INNER;
            break;
        }
    }
    if (hung) {
        pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    if (rule != NULL && !rule->hang) {
        nap_ms(rule->delay_ms);
        ret = rule->has_ret ? rule->ret : DCMI_OK;
    }
    call->injected = ret != DCMI_OK;
    return ret;
}

void hang_while_init(struct sim_state **state)
{
    if (!(*state)->init_hang) {
        return;
    }
    sigset_t before;
    block_signals(&before);
    while ((*state)->init_hang && wait_for_change(state)) {
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static int enter_api(struct call *call, const char *function, enum api api)
{
    enter(function);
    *call = (struct call){.function = function, .ids = {ANY_ID - 1, ANY_ID - 1, ANY_ID - 1, ANY_ID - 1}};
    call->state = state_acquire();
    if (call->state == NULL) {
        return DCMI_INNER;
    }
    return (call->state->generation == GENERATION_950) == (api == API_V2) ? DCMI_OK : DCMI_NOT_SUPPORTED;
}

int call_begin(struct call *call, const char *function, enum api api, bool reading)
{
    int ret = enter_api(call, function, api);
    return ret != DCMI_OK ? ret : misbehave(call, reading);
}

int call_begin_ids(struct call *call, const char *function)
{
    int ret = enter_api(call, function, API_V1);
    if (ret == DCMI_OK && !registry.ready) {
        ret = DCMI_NOT_SUPPORTED;
    }
    return ret != DCMI_OK ? ret : misbehave(call, false);
}

static int begin_reading(struct call *call, const struct chip_ids *ids)
{
    call->ids = *ids;
    int ret = misbehave(call, true);
    call->device = call->unit == UNIT_NPU ? state_device(call->state, ids->phy) : NULL;
    return ret;
}

int call_begin_chip(struct call *call, const char *function, int card, int chip)
{
    int ret = enter_api(call, function, API_V1);
    if (ret == DCMI_OK && !registry.ready) {
        ret = DCMI_NOT_SUPPORTED;
    }
    int chips = ret == DCMI_OK ? registry_chips_of(card) : 0;
    if (ret != DCMI_OK || chips == 0 || chip < 0 || chip > chips) {
        return ret != DCMI_OK ? ret : DCMI_PARAMETER;
    }
    if (chip == chips) { /* the management controller is the unit after the last chip */
        call->unit = UNIT_MCU;
        return begin_reading(call, &(struct chip_ids){card, chip, ANY_ID - 1, ANY_ID - 1});
    }
    for (int i = 0; i < registry.chip_count; i++) {
        if (registry.chips[i].card == card && registry.chips[i].chip == chip) {
            return begin_reading(call, &registry.chips[i]);
        }
    }
    return DCMI_PARAMETER;
}

int call_begin_logic(struct call *call, const char *function, int logic)
{
    int ret = enter_api(call, function, API_V2);
    if (ret != DCMI_OK || !registry.ready) {
        return ret != DCMI_OK ? ret : DCMI_NOT_SUPPORTED;
    }
    const struct chip_ids *ids = registry_by_logic(logic);
    return ids == NULL ? DCMI_PARAMETER : begin_reading(call, ids);
}

int call_end(struct call *call, int ret)
{
    state_release(call->state);
    atomic_fetch_sub(&inside, 1);
    return ret;
}

bool call_present(const struct call *call)
{
    return call->device != NULL && call->device->enumerated && call->device->alive;
}
