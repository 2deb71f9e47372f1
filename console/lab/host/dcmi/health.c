/* Health, error codes and boot status: the readings that say whether a chip works.
 *
 * Look at the return code before the value: a chip that is gone has health 0xFFFFFFFF with return code 0, and one
 * whose health cannot be read may leave a 0 in the value.
 */
#include "call.h"

#include <stdio.h>
#include <string.h>

/* What the caller finds in the value when the reading itself fails. */
static unsigned value_on_failure(int ret)
{
    return ret == DCMI_IOCTL ? HEALTH_OK : ret == DCMI_NOT_READY ? HEALTH_ABSENT : HEALTH_NOT_READ;
}

static int read_health(const struct call *call, unsigned *health)
{
    if (call->unit == UNIT_MCU) {
        *health = HEALTH_OK;
        return DCMI_OK;
    }
    if (!call_present(call)) {
        *health = HEALTH_ABSENT;
        return DCMI_OK;
    }
    int ret = call->device->occupied ? DCMI_OCCUPIED : call->device->boot_status != BOOT_STARTED ? DCMI_NOT_READY : DCMI_OK;
    if (ret != DCMI_OK) {
        *health = value_on_failure(ret);
        return ret;
    }
    *health = call->device->comm_lost ? HEALTH_CRITICAL : call->device->health;
    return *health > HEALTH_CRITICAL ? DCMI_PARAMETER : DCMI_OK;
}

static int finish_health(struct call *call, int ret, unsigned *health)
{
    if (call->injected) {
        *health = value_on_failure(ret);
    } else if (ret == DCMI_OK) {
        ret = read_health(call, health);
    }
    return call_end(call, ret);
}

DCMI_EXPORT int dcmi_get_device_health(int card, int chip, unsigned *health)
{
    struct call call;
    if (health == NULL) {
        return DCMI_PARAMETER;
    }
    int ret = call_begin_chip(&call, "dcmi_get_device_health", card, chip);
    return finish_health(&call, ret, health);
}

DCMI_EXPORT int dcmiv2_get_device_health(int logic, unsigned *health)
{
    struct call call;
    if (health == NULL) {
        return DCMI_PARAMETER;
    }
    int ret = call_begin_logic(&call, "dcmiv2_get_device_health", logic);
    return finish_health(&call, ret, health);
}

static int driver_health(const char *function, enum api api, unsigned *health)
{
    struct call call;
    if (health == NULL) {
        return DCMI_PARAMETER;
    }
    int ret = call_begin(&call, function, api, true);
    if (ret == DCMI_OK) {
        *health = HEALTH_OK;
        for (int i = 0; i < call.state->device_count; i++) {
            const struct sim_device *device = &call.state->devices[i];
            unsigned its = device->comm_lost ? HEALTH_CRITICAL : device->health;
            *health = device->enumerated && device->alive && its > *health ? its : *health;
        }
    }
    return call_end(&call, ret);
}

DCMI_EXPORT int dcmi_get_driver_health(unsigned *health)
{
    return driver_health("dcmi_get_driver_health", API_V1, health);
}

DCMI_EXPORT int dcmiv2_get_driver_health(unsigned *health)
{
    return driver_health("dcmiv2_get_driver_health", API_V2, health);
}

static int read_codes(const struct call *call, int *count, unsigned *list, unsigned length)
{
    if (call->unit == UNIT_MCU) {
        *count = 0;
        return DCMI_OK;
    }
    if (!call_present(call) || call->device->occupied || call->device->code_count > CODES_MAX) {
        return DCMI_INNER;
    }
    if (length < (unsigned)call->device->code_count) {
        return DCMI_PARAMETER;
    }
    memcpy(list, call->device->codes, (size_t)call->device->code_count * sizeof(list[0]));
    *count = call->device->code_count;
    return DCMI_OK;
}

DCMI_EXPORT int dcmi_get_device_errorcode_v2(int card, int chip, int *count, unsigned *list, unsigned length)
{
    struct call call;
    if (count == NULL || list == NULL || length == 0) {
        return DCMI_PARAMETER;
    }
    int ret = call_begin_chip(&call, "dcmi_get_device_errorcode_v2", card, chip);
    return call_end(&call, ret != DCMI_OK ? ret : read_codes(&call, count, list, length));
}

DCMI_EXPORT int dcmiv2_get_device_error_code_list(int logic, int *count, unsigned *list, unsigned length)
{
    struct call call;
    if (count == NULL || list == NULL || length == 0) {
        return DCMI_PARAMETER;
    }
    int ret = call_begin_logic(&call, "dcmiv2_get_device_error_code_list", logic);
    return call_end(&call, ret != DCMI_OK ? ret : read_codes(&call, count, list, length));
}

/* Without its text table the driver describes a code by its fields: node type, sensor type and event. */
static int describe(const struct call *call, unsigned code, unsigned char *text, int size)
{
    if (call->unit == UNIT_MCU) {
        return DCMI_INNER;
    }
    snprintf((char *)text, (size_t)size, "node type=0x%x, sensor type=0x%x, event=%u", code >> 17 & 0x7FF, code >> 9 & 0xFF,
        code & 0x1FF);
    return DCMI_OK;
}

DCMI_EXPORT int dcmi_get_device_errorcode_string(int card, int chip, unsigned code, unsigned char *text, int size)
{
    struct call call;
    if (text == NULL || size < CODE_TEXT_MIN) {
        return DCMI_PARAMETER;
    }
    int ret = call_begin_chip(&call, "dcmi_get_device_errorcode_string", card, chip);
    return call_end(&call, ret != DCMI_OK ? ret : describe(&call, code, text, size));
}

DCMI_EXPORT int dcmiv2_get_device_error_info(int logic, unsigned code, unsigned char *text, int size)
{
    struct call call;
    if (text == NULL || size < CODE_TEXT_MIN) {
        return DCMI_PARAMETER;
    }
    int ret = call_begin_logic(&call, "dcmiv2_get_device_error_info", logic);
    return call_end(&call, ret != DCMI_OK ? ret : describe(&call, code, text, size));
}

static int read_boot_status(const struct call *call, int *status)
{
    if (call->unit == UNIT_MCU) {
        return DCMI_NOT_SUPPORTED;
    }
    *status = BOOT_UNINITIALISED;
    if (!call_present(call)) {
        return DCMI_PARAMETER;
    }
    if (call->device->occupied) {
        return DCMI_OCCUPIED;
    }
    int is = call->device->boot_status;
    *status = is == BOOT_STARTED || is == BOOT_FINISHED ? is : BOOT_UNINITIALISED;
    return DCMI_OK;
}

DCMI_EXPORT int dcmi_get_device_boot_status(int card, int chip, int *status)
{
    struct call call;
    if (status == NULL) {
        return DCMI_PARAMETER;
    }
    int ret = call_begin_chip(&call, "dcmi_get_device_boot_status", card, chip);
    return call_end(&call, ret != DCMI_OK ? ret : read_boot_status(&call, status));
}

DCMI_EXPORT int dcmiv2_get_device_boot_status(int logic, int *status)
{
    struct call call;
    if (status == NULL) {
        return DCMI_PARAMETER;
    }
    int ret = call_begin_logic(&call, "dcmiv2_get_device_boot_status", logic);
    return call_end(&call, ret != DCMI_OK ? ret : read_boot_status(&call, status));
}
