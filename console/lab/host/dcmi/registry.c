/* Start of the library: which cards and chips there are, enumerated once and never again in this process. */
#include "call.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct registry registry;
static struct registry frozen;      /* survives a start with the wrong API, which wipes what callers see */
static bool enumerated;

static bool usable(const struct sim_device *device)
{
    return device->enumerated && !device->occupied && device->boot_status == BOOT_STARTED;
}

static int by_value(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

/* A card is listed when it is whole. A single chip that is off the bus takes its card with it without a trace; a card
 * with a booting or occupied chip, or with one of two dies missing, leaves a -1 in the list. */
static void add_card(struct registry *found, const struct sim_state *state, int card)
{
    int chips = 0, good = 0, there = 0;
    struct chip_ids ids[4];
    for (int i = 0; i < state->device_count; i++) {
        const struct sim_device *device = &state->devices[i];
        if (device->card != card || chips == 4) {
            continue;
        }
        ids[chips++] = (struct chip_ids){device->card, device->chip, device->logic, device->phy};
        good += usable(device);
        there += device->enumerated;
    }
    if (there == 0 || found->card_count == CARDS_MAX) {
        return;
    }
    found->cards[found->card_count++] = good == chips ? card : -1;
    for (int i = 0; good == chips && i < chips && found->chip_count < CARDS_MAX * 2; i++) {
        found->chips[found->chip_count++] = ids[i];
    }
}

int registry_build(const struct sim_state *state)
{
    if (enumerated) {
        registry = frozen;
        return DCMI_OK;
    }
    struct registry found = {.ready = true};
    bool occupied = false;
    for (int i = 0; i < state->device_count; i++) {
        const struct sim_device *device = &state->devices[i];
        occupied = occupied || device->occupied;
        bool first = true;
        for (int j = 0; j < i; j++) {
            first = first && state->devices[j].card != device->card;
        }
        if (first) {
            add_card(&found, state, device->card);
        }
    }
    if (found.chip_count == 0) {
        return occupied ? DCMI_OCCUPIED : DCMI_INNER;
    }
    qsort(found.cards, (size_t)found.card_count, sizeof(found.cards[0]), by_value);
    registry = frozen = found;
    enumerated = true;
    return DCMI_OK;
}

const struct chip_ids *registry_by_logic(int logic)
{
    for (int i = 0; i < registry.chip_count; i++) {
        if (registry.chips[i].logic == logic) {
            return &registry.chips[i];
        }
    }
    return NULL;
}

const struct chip_ids *registry_by_phy(int phy)
{
    for (int i = 0; i < registry.chip_count; i++) {
        if (registry.chips[i].phy == phy) {
            return &registry.chips[i];
        }
    }
    return NULL;
}

int registry_chips_of(int card)
{
    int count = 0;
    for (int i = 0; i < registry.chip_count; i++) {
        count += registry.chips[i].card == card;
    }
    return count;
}

static int start(const char *function, enum api api)
{
    struct call call;
    int ret = call_begin(&call, function, api, false);
    if (ret == DCMI_OK) {
        hang_while_init(&call.state);
        nap_ms(call.state->init_delay_ms);
        ret = call.state->init_ret != DCMI_OK ? call.state->init_ret : registry_build(call.state);
    } else if (call.state == NULL) {
        fprintf(stderr, "libdcmi (lab): no simulated host: set NPU_SIM_STATE to its state file\n");
    }
    return call_end(&call, ret);
}

DCMI_EXPORT int dcmi_init(void)
{
    return start("dcmi_init", API_V1);
}

DCMI_EXPORT int dcmiv2_init(void)
{
    int ret = start("dcmiv2_init", API_V2);
    if (ret == DCMI_NOT_SUPPORTED) {
        registry = (struct registry){.ready = true}; /* as the real one: the lists are empty until dcmi_init runs again */
    }
    return ret;
}
