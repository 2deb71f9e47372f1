/* The binary interface of libdcmi as its callers see it: return codes, enumerations and struct layouts.
 *
 * The layouts are those of the driver's own header (natural alignment, the same on x86_64 and aarch64); the sizes are
 * asserted here, because a stand-in with another size would let a caller pass its tests and corrupt memory in the field.
 */
#ifndef SIM_DCMI_ABI_H
#define SIM_DCMI_ABI_H

#include <assert.h>
#include <stddef.h>

#define DCMI_EXPORT __attribute__((visibility("default")))

enum {
    DCMI_OK = 0,
    DCMI_PARAMETER = -8001,
    DCMI_NOT_PERMITTED = -8002,
    DCMI_INNER = -8005,
    DCMI_TIMEOUT = -8006,
    DCMI_INVALID_ID = -8007,
    DCMI_NO_DEVICE = -8008,
    DCMI_IOCTL = -8009,
    DCMI_NOT_READY = -8012,
    DCMI_OCCUPIED = -8020,
    DCMI_CONFIG_MISSING = -8023,
    DCMI_NOT_SUPPORTED = -8255,
};

enum { UNIT_NPU = 0, UNIT_MCU = 1 };
enum { MEMORY_DDR = 0, MEMORY_HBM = 2 };
enum { BOOT_UNINITIALISED = 0, BOOT_FINISHED = 3, BOOT_STARTED = 16 };
enum { HEALTH_OK = 0, HEALTH_CRITICAL = 3, HEALTH_NOT_READ = 4 };
#define HEALTH_ABSENT 0xFFFFFFFFu

#define CODES_MAX 128
#define CARDS_MAX 64
#define PROCESSES_MAX 64
#define CODE_TEXT_MIN 48
#define HCCS_LINKS_MAX 16
#define UB_PORTS 36
#define VERSION_MIN 64

struct dcmi_chip_info {
    unsigned char chip_type[32], chip_name[32], chip_ver[32];
    unsigned int aicore_count;
};

struct dcmi_chip_info_v2 {
    struct dcmi_chip_info chip;
    unsigned char npu_name[32];
};

struct dcmi_pcie_info_all {
    unsigned int vendor_id, subvendor_id, device_id, subdevice_id;
    int domain;
    unsigned int bus, device, function;
    unsigned char reserved[32];
};

struct dcmi_board_info {
    unsigned int board_id, pcb_id, bom_id, slot_id;
};

struct dcmi_ecc_info {
    int enabled;
    unsigned int single, dual, total_single, total_dual, single_isolated, dual_isolated;
};

struct dcmi_hbm_info {
    unsigned long long size_mb;
    unsigned int freq_mhz;
    unsigned long long used_mb;
    int temp_c;
    unsigned int bandwidth_pct;
};

struct dcmi_memory_info {
    unsigned long long size_mb, available_mb;
    unsigned int freq_mhz;
    unsigned long hugepage_kb, hugepages_total, hugepages_free;
    unsigned int used_pct;
    unsigned char reserved[60];
};

struct dcmi_ip_addr {
    unsigned char address[16];
    int type;               /* 0 = IPv4 */
};

struct dcmi_proc_mem_info {
    int pid;
    unsigned long bytes;
};

struct dcmi_die_id {
    unsigned int word[5];
};

struct dcmi_spod_info {
    unsigned int sdid, size, pod, server, reserved[8];
};

struct dcmi_hccs_status {
    unsigned int pcs_status, hdlc_status;
    unsigned char reserved[4];
};

struct dcmi_hccs_lanes {
    unsigned int link_bitmap, lane_mode[HCCS_LINKS_MAX], reserved[16];
};

struct dcmi_hccs_statistics {
    unsigned int tx[HCCS_LINKS_MAX], rx[HCCS_LINKS_MAX], crc[HCCS_LINKS_MAX], retry[HCCS_LINKS_MAX], reserved[64];
};

struct dcmi_hccs_statistics_u64 {
    unsigned long long tx[HCCS_LINKS_MAX], rx[HCCS_LINKS_MAX], crc[HCCS_LINKS_MAX], retry[HCCS_LINKS_MAX], reserved[64];
};

enum { UB_NO_PORT = 0, UB_ALL_PORTS = 1, UB_SOME_PORTS = 2, UB_NOT_NEEDED = 3 };
enum { UB_PORT_NONE = 0, UB_PORT_FULL = 1, UB_PORT_PARTIAL = 2, UB_PORT_INITIAL = 3 };

struct dcmi_ub_port_link_status {
    int all, port[UB_PORTS];
};

enum { FILTER_EVENT_ID = 1, FILTER_SEVERITY = 2, FILTER_NODE_TYPE = 4 };

struct dcmi_event_filter {
    unsigned long long flag;
    unsigned int event_id;
    unsigned char severity, node_type;
    unsigned char reserved[32];
};

struct dcmi_fault_event {
    unsigned int event_id;
    unsigned short logic_id;
    unsigned char node_type, node_id, sub_node_type, sub_node_id, severity, assertion;
    int event_serial, notify_serial;
    unsigned long long raised_ms;
    char name[256];
    char additional_info[32];
    unsigned char os_id, reserved1;
    unsigned short node_type_ex, sub_node_type_ex;
    unsigned char reserved2[26];
};

struct dcmi_event {
    int type;               /* 0 = a fault event */
    struct dcmi_fault_event fault;
};

typedef void (*dcmi_event_handler)(struct dcmi_event *event);

static_assert(sizeof(struct dcmi_chip_info) == 100, "chip_info");
static_assert(sizeof(struct dcmi_chip_info_v2) == 132, "chip_info_v2");
static_assert(sizeof(struct dcmi_pcie_info_all) == 64, "pcie_info_all");
static_assert(sizeof(struct dcmi_board_info) == 16, "board_info");
static_assert(sizeof(struct dcmi_ecc_info) == 28, "ecc_info");
static_assert(sizeof(struct dcmi_hbm_info) == 32, "hbm_info");
static_assert(sizeof(struct dcmi_memory_info) == 112, "memory_info");
static_assert(sizeof(struct dcmi_ip_addr) == 20, "ip_addr");
static_assert(sizeof(struct dcmi_proc_mem_info) == 16, "proc_mem_info");
static_assert(sizeof(struct dcmi_die_id) == 20, "die_id");
static_assert(sizeof(struct dcmi_spod_info) == 48, "spod_info");
static_assert(sizeof(struct dcmi_hccs_status) == 12, "hccs_status");
static_assert(sizeof(struct dcmi_hccs_lanes) == 132, "hccs_lanes");
static_assert(sizeof(struct dcmi_hccs_statistics) == 512, "hccs_statistics");
static_assert(sizeof(struct dcmi_hccs_statistics_u64) == 1024, "hccs_statistics_u64");
static_assert(sizeof(struct dcmi_ub_port_link_status) == 148, "ub_port_link_status");
static_assert(sizeof(struct dcmi_event_filter) == 48, "event_filter");
static_assert(sizeof(struct dcmi_fault_event) == 352, "fault_event");
static_assert(sizeof(struct dcmi_event) == 360, "event");
static_assert(offsetof(struct dcmi_event, fault.node_type_ex) == 330, "event.node_type_ex");

#endif
