/* One body for each reading, shared by the two interfaces. They look at what call.h found and write the caller's value
 * only when they can; the return codes are those of dcmi_abi.h. */
#ifndef SIM_READINGS_H
#define SIM_READINGS_H

#include "call.h"

int read_ecc(const struct call *call, int type, struct dcmi_ecc_info *out);
int read_hbm(const struct call *call, struct dcmi_hbm_info *out);
int read_memory(const struct call *call, struct dcmi_memory_info *out);
int read_temperature(const struct call *call, int *out);
int read_power(const struct call *call, int *out);
int read_voltage(const struct call *call, unsigned *out);
int read_frequency(const struct call *call, int type, unsigned *out);
int read_utilization(const struct call *call, int type, unsigned *out);
int read_chip_info(const struct call *call, struct dcmi_chip_info *out);
int read_chip_info_v2(const struct call *call, struct dcmi_chip_info_v2 *out);
int read_board_info(const struct call *call, struct dcmi_board_info *out);
int read_pcie_info(const struct call *call, struct dcmi_pcie_info_all *out);
int read_die(const struct call *call, int type, struct dcmi_die_id *out);
int read_mainboard(const struct call *call, unsigned *out);
int read_network_health(const struct call *call, int *out);
int read_processes(const struct call *call, struct dcmi_proc_mem_info *out, int *count);
int read_ip(const struct call *call, int port_type, struct dcmi_ip_addr *ip, struct dcmi_ip_addr *mask);
int read_ub_ports(const struct call *call, struct dcmi_ub_port_link_status *out);
int read_version(const struct call *call, int component, unsigned char *out, unsigned size);
int read_compatibility(const struct call *call, int *out);
int read_info(const struct call *call, int main_command, unsigned what, void *out, unsigned *size);

#endif
