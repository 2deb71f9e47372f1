/* One call into the library: who is asked, what the state file says about it, and whether it must misbehave. */
#ifndef SIM_CALL_H
#define SIM_CALL_H

#include "state.h"

/* The ids of a chip as they were when the library was initialised; the driver keeps them for the life of a process. */
struct chip_ids {
    int card, chip, logic, phy;
};

struct registry {
    bool ready;
    int cards[CARDS_MAX];               /* -1 for a card that could not be set up */
    int card_count;
    struct chip_ids chips[CARDS_MAX * 2];
    int chip_count;
};

enum api { API_V1, API_V2 };

struct call {
    const char *function;
    struct sim_state *state;
    int unit;                           /* UNIT_NPU or UNIT_MCU */
    bool injected;                      /* a rule of the state file made the call fail */
    struct chip_ids ids;
    const struct sim_device *device;    /* NULL for an MCU, or when the chip is not in the file any more */
};

extern struct registry registry;

/* Begin a call that concerns no chip; `reading` makes it subject to the rule "*". */
int call_begin(struct call *call, const char *function, enum api api, bool reading);

/* Begin a reading of a chip, by card and chip, or by logic id (API v2). */
int call_begin_chip(struct call *call, const char *function, int card, int chip);
int call_begin_logic(struct call *call, const char *function, int logic);

/* Begin a question about ids, which the driver answers from its table: only a rule of its own makes it fail. */
int call_begin_ids(struct call *call, const char *function);

/* End the call. Every begin, failed or not, needs its end; `ret` is passed through. */
int call_end(struct call *call, int ret);

/* The driver still talks to the chip. */
bool call_present(const struct call *call);

int registry_build(const struct sim_state *state);
const struct chip_ids *registry_by_logic(int logic);
const struct chip_ids *registry_by_phy(int phy);
int registry_chips_of(int card);

void nap_ms(long ms);

/* Wait as long as the state file says that the library's start hangs. */
void hang_while_init(struct sim_state **state);

#endif
