/* What a chip measures and what it is made of. The exported functions are in doors.c. */
#include "readings.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

/* Readings need the chip: one that is gone is an invalid id, one that another container holds is occupied. */
static int reach(const struct call *call)
{
    if (call->unit == UNIT_MCU) {
        return DCMI_NOT_SUPPORTED;
    }
    return !call_present(call) ? DCMI_INVALID_ID : call->device->occupied ? DCMI_OCCUPIED : DCMI_OK;
}

static bool has_hccs(const struct call *call)
{
    return call->state->generation == GENERATION_910B || call->state->generation == GENERATION_A3;
}

int read_ecc(const struct call *call, int type, struct dcmi_ecc_info *out)
{
    int ret = reach(call);
    if (ret != DCMI_OK) {
        return ret;
    }
    if (type != (call->device->hbm_total_mb > 0 ? MEMORY_HBM : MEMORY_DDR)) {
        return DCMI_NOT_SUPPORTED;
    }
    memcpy(out, call->device->ecc, sizeof(*out));
    return DCMI_OK;
}

int read_hbm(const struct call *call, struct dcmi_hbm_info *out)
{
    int ret = reach(call);
    if (ret == DCMI_OK && call->device->hbm_total_mb == 0) {
        ret = DCMI_NOT_SUPPORTED;
    }
    if (ret == DCMI_OK) {
        out->size_mb = call->device->hbm_total_mb;
        out->freq_mhz = call->device->freq_hbm_mhz;
        out->used_mb = call->device->hbm_used_mb;
        out->temp_c = call->device->hbm_temp_c;
        out->bandwidth_pct = 0;
    }
    return ret;
}

int read_memory(const struct call *call, struct dcmi_memory_info *out)
{
    int ret = reach(call);
    if (ret == DCMI_OK && call->device->ddr_total_mb == 0) {
        ret = DCMI_NOT_SUPPORTED;
    }
    if (ret == DCMI_OK) {
        unsigned total = call->device->ddr_total_mb, used = call->device->ddr_used_mb;
        *out = (struct dcmi_memory_info){.size_mb = total, .available_mb = total > used ? total - used : 0};
        out->used_pct = used * 100 / total;
    }
    return ret;
}

int read_temperature(const struct call *call, int *out)
{
    if (call->unit == UNIT_MCU) {
        *out = 35;
        return DCMI_OK;
    }
    int ret = reach(call);
    if (ret == DCMI_OK) {
        *out = call->device->temp_c;
    }
    return ret;
}

int read_power(const struct call *call, int *out)
{
    int ret = reach(call);
    if (ret == DCMI_OK) {
        *out = call->device->power_dw;
    }
    return ret;
}

int read_voltage(const struct call *call, unsigned *out)
{
    int ret = reach(call);
    if (ret == DCMI_OK) {
        *out = call->device->voltage_cv;
    }
    return ret;
}

int read_frequency(const struct call *call, int type, unsigned *out)
{
    enum { FREQ_HBM = 6, FREQ_AICORE = 7, FREQ_AICORE_RATED = 9 };
    int ret = reach(call);
    if (ret == DCMI_OK) {
        switch (type) {
            case FREQ_HBM:
                *out = call->device->freq_hbm_mhz;
                break;
            case FREQ_AICORE:
            case FREQ_AICORE_RATED:
                *out = call->device->freq_aicore_mhz;
                break;
            default:
                ret = DCMI_NOT_SUPPORTED;
        }
    }
    return ret;
}

int read_utilization(const struct call *call, int type, unsigned *out)
{
    enum { UTIL_MEMORY = 1, UTIL_AICORE = 2, UTIL_AICPU = 3, UTIL_CTRLCPU = 4, UTIL_HBM = 6, UTIL_LAST = 14 };
    int ret = reach(call);
    if (ret != DCMI_OK) {
        return ret;
    }
    const struct sim_device *device = call->device;
    switch (type) {
        case UTIL_MEMORY:
            ret = device->ddr_total_mb == 0 ? DCMI_NOT_SUPPORTED : DCMI_OK;
            *out = device->ddr_total_mb == 0 ? 0 : device->ddr_used_mb * 100 / device->ddr_total_mb;
            return ret;
        case UTIL_AICORE:
            *out = device->util_aicore;
            return DCMI_OK;
        case UTIL_AICPU:
            *out = device->util_aicpu;
            return DCMI_OK;
        case UTIL_CTRLCPU:
            *out = device->util_ctrlcpu;
            return DCMI_OK;
        case UTIL_HBM:
            *out = device->util_hbm;
            return DCMI_OK;
        default:
            *out = 0;
            return type < UTIL_MEMORY || type > UTIL_LAST ? DCMI_PARAMETER : DCMI_OK;
    }
}

static void fill_chip_info(const struct call *call, struct dcmi_chip_info *out)
{
    memset(out, 0, sizeof(*out));
    snprintf((char *)out->chip_type, sizeof(out->chip_type), "%s", call->device->chip_type);
    snprintf((char *)out->chip_name, sizeof(out->chip_name), "%s", call->device->chip_name);
    snprintf((char *)out->chip_ver, sizeof(out->chip_ver), "%s", call->device->chip_ver);
    out->aicore_count = (unsigned)call->device->aicores;
}

int read_chip_info(const struct call *call, struct dcmi_chip_info *out)
{
    int ret = reach(call);
    if (ret == DCMI_OK) {
        fill_chip_info(call, out);
    }
    return ret;
}

int read_chip_info_v2(const struct call *call, struct dcmi_chip_info_v2 *out)
{
    int ret = reach(call);
    if (ret == DCMI_OK) {
        fill_chip_info(call, &out->chip);
        memset(out->npu_name, 0, sizeof(out->npu_name));
        snprintf((char *)out->npu_name, sizeof(out->npu_name), "%s", call->device->chip_name);
    }
    return ret;
}

int read_board_info(const struct call *call, struct dcmi_board_info *out)
{
    if (call->unit == UNIT_MCU) {
        return DCMI_NOT_SUPPORTED;
    }
    int ret = reach(call);
    if (ret == DCMI_OK) {
        const struct sim_device *device = call->device;
        *out = (struct dcmi_board_info){device->board_id, device->board_pcb, device->board_bom, (unsigned)device->slot};
    }
    return ret;
}

int read_pcie_info(const struct call *call, struct dcmi_pcie_info_all *out)
{
    int ret = reach(call);
    if (ret == DCMI_OK) {
        const struct sim_device *device = call->device;
        *out = (struct dcmi_pcie_info_all){
            .vendor_id = device->pci_vendor, .subvendor_id = device->pci_subvendor, .device_id = device->pci_device,
            .subdevice_id = device->pci_subdevice, .domain = device->pci_domain, .bus = (unsigned)device->pci_bus,
            .device = (unsigned)device->pci_dev, .function = (unsigned)device->pci_fn,
        };
    }
    return ret;
}

int read_die(const struct call *call, int type, struct dcmi_die_id *out)
{
    enum { NDIE, VDIE, DDIE };
    int ret = reach(call);
    if (ret == DCMI_OK && (type < NDIE || type > DDIE)) {
        ret = DCMI_PARAMETER;
    }
    if (ret == DCMI_OK && type == NDIE && call->state->generation == GENERATION_910B) {
        ret = DCMI_NOT_SUPPORTED;
    }
    if (ret == DCMI_OK && type != DDIE && call->state->generation == GENERATION_950) {
        ret = DCMI_NOT_SUPPORTED;
    }
    if (ret == DCMI_OK) {
        memcpy(out->word, type == VDIE ? call->device->vdie : call->device->ndie, sizeof(out->word));
    }
    return ret;
}

int read_mainboard(const struct call *call, unsigned *out)
{
    int ret = reach(call);
    if (ret == DCMI_OK) {
        *out = call->device->mainboard;
    }
    return ret;
}

int read_network_health(const struct call *call, int *out)
{
    int ret = reach(call);
    if (ret == DCMI_OK) {
        *out = call->device->net_health;
    }
    return ret;
}

int read_processes(const struct call *call, struct dcmi_proc_mem_info *out, int *count)
{
    int ret = reach(call);
    if (ret == DCMI_OK && count == NULL) {
        ret = DCMI_PARAMETER;
    }
    if (ret == DCMI_OK) {
        memcpy(out, call->device->processes, (size_t)call->device->process_count * sizeof(*out));
        *count = call->device->process_count;
    }
    return ret;
}

int read_ip(const struct call *call, int port_type, struct dcmi_ip_addr *ip, struct dcmi_ip_addr *mask)
{
    enum { PORT_ROCE = 1 };
    int ret = reach(call);
    if (ret == DCMI_OK) {
        ret = mask == NULL ? DCMI_PARAMETER : port_type != PORT_ROCE ? DCMI_NOT_SUPPORTED : DCMI_OK;
    }
    if (ret == DCMI_OK && call->device->ip[0] == '\0') {
        ret = DCMI_CONFIG_MISSING;
    }
    if (ret == DCMI_OK) {
        memset(ip, 0, sizeof(*ip));
        memset(mask, 0, sizeof(*mask));
        ret = inet_pton(AF_INET, call->device->ip, ip->address) == 1 &&
            inet_pton(AF_INET, call->device->mask, mask->address) == 1 ? DCMI_OK : DCMI_INNER;
    }
    return ret;
}

/* Copy a structure of `needed` bytes into a buffer whose size the caller gives and learns. */
static int give(void *out, unsigned *size, const void *data, unsigned needed)
{
    if (size == NULL || *size < needed) {
        return DCMI_PARAMETER;
    }
    memcpy(out, data, needed);
    *size = needed;
    return DCMI_OK;
}

static int read_hccs(const struct call *call, unsigned what, void *out, unsigned *size)
{
    enum { HCCS_STATUS = 0, HCCS_LANES = 1, HCCS_STATISTICS = 3, HCCS_STATISTICS_U64 = 5 };
    const struct sim_device *device = call->device;
    struct dcmi_hccs_status status = {device->hccs_pcs_status, device->hccs_hdlc_status, {0}};
    struct dcmi_hccs_lanes lanes = {0};
    struct dcmi_hccs_statistics narrow = {0};
    struct dcmi_hccs_statistics_u64 wide = {0};
    for (int i = 0; i < device->hccs_count; i++) {
        lanes.link_bitmap |= 1u << i;
        lanes.lane_mode[i] = device->hccs_lanes[i];
        wide.crc[i] = narrow.crc[i] = device->hccs_crc[i];
        wide.retry[i] = narrow.retry[i] = device->hccs_retry[i];
        wide.tx[i] = narrow.tx[i] = 1000001u + (unsigned)i;
        wide.rx[i] = narrow.rx[i] = 2000001u + (unsigned)i;
    }
    switch (what) {
        case HCCS_STATUS:
            return give(out, size, &status, sizeof(status));
        case HCCS_LANES:
            return give(out, size, &lanes, sizeof(lanes));
        case HCCS_STATISTICS:
            return give(out, size, &narrow, sizeof(narrow));
        case HCCS_STATISTICS_U64:
            return give(out, size, &wide, sizeof(wide));
        default:
            return DCMI_NOT_SUPPORTED;
    }
}

int read_ub_ports(const struct call *call, struct dcmi_ub_port_link_status *out)
{
    int ret = reach(call);
    if (ret == DCMI_OK && call->device->ub_count == 0) { /* only some boards can tell */
        ret = DCMI_NOT_SUPPORTED;
    }
    if (ret == DCMI_OK) {
        int there = 0, linked = 0;
        memset(out, 0, sizeof(*out));
        for (int i = 0; i < call->device->ub_count; i++) {
            out->port[i] = (int)call->device->ub_ports[i];
            there += out->port[i] != UB_PORT_NONE;
            linked += out->port[i] == UB_PORT_FULL || out->port[i] == UB_PORT_PARTIAL;
        }
        out->all = !call->device->ub_needed ? UB_NOT_NEEDED :
            linked == 0 ? UB_NO_PORT : linked == there ? UB_ALL_PORTS : UB_SOME_PORTS;
    }
    return ret;
}

/* Of the many components of a chip only the one that passes for the firmware of its generation has a version. */
int read_version(const struct call *call, int component, unsigned char *out, unsigned size)
{
    enum { COMPONENT_IMU = 8, COMPONENT_HILINK = 18 };
    int ret = reach(call);
    if (ret == DCMI_OK && size < VERSION_MIN) {
        ret = DCMI_PARAMETER;
    }
    if (ret == DCMI_OK && component != (call->state->generation == GENERATION_910A ? COMPONENT_IMU : COMPONENT_HILINK)) {
        ret = DCMI_NOT_SUPPORTED;
    }
    if (ret == DCMI_OK) {
        snprintf((char *)out, size, "%s", call->device->firmware);
    }
    return ret;
}

/* Whether driver and firmware fit: 1 they do, 2 they do not, 3 not known. Only root may ask. */
int read_compatibility(const struct call *call, int *out)
{
    int ret = call->state->root ? reach(call) : DCMI_NOT_PERMITTED;
    if (ret == DCMI_OK) {
        *out = call->device->compatibility;
    }
    return ret;
}

int read_info(const struct call *call, int main_command, unsigned what, void *out, unsigned *size)
{
    enum { COMMAND_CHIP = 12, COMMAND_HCCS = 16, CHIP_SPOD = 1 };
    int ret = reach(call);
    if (ret != DCMI_OK) {
        return ret;
    }
    if (main_command == COMMAND_CHIP && what == CHIP_SPOD && call->state->generation == GENERATION_A3) {
        return give(out, size, &call->device->spod, sizeof(call->device->spod));
    }
    return main_command == COMMAND_HCCS && has_hccs(call) ? read_hccs(call, what, out, size) : DCMI_NOT_SUPPORTED;
}
