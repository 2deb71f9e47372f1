/* From the JSON text of the state file to struct sim_state. Missing keys keep their defaults, as in state.py. */
#include "json.h"
#include "state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where we are in the file, and the first thing that was wrong there. */
struct reader {
    char where[128];
    char *error;
    size_t error_size;
};

static void complain(struct reader *reader, const char *key, const char *reason)
{
    if (reader->error[0] == '\0') {
        snprintf(reader->error, reader->error_size, "%s%s%s: %s", reader->where, reader->where[0] ? "." : "", key, reason);
    }
}

static const struct json *member(struct reader *reader, const struct json *object, const char *key, enum json_kind kind,
    const char *expected)
{
    const struct json *value = json_member(object, key);
    if (value == NULL || value->kind == JSON_NULL) {
        return NULL;
    }
    if (value->kind != kind) {
        complain(reader, key, expected);
        return NULL;
    }
    return value;
}

static double number(struct reader *reader, const struct json *object, const char *key, double otherwise)
{
    const struct json *value = member(reader, object, key, JSON_NUMBER, "expected a number");
    return value == NULL ? otherwise : value->number;
}

static int integer(struct reader *reader, const struct json *object, const char *key, int otherwise)
{
    double value = number(reader, object, key, otherwise);
    if (value < -2147483648.0 || value > 4294967295.0) {
        complain(reader, key, "number out of range");
        return otherwise;
    }
    return (int)(int64_t)value;
}

static bool boolean(struct reader *reader, const struct json *object, const char *key, bool otherwise)
{
    const struct json *value = member(reader, object, key, JSON_BOOL, "expected true or false");
    return value == NULL ? otherwise : value->boolean;
}

static void string(struct reader *reader, const struct json *object, const char *key, char *out, size_t size)
{
    const struct json *value = member(reader, object, key, JSON_STRING, "expected a string");
    if (value != NULL) {
        snprintf(out, size, "%s", value->string);
    }
}

static unsigned hex_text(struct reader *reader, const char *key, const struct json *value)
{
    char *rest = NULL;
    unsigned long parsed = value->kind == JSON_STRING ? strtoul(value->string, &rest, 16) : 0;
    if (rest == NULL || rest == value->string || *rest != '\0' || parsed > 0xFFFFFFFFul) {
        complain(reader, key, "expected up to 8 hexadecimal digits in a string");
        return 0;
    }
    return (unsigned)parsed;
}

static unsigned hex(struct reader *reader, const struct json *object, const char *key, unsigned otherwise)
{
    const struct json *value = json_member(object, key);
    return value == NULL ? otherwise : hex_text(reader, key, value);
}

static const struct json *section(struct reader *reader, const struct json *object, const char *key)
{
    return member(reader, object, key, JSON_OBJECT, "expected an object");
}

static const struct json *list(struct reader *reader, const struct json *object, const char *key)
{
    return member(reader, object, key, JSON_ARRAY, "expected a list");
}

/* Copy at most `max` numbers; what is not given stays as it is. Returns how many there were. */
static int numbers(struct reader *reader, const struct json *object, const char *key, unsigned *out, int max)
{
    const struct json *values = list(reader, object, key);
    int count = 0;
    for (const struct json *value = values == NULL ? NULL : values->first; value && count < max; value = value->next) {
        if (value->kind != JSON_NUMBER) {
            complain(reader, key, "expected numbers");
            return count;
        }
        out[count++] = (unsigned)(int64_t)value->number;
    }
    return count;
}

static int length(const struct json *values)
{
    int count = 0;
    for (const struct json *value = values == NULL ? NULL : values->first; value != NULL; value = value->next) {
        count++;
    }
    return count;
}

static void read_codes(struct reader *reader, const struct json *object, struct sim_device *device)
{
    const struct json *codes = list(reader, object, "error_codes");
    for (const struct json *code = codes == NULL ? NULL : codes->first; code != NULL; code = code->next) {
        if (device->code_count < CODES_READ_MAX) {
            device->codes[device->code_count++] = hex_text(reader, "error_codes", code);
        }
    }
}

static void read_processes(struct reader *reader, const struct json *object, struct sim_device *device)
{
    const struct json *processes = list(reader, object, "procs");
    for (const struct json *process = processes == NULL ? NULL : processes->first; process; process = process->next) {
        if (device->process_count < PROCESSES_MAX) {
            struct dcmi_proc_mem_info *out = &device->processes[device->process_count++];
            out->pid = integer(reader, process, "pid", 0);
            out->bytes = (unsigned long)number(reader, process, "mb", 0) << 20;
        }
    }
}

static void read_hardware(struct reader *reader, const struct json *object, struct sim_device *device)
{
    string(reader, object, "chip_name", device->chip_name, sizeof(device->chip_name));
    string(reader, object, "chip_type", device->chip_type, sizeof(device->chip_type));
    string(reader, object, "chip_ver", device->chip_ver, sizeof(device->chip_ver));
    device->aicores = integer(reader, object, "aicores", 20);
    const struct json *pci = section(reader, object, "pci");
    device->pci_domain = integer(reader, pci, "domain", 0);
    device->pci_bus = integer(reader, pci, "bus", 0);
    device->pci_dev = integer(reader, pci, "dev", 0);
    device->pci_fn = integer(reader, pci, "fn", 0);
    device->pci_vendor = hex(reader, pci, "vendor", 0x19e5);
    device->pci_device = hex(reader, pci, "device", 0xd802);
    device->pci_subvendor = hex(reader, pci, "subvendor", 0x0200);
    device->pci_subdevice = hex(reader, pci, "subdevice", 0x0100);
    const struct json *board = section(reader, object, "board");
    device->board_id = (unsigned)integer(reader, board, "board_id", 0);
    device->board_pcb = (unsigned)integer(reader, board, "pcb", 1);
    device->board_bom = (unsigned)integer(reader, board, "bom", 1);
    device->mainboard = (unsigned)integer(reader, board, "mainboard", 0);
    const struct json *die = section(reader, object, "die");
    numbers(reader, die, "v", device->vdie, 5);
    numbers(reader, die, "n", device->ndie, 5);
}

static void read_metrics(struct reader *reader, const struct json *object, struct sim_device *device)
{
    device->temp_c = integer(reader, object, "temp", 45);
    device->power_dw = integer(reader, object, "power_dw", 932);
    device->voltage_cv = (unsigned)integer(reader, object, "volt_cv", 89);
    const struct json *freq = section(reader, object, "freq");
    device->freq_aicore_mhz = (unsigned)integer(reader, freq, "aicore", 1800);
    device->freq_hbm_mhz = (unsigned)integer(reader, freq, "hbm", 1600);
    const struct json *util = section(reader, object, "util");
    device->util_aicore = (unsigned)integer(reader, util, "aicore", 0);
    device->util_hbm = (unsigned)integer(reader, util, "hbm", 5);
    device->util_aicpu = (unsigned)integer(reader, util, "aicpu", 0);
    device->util_ctrlcpu = (unsigned)integer(reader, util, "ctrlcpu", 1);
    const struct json *hbm = section(reader, object, "hbm");
    device->hbm_total_mb = (unsigned)integer(reader, hbm, "total", 65536);
    device->hbm_used_mb = (unsigned)integer(reader, hbm, "used", 3445);
    device->hbm_temp_c = integer(reader, hbm, "temp", 52);
    const struct json *ddr = section(reader, object, "ddr");
    device->ddr_total_mb = (unsigned)integer(reader, ddr, "total", 0);
    device->ddr_used_mb = (unsigned)integer(reader, ddr, "used", 0);
    device->ecc[ECC_ENABLED] = 1;
    numbers(reader, section(reader, object, "ecc"), "hbm", device->ecc, ECC_FIELDS);
}

static void read_links(struct reader *reader, const struct json *object, struct sim_device *device)
{
    const struct json *net = section(reader, object, "net");
    device->net_health = integer(reader, net, "net_health", 0);
    snprintf(device->mask, sizeof(device->mask), "255.255.255.0");
    string(reader, net, "ip", device->ip, sizeof(device->ip));
    string(reader, net, "mask", device->mask, sizeof(device->mask));
    const struct json *hccs = section(reader, object, "hccs");
    device->hccs_pcs_status = (unsigned)integer(reader, hccs, "pcs_status", 0);
    device->hccs_hdlc_status = (unsigned)integer(reader, hccs, "hdlc", 3);
    device->hccs_count = numbers(reader, hccs, "lanes", device->hccs_lanes, HCCS_LINKS_MAX);
    numbers(reader, hccs, "crc", device->hccs_crc, HCCS_LINKS_MAX);
    numbers(reader, hccs, "retry", device->hccs_retry, HCCS_LINKS_MAX);
    const struct json *spod = section(reader, object, "spod");
    device->spod.sdid = (unsigned)integer(reader, spod, "sdid", 0);
    device->spod.size = (unsigned)integer(reader, spod, "size", 0);
    device->spod.pod = (unsigned)integer(reader, spod, "pod", 0);
    device->spod.server = (unsigned)integer(reader, spod, "server", 0);
    const struct json *ub = section(reader, object, "ub");
    device->ub_needed = boolean(reader, ub, "needed", true);
    device->ub_count = numbers(reader, ub, "ports", device->ub_ports, UB_PORTS);
}

static void read_device(struct reader *reader, const struct json *object, struct sim_device *device)
{
    if (json_member(object, "phy") == NULL || json_member(object, "card") == NULL) {
        complain(reader, "phy, card", "missing");
    }
    device->card = integer(reader, object, "card", 0);
    device->chip = integer(reader, object, "chip", 0);
    device->logic = integer(reader, object, "logic", 0);
    device->phy = integer(reader, object, "phy", 0);
    device->slot = integer(reader, object, "slot", 0);
    device->enumerated = boolean(reader, object, "enumerated", true);
    device->alive = boolean(reader, object, "alive", true);
    device->occupied = boolean(reader, object, "occupied", false);
    device->comm_lost = boolean(reader, object, "comm_lost", false);
    device->boot_status = integer(reader, object, "boot_status", BOOT_STARTED);
    device->health = (unsigned)integer(reader, object, "health", 0);
    string(reader, object, "firmware", device->firmware, sizeof(device->firmware));
    device->compatibility = integer(reader, object, "compatibility", 1);
    read_codes(reader, object, device);
    read_processes(reader, object, device);
    read_hardware(reader, object, device);
    read_metrics(reader, object, device);
    read_links(reader, object, device);
}

static void read_event(struct reader *reader, const struct json *object, struct sim_event *event)
{
    event->seq = (int64_t)number(reader, object, "seq", 0);
    event->raised_ms = (int64_t)number(reader, object, "raised_ms", 0);
    event->event_id = hex(reader, object, "event_id", 0);
    event->phy = integer(reader, object, "phy", ANY_ID);
    event->logic = integer(reader, object, "logic", ANY_ID);
    event->severity = integer(reader, object, "severity", 3);
    event->assertion = integer(reader, object, "assertion", 1);
    event->node_type = integer(reader, object, "node_type", 0);
    string(reader, object, "name", event->name, sizeof(event->name));
}

static void read_rule(struct reader *reader, const char *function, const struct json *object, struct sim_rule *rule)
{
    snprintf(rule->function, sizeof(rule->function), "%s", function);
    rule->has_ret = member(reader, object, "ret", JSON_NUMBER, "expected a number") != NULL;
    rule->ret = integer(reader, object, "ret", 0);
    rule->delay_ms = integer(reader, object, "delay_ms", 0);
    rule->hang = boolean(reader, object, "hang", false);
    const struct json *match = section(reader, object, "match");
    rule->card = integer(reader, match, "card", ANY_ID);
    rule->chip = integer(reader, match, "chip", ANY_ID);
    rule->logic = integer(reader, match, "logic", ANY_ID);
    rule->phy = integer(reader, match, "phy", ANY_ID);
}

/* A function has one rule or a list of them. */
static bool read_rules(struct reader *reader, const struct json *functions, struct sim_state *state)
{
    int total = 0;
    for (const struct json *entry = functions == NULL ? NULL : functions->first; entry != NULL; entry = entry->next) {
        total += entry->kind == JSON_ARRAY ? length(entry) : 1;
    }
    state->rules = calloc((size_t)total + 1, sizeof(*state->rules));
    if (state->rules == NULL) {
        return false;
    }
    for (const struct json *entry = functions == NULL ? NULL : functions->first; entry != NULL; entry = entry->next) {
        snprintf(reader->where, sizeof(reader->where), "faults.dcmi.%s", entry->key);
        const struct json *rule = entry->kind == JSON_ARRAY ? entry->first : entry;
        for (; rule != NULL; rule = entry->kind == JSON_ARRAY ? rule->next : NULL) {
            if (rule->kind != JSON_OBJECT) {
                complain(reader, "rule", "expected an object");
            }
            read_rule(reader, entry->key, rule, &state->rules[state->rule_count++]);
        }
    }
    return true;
}

static bool read_generation(const char *name, enum generation *out)
{
    static const char *const names[] = {"310P", "910A", "910B", "A3", "950"};
    for (int i = 0; i < (int)(sizeof(names) / sizeof(names[0])); i++) {
        if (strcmp(name, names[i]) == 0) {
            *out = (enum generation)i;
            return true;
        }
    }
    return false;
}

static bool read_top(struct reader *reader, const struct json *root, struct sim_state *state)
{
    char generation[8] = "910B";
    string(reader, root, "generation", generation, sizeof(generation));
    if (!read_generation(generation, &state->generation)) {
        complain(reader, "generation", "expected 310P, 910A, 910B, A3 or 950");
    }
    string(reader, root, "driver", state->driver, sizeof(state->driver));
    string(reader, root, "dcmi", state->dcmi, sizeof(state->dcmi));
    const struct json *host = section(reader, root, "host");
    state->root = boolean(reader, host, "root", true);
    state->container = boolean(reader, host, "container", false);
    const struct json *faults = section(reader, root, "faults");
    const struct json *init = section(reader, faults, "init");
    state->init_ret = integer(reader, init, "ret", 0);
    state->init_delay_ms = integer(reader, init, "delay_ms", 20);
    state->init_hang = boolean(reader, init, "hang", false);

    const struct json *devices = list(reader, root, "devices");
    const struct json *events = list(reader, root, "events");
    if (devices == NULL) {
        complain(reader, "devices", "missing");
    }
    state->devices = calloc((size_t)length(devices) + 1, sizeof(*state->devices));
    state->events = calloc((size_t)length(events) + 1, sizeof(*state->events));
    if (state->devices == NULL || state->events == NULL) {
        return false;
    }
    for (const struct json *item = devices == NULL ? NULL : devices->first; item != NULL; item = item->next) {
        snprintf(reader->where, sizeof(reader->where), "devices[%d]", state->device_count);
        read_device(reader, item, &state->devices[state->device_count++]);
    }
    for (const struct json *item = events == NULL ? NULL : events->first; item != NULL; item = item->next) {
        snprintf(reader->where, sizeof(reader->where), "events[%d]", state->event_count);
        struct sim_event *event = &state->events[state->event_count++];
        read_event(reader, item, event);
        state->newest_seq = event->seq > state->newest_seq ? event->seq : state->newest_seq;
    }
    return read_rules(reader, section(reader, faults, "dcmi"), state);
}

struct sim_state *state_parse(const char *text, size_t size, char *error, size_t error_size)
{
    error[0] = '\0';
    struct json_document *document = json_parse(text, size, error, error_size);
    if (document == NULL) {
        return NULL;
    }
    struct reader reader = {.error = error, .error_size = error_size};
    struct sim_state *state = calloc(1, sizeof(*state));
    if (state == NULL || !read_top(&reader, json_root(document), state)) {
        snprintf(error, error_size, "out of memory");
    }
    json_free(document);
    if (error[0] != '\0') {
        state_free(state);
        return NULL;
    }
    return state;
}

void state_free(struct sim_state *state)
{
    if (state != NULL) {
        free(state->rules);
        free(state->devices);
        free(state->events);
        free(state);
    }
}
