/* The exported readings. Each has one body (readings.c) and two doors: by card and chip (dcmi_*), and by logic id
 * (dcmiv2_*, generation 950). */
#include "readings.h"

#include <string.h>

/* A door: check the pointer, find the chip, let the state file's rules misbehave, then read. */
#define DOOR(BEGIN, READ, POINTER)                                                      \
    {                                                                                   \
        struct call call;                                                               \
        if ((POINTER) == NULL) {                                                        \
            return DCMI_PARAMETER;                                                      \
        }                                                                               \
        int ret = BEGIN;                                                                \
        return call_end(&call, ret != DCMI_OK ? ret : READ);                            \
    }
#define V1(FUNCTION) call_begin_chip(&call, #FUNCTION, card, chip)
#define V2(FUNCTION) call_begin_logic(&call, #FUNCTION, logic)

#define READING(V1_NAME, V2_NAME, READ, TYPE)                                                        \
    DCMI_EXPORT int V1_NAME(int card, int chip, TYPE *out) DOOR(V1(V1_NAME), READ(&call, out), out) \
    DCMI_EXPORT int V2_NAME(int logic, TYPE *out) DOOR(V2(V2_NAME), READ(&call, out), out)

#define READING_OF_KIND(V1_NAME, V2_NAME, READ, TYPE)                                                               \
    DCMI_EXPORT int V1_NAME(int card, int chip, int kind, TYPE *out)                                                \
        DOOR(V1(V1_NAME), READ(&call, kind, out), out)                                                     \
    DCMI_EXPORT int V2_NAME(int logic, int kind, TYPE *out) DOOR(V2(V2_NAME), READ(&call, kind, out), out)

READING_OF_KIND(dcmi_get_device_ecc_info, dcmiv2_get_device_ecc_info, read_ecc, struct dcmi_ecc_info)
READING_OF_KIND(dcmi_get_device_frequency, dcmiv2_get_device_frequency, read_frequency, unsigned)
READING_OF_KIND(dcmi_get_device_utilization_rate, dcmiv2_get_device_utilization_rate, read_utilization, unsigned)
READING_OF_KIND(dcmi_get_device_die_v2, dcmiv2_get_device_die_id, read_die, struct dcmi_die_id)
READING(dcmi_get_device_hbm_info, dcmiv2_get_device_hbm_info, read_hbm, struct dcmi_hbm_info)
READING(dcmi_get_device_temperature, dcmiv2_get_device_temperature, read_temperature, int)
READING(dcmi_get_device_power_info, dcmiv2_get_device_power_info, read_power, int)
READING(dcmi_get_device_voltage, dcmiv2_get_device_voltage, read_voltage, unsigned)
READING(dcmi_get_device_chip_info_v2, dcmiv2_get_device_chip_info, read_chip_info_v2, struct dcmi_chip_info_v2)
READING(dcmi_get_device_board_info, dcmiv2_get_device_board_info, read_board_info, struct dcmi_board_info)
READING(dcmi_get_device_pcie_info_v2, dcmiv2_get_device_pcie_info, read_pcie_info, struct dcmi_pcie_info_all)
READING(dcmi_get_mainboard_id, dcmiv2_get_mainboard_id, read_mainboard, unsigned)
READING(dcmi_get_device_network_health, dcmiv2_get_device_network_health, read_network_health, int)

READING(dcmi_get_device_compatibility, dcmiv2_get_device_compatibility, read_compatibility, int)

DCMI_EXPORT int dcmi_get_device_component_static_version(int card, int chip, int component, unsigned char *out,
    unsigned size)
    DOOR(V1(dcmi_get_device_component_static_version), read_version(&call, component, out, size), out)

DCMI_EXPORT int dcmiv2_get_device_component_static_version(int logic, int component, unsigned char *out, unsigned size)
    DOOR(V2(dcmiv2_get_device_component_static_version), read_version(&call, component, out, size), out)

DCMI_EXPORT int dcmiv2_get_ub_port_link_status(int logic, struct dcmi_ub_port_link_status *out)
    DOOR(V2(dcmiv2_get_ub_port_link_status), read_ub_ports(&call, out), out)

DCMI_EXPORT int dcmi_get_device_chip_info(int card, int chip, struct dcmi_chip_info *out)
    DOOR(V1(dcmi_get_device_chip_info), read_chip_info(&call, out), out)

DCMI_EXPORT int dcmi_get_device_memory_info_v3(int card, int chip, struct dcmi_memory_info *out)
    DOOR(V1(dcmi_get_device_memory_info_v3), read_memory(&call, out), out)

DCMI_EXPORT int dcmi_get_device_resource_info(int card, int chip, struct dcmi_proc_mem_info *out, int *count)
    DOOR(V1(dcmi_get_device_resource_info), read_processes(&call, out, count), out)

DCMI_EXPORT int dcmiv2_get_device_proc_mem_info(int logic, struct dcmi_proc_mem_info *out, int *count)
    DOOR(V2(dcmiv2_get_device_proc_mem_info), read_processes(&call, out, count), out)

DCMI_EXPORT int dcmi_get_device_ip(int card, int chip, int port_type, int port, struct dcmi_ip_addr *ip,
    struct dcmi_ip_addr *mask)
{
    (void)port;
    DOOR(V1(dcmi_get_device_ip), read_ip(&call, port_type, ip, mask), ip)
}

DCMI_EXPORT int dcmi_get_device_info(int card, int chip, int main_command, unsigned what, void *out, unsigned *size)
    DOOR(V1(dcmi_get_device_info), read_info(&call, main_command, what, out, size), out)

DCMI_EXPORT int dcmiv2_get_device_info(int logic, int main_command, unsigned what, void *out, unsigned *size)
    DOOR(V2(dcmiv2_get_device_info), read_info(&call, main_command, what, out, size), out)

static int version(const char *function, enum api api, bool driver, char *out, unsigned size)
{
    struct call call;
    int ret = call_begin(&call, function, api, false);
    if (ret == DCMI_OK) {
        const char *text = driver ? call.state->driver : call.state->dcmi;
        ret = out == NULL || size <= strlen(text) ? DCMI_PARAMETER : DCMI_OK;
        if (ret == DCMI_OK) {
            memcpy(out, text, strlen(text) + 1);
        }
    }
    return call_end(&call, ret);
}

DCMI_EXPORT int dcmi_get_dcmi_version(char *out, unsigned size)
{
    return version("dcmi_get_dcmi_version", API_V1, false, out, size);
}

DCMI_EXPORT int dcmi_get_driver_version(char *out, unsigned size)
{
    return version("dcmi_get_driver_version", API_V1, true, out, size);
}

DCMI_EXPORT int dcmiv2_get_dcmi_version(char *out, unsigned size)
{
    return version("dcmiv2_get_dcmi_version", API_V2, false, out, size);
}

DCMI_EXPORT int dcmiv2_get_driver_version(char *out, unsigned size)
{
    return version("dcmiv2_get_driver_version", API_V2, true, out, size);
}
