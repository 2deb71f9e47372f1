/* Questions about ids, all answered from the registry. */
#include "call.h"

#include <string.h>

DCMI_EXPORT int dcmi_get_card_list(int *count, int *list, int length)
{
    struct call call;
    int ret = call_begin(&call, "dcmi_get_card_list", API_V1, false);
    if (ret == DCMI_OK && !registry.ready) {
        ret = DCMI_INNER;
    }
    if (ret == DCMI_OK && (count == NULL || list == NULL || length < registry.card_count || length <= 0)) {
        ret = DCMI_PARAMETER;
    }
    if (ret == DCMI_OK) {
        memcpy(list, registry.cards, (size_t)registry.card_count * sizeof(list[0]));
        *count = registry.card_count;
    }
    return call_end(&call, ret);
}

DCMI_EXPORT int dcmi_get_card_num_list(int *count, int *list, int length)
{
    return dcmi_get_card_list(count, list, length);
}

DCMI_EXPORT int dcmi_get_device_num_in_card(int card, int *count)
{
    struct call call;
    int ret = call_begin(&call, "dcmi_get_device_num_in_card", API_V1, false);
    if (ret == DCMI_OK && count == NULL) {
        ret = DCMI_PARAMETER;
    }
    if (ret == DCMI_OK) {
        *count = registry_chips_of(card);
        ret = *count == 0 && registry.ready ? DCMI_PARAMETER : DCMI_OK;
    }
    return call_end(&call, ret);
}

DCMI_EXPORT int dcmi_get_device_id_in_card(int card, int *chips, int *mcu, int *cpu)
{
    struct call call;
    int ret = call_begin_ids(&call, "dcmi_get_device_id_in_card");
    if (ret == DCMI_OK && (chips == NULL || mcu == NULL || cpu == NULL || registry_chips_of(card) == 0)) {
        ret = DCMI_PARAMETER;
    }
    if (ret == DCMI_OK) {
        *chips = *mcu = registry_chips_of(card);
        *cpu = -1;
    }
    return call_end(&call, ret);
}

/* The unit behind card and chip: its ids for a chip, NULL for the management controller. */
static int find_unit(int card, int chip, const struct chip_ids **found)
{
    int chips = registry_chips_of(card);
    *found = NULL;
    for (int i = 0; i < registry.chip_count; i++) {
        if (registry.chips[i].card == card && registry.chips[i].chip == chip) {
            *found = &registry.chips[i];
            return DCMI_OK;
        }
    }
    return chips > 0 && chip == chips ? DCMI_OK : DCMI_PARAMETER;
}

DCMI_EXPORT int dcmi_get_device_type(int card, int chip, int *type)
{
    struct call call;
    const struct chip_ids *ids = NULL;
    int ret = call_begin_ids(&call, "dcmi_get_device_type");
    if (ret == DCMI_OK) {
        ret = type == NULL ? DCMI_PARAMETER : find_unit(card, chip, &ids);
    }
    if (ret == DCMI_OK) {
        *type = ids == NULL ? UNIT_MCU : UNIT_NPU;
    }
    return call_end(&call, ret);
}

DCMI_EXPORT int dcmi_get_device_logic_id(int *logic, int card, int chip)
{
    struct call call;
    const struct chip_ids *ids = NULL;
    int ret = call_begin_ids(&call, "dcmi_get_device_logic_id");
    if (ret == DCMI_OK) {
        ret = logic == NULL ? DCMI_PARAMETER : find_unit(card, chip, &ids);
    }
    if (ret == DCMI_OK) {
        ret = ids == NULL ? DCMI_NOT_SUPPORTED : DCMI_OK;
    }
    if (ret == DCMI_OK) {
        *logic = ids->logic;
    }
    return call_end(&call, ret);
}

DCMI_EXPORT int dcmi_get_device_phyid_from_logicid(unsigned logic, unsigned *phy)
{
    struct call call;
    int ret = call_begin_ids(&call, "dcmi_get_device_phyid_from_logicid");
    const struct chip_ids *ids = registry_by_logic((int)logic);
    if (ret == DCMI_OK) {
        ret = phy == NULL ? DCMI_PARAMETER : ids == NULL ? DCMI_INVALID_ID : DCMI_OK;
    }
    if (ret == DCMI_OK) {
        *phy = (unsigned)ids->phy;
    }
    return call_end(&call, ret);
}

DCMI_EXPORT int dcmi_get_device_logicid_from_phyid(unsigned phy, unsigned *logic)
{
    struct call call;
    int ret = call_begin_ids(&call, "dcmi_get_device_logicid_from_phyid");
    const struct chip_ids *ids = registry_by_phy((int)phy);
    if (ret == DCMI_OK) {
        ret = logic == NULL ? DCMI_PARAMETER : ids == NULL ? DCMI_INVALID_ID : DCMI_OK;
    }
    if (ret == DCMI_OK) {
        *logic = (unsigned)ids->logic;
    }
    return call_end(&call, ret);
}

static int card_and_chip(const char *function, const struct chip_ids *ids, int *card, int *chip)
{
    struct call call;
    int ret = call_begin_ids(&call, function);
    if (ret == DCMI_OK) {
        ret = card == NULL || chip == NULL ? DCMI_PARAMETER : ids == NULL ? DCMI_NO_DEVICE : DCMI_OK;
    }
    if (ret == DCMI_OK) {
        *card = ids->card;
        *chip = ids->chip;
    }
    return call_end(&call, ret);
}

DCMI_EXPORT int dcmi_get_card_id_device_id_from_logicid(int *card, int *chip, unsigned logic)
{
    return card_and_chip("dcmi_get_card_id_device_id_from_logicid", registry_by_logic((int)logic), card, chip);
}

DCMI_EXPORT int dcmi_get_card_id_device_id_from_phyid(int *card, int *chip, unsigned phy)
{
    return card_and_chip("dcmi_get_card_id_device_id_from_phyid", registry_by_phy((int)phy), card, chip);
}

DCMI_EXPORT int dcmiv2_get_device_list(int *list, int *count, int length)
{
    struct call call;
    int ret = call_begin(&call, "dcmiv2_get_device_list", API_V2, false);
    if (ret == DCMI_OK && !registry.ready) {
        ret = DCMI_INNER;
    }
    if (ret == DCMI_OK && (count == NULL || list == NULL || length < registry.chip_count || length <= 0)) {
        ret = DCMI_PARAMETER;
    }
    if (ret == DCMI_OK) {
        for (int i = 0; i < registry.chip_count; i++) {
            list[i] = registry.chips[i].logic;
        }
        *count = registry.chip_count;
    }
    return call_end(&call, ret);
}

DCMI_EXPORT int dcmiv2_get_chip_phy_id_by_dev_id(unsigned logic, unsigned *phy)
{
    struct call call;
    int ret = call_begin(&call, "dcmiv2_get_chip_phy_id_by_dev_id", API_V2, false);
    const struct chip_ids *ids = registry_by_logic((int)logic);
    if (ret == DCMI_OK) {
        ret = phy == NULL ? DCMI_PARAMETER : ids == NULL ? DCMI_INVALID_ID : DCMI_OK;
    }
    if (ret == DCMI_OK) {
        *phy = (unsigned)ids->phy;
    }
    return call_end(&call, ret);
}

DCMI_EXPORT int dcmiv2_get_dev_id_by_chip_phy_id(unsigned phy, unsigned *logic)
{
    struct call call;
    int ret = call_begin(&call, "dcmiv2_get_dev_id_by_chip_phy_id", API_V2, false);
    const struct chip_ids *ids = registry_by_phy((int)phy);
    if (ret == DCMI_OK) {
        ret = logic == NULL ? DCMI_PARAMETER : ids == NULL ? DCMI_INVALID_ID : DCMI_OK;
    }
    if (ret == DCMI_OK) {
        *logic = (unsigned)ids->logic;
    }
    return call_end(&call, ret);
}
