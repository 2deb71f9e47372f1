/* The state file of the simulated host, as the library sees it. console/lab/host/state.py explains the fields. */
#ifndef SIM_STATE_H
#define SIM_STATE_H

#include "dcmi_abi.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum generation { GENERATION_310P, GENERATION_910A, GENERATION_910B, GENERATION_A3, GENERATION_950 };

enum { ECC_ENABLED, ECC_SINGLE, ECC_DUAL, ECC_TOTAL_SINGLE, ECC_TOTAL_DUAL, ECC_SINGLE_PAGES, ECC_DUAL_PAGES, ECC_FIELDS };

#define ANY_ID (-1000000)   /* a match that does not ask for this id */
#define RULE_NAME_SIZE 80
#define CODES_READ_MAX 256  /* more than the driver can return, so that its overflow can be shown */

struct sim_rule {
    char function[RULE_NAME_SIZE];
    bool has_ret, hang;
    int ret, delay_ms;
    int card, chip, logic, phy;
};

struct sim_device {
    int card, chip, logic, phy, slot;
    bool enumerated, alive, occupied, comm_lost;
    int boot_status;
    char chip_name[32], chip_type[32], chip_ver[32];
    int aicores;
    int pci_domain, pci_bus, pci_dev, pci_fn;
    unsigned pci_vendor, pci_device, pci_subvendor, pci_subdevice;
    unsigned board_id, board_pcb, board_bom, mainboard;
    unsigned vdie[5], ndie[5];
    unsigned health;
    unsigned codes[CODES_READ_MAX];
    int code_count;
    int temp_c, power_dw;
    unsigned voltage_cv, freq_aicore_mhz, freq_hbm_mhz;
    unsigned util_aicore, util_hbm, util_aicpu, util_ctrlcpu;
    unsigned hbm_total_mb, hbm_used_mb;
    int hbm_temp_c;
    unsigned ddr_total_mb, ddr_used_mb;
    unsigned ecc[ECC_FIELDS];
    struct dcmi_proc_mem_info processes[PROCESSES_MAX];
    int process_count;
    int net_health;
    char ip[16], mask[16];
    unsigned hccs_pcs_status, hccs_hdlc_status;
    unsigned hccs_lanes[HCCS_LINKS_MAX], hccs_crc[HCCS_LINKS_MAX], hccs_retry[HCCS_LINKS_MAX];
    int hccs_count;
    struct dcmi_spod_info spod;
    bool ub_needed;
    unsigned ub_ports[UB_PORTS];
    int ub_count;
    char firmware[48];
    int compatibility;
};

struct sim_event {
    int64_t seq, raised_ms;
    unsigned event_id;
    int phy, logic;         /* ANY_ID when not given */
    int severity, assertion, node_type;
    char name[200];
};

struct sim_state {
    atomic_int users;
    enum generation generation;
    char driver[64], dcmi[64];
    bool root, container;
    int init_ret, init_delay_ms;
    bool init_hang;
    struct sim_rule *rules;
    int rule_count;
    struct sim_device *devices;
    int device_count;
    struct sim_event *events;
    int event_count;
    int64_t newest_seq;
};

/* The newest state that could be read, or NULL when there never was one. Hand it back with state_release. A file that
 * cannot be read or parsed leaves the state before it in force and is reported on stderr, once for each change. */
struct sim_state *state_acquire(void);
void state_release(struct sim_state *state);

/* Whether the state file exists; a host that was removed ends every wait for it. */
bool state_exists(void);

/* The chip with this physical id, or NULL. */
const struct sim_device *state_device(const struct sim_state *state, int phy);

/* Parse `length` bytes into a new state. NULL on failure, with a reason that names the field. */
struct sim_state *state_parse(const char *text, size_t length, char *error, size_t error_size);
void state_free(struct sim_state *state);

#endif
