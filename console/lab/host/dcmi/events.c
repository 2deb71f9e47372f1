/* Fault events: one subscription per process on a thread of its own, and the polled queue of each calling thread. */
#define _GNU_SOURCE
#include "call.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define POLL_MS 10
#define SUBSCRIBE_MS 20     /* what a subscription takes in the driver */
#define TIMEOUT_MAX_MS 30000
#define ALL_CHIPS (-1)

static struct {
    pthread_mutex_t lock;
    bool active;
    bool spoiled;           /* a first attempt that failed below leaves the process without a second one */
    const char *function;
    dcmi_event_handler handler;
    struct dcmi_event_filter filter;
    int phy;                /* ALL_CHIPS or one */
    int64_t seen;
    struct dcmi_event event; /* one buffer for every event, as in the driver: the callback must copy it */
} subscription = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Polled queue of this thread: its list of chips is overwritten by every call, so what came for others is lost. */
static _Thread_local struct {
    bool registered;
    int phy;
    int64_t seen;
} queue;

/* The ids under which the event reaches this process, or false when it is of a chip the process does not know. */
static bool locate(const struct sim_event *event, struct chip_ids *out)
{
    const struct chip_ids *ids = event->phy != ANY_ID ? registry_by_phy(event->phy) : registry_by_logic(event->logic);
    if (ids != NULL) {
        *out = *ids;
    }
    return ids != NULL;
}

static bool wanted(const struct sim_event *event, const struct dcmi_event_filter *filter)
{
    return (!(filter->flag & FILTER_EVENT_ID) || filter->event_id == event->event_id) &&
        (!(filter->flag & FILTER_SEVERITY) || event->severity >= filter->severity) &&
        (!(filter->flag & FILTER_NODE_TYPE) || filter->node_type == (unsigned char)event->node_type);
}

static void fill(struct dcmi_event *out, const struct sim_event *event, int logic)
{
    memset(out, 0, sizeof(*out));
    struct dcmi_fault_event *fault = &out->fault;
    fault->event_id = event->event_id;
    fault->logic_id = (unsigned short)logic;
    fault->node_type = (unsigned char)event->node_type;     /* cut to 8 bits; whole in node_type_ex */
    fault->node_type_ex = (unsigned short)event->node_type;
    fault->severity = (unsigned char)event->severity;
    fault->assertion = (unsigned char)event->assertion;
    fault->event_serial = fault->notify_serial = (int)event->seq;
    fault->raised_ms = (unsigned long long)event->raised_ms;
    if (event->name[0] != '\0') {
        snprintf(fault->name, sizeof(fault->name), "deviceid=%d, %s", logic, event->name);
    } else {
        snprintf(fault->name, sizeof(fault->name), "deviceid=%d, node type=0x%x, sensor type=0x%x, event=%u", logic,
            event->event_id >> 17 & 0x7FF, event->event_id >> 9 & 0xFF, event->event_id & 0x1FF);
    }
}

/* The oldest event after `seen` that is meant for `phy` and passes the filter. `seen` moves past all that do not. */
static bool next_event(const struct sim_state *state, int64_t *seen, int phy, const struct dcmi_event_filter *filter,
    struct dcmi_event *out)
{
    if (state->newest_seq < *seen) { /* the list was cut by hand: its numbers start anew */
        *seen = state->newest_seq;
    }
    for (;;) {
        const struct sim_event *oldest = NULL;
        for (int i = 0; i < state->event_count; i++) {
            const struct sim_event *event = &state->events[i];
            if (event->seq > *seen && (oldest == NULL || event->seq < oldest->seq)) {
                oldest = event;
            }
        }
        if (oldest == NULL) {
            return false;
        }
        *seen = oldest->seq;
        struct chip_ids ids;
        if (locate(oldest, &ids) && (phy == ALL_CHIPS || phy == ids.phy) && wanted(oldest, filter)) {
            fill(out, oldest, ids.logic);
            return true;
        }
    }
}

static bool switched_off(const struct sim_state *state)
{
    for (int i = 0; i < state->rule_count; i++) {
        const struct sim_rule *rule = &state->rules[i];
        if (rule->has_ret && rule->ret != DCMI_OK && strcmp(rule->function, subscription.function) == 0) {
            return true;
        }
    }
    return false;
}

/* Deliver until the host is gone or the subscription is switched off below; the thread then ends without a word. */
static void *deliver(void *unused)
{
    (void)unused;
    pthread_setname_np(pthread_self(), "fault_event_sub");
    for (;;) {
        struct sim_state *state = state_acquire();
        bool over = state == NULL || switched_off(state) || !state_exists();
        while (!over && next_event(state, &subscription.seen, subscription.phy, &subscription.filter, &subscription.event)) {
            subscription.handler(&subscription.event);
        }
        state_release(state);
        if (over) {
            break;
        }
        nap_ms(POLL_MS);
    }
    pthread_mutex_lock(&subscription.lock);
    subscription.active = false;
    pthread_mutex_unlock(&subscription.lock);
    return NULL;
}

static int start_delivery(const struct call *call, int phy, struct dcmi_event_filter filter, dcmi_event_handler handler)
{
    pthread_mutex_lock(&subscription.lock);
    int ret = subscription.active || subscription.spoiled ? DCMI_OCCUPIED : DCMI_OK;
    if (ret == DCMI_OK) {
        nap_ms(SUBSCRIBE_MS);
        subscription.active = true;
        subscription.function = call->function;
        subscription.handler = handler;
        subscription.filter = filter;
        subscription.phy = phy;
        subscription.seen = call->state->newest_seq;
        pthread_t thread;
        if (pthread_create(&thread, NULL, deliver, NULL) == 0) {
            pthread_detach(thread);
        } else {
            subscription.active = false;
            ret = DCMI_INNER;
        }
    }
    pthread_mutex_unlock(&subscription.lock);
    return ret;
}

static bool allowed(const struct sim_state *state)
{
    return state->root || !state->container;
}

static int subscribe(struct call *call, int ret, struct dcmi_event_filter filter, dcmi_event_handler handler, bool all)
{
    if (call->injected) {
        pthread_mutex_lock(&subscription.lock);
        ret = subscription.active || subscription.spoiled ? DCMI_OCCUPIED : ret;
        subscription.spoiled = true;
        pthread_mutex_unlock(&subscription.lock);
    } else if (ret == DCMI_OK) {
        ret = !registry.ready || call->unit == UNIT_MCU ? DCMI_NOT_SUPPORTED : !allowed(call->state) ? DCMI_NOT_PERMITTED :
            start_delivery(call, all ? ALL_CHIPS : call->ids.phy, filter, handler);
    }
    return call_end(call, ret);
}

DCMI_EXPORT int dcmi_subscribe_fault_event(int card, int chip, struct dcmi_event_filter filter, dcmi_event_handler handler)
{
    static const char name[] = "dcmi_subscribe_fault_event";
    struct call call;
    if (handler == NULL) {
        return DCMI_PARAMETER;
    }
    bool all = card == -1 && chip == -1;
    int ret = all ? call_begin(&call, name, API_V1, true) : call_begin_chip(&call, name, card, chip);
    return subscribe(&call, ret, filter, handler, all);
}

DCMI_EXPORT int dcmiv2_subscribe_fault_event(int logic, struct dcmi_event_filter filter, dcmi_event_handler handler)
{
    static const char name[] = "dcmiv2_subscribe_fault_event";
    struct call call;
    if (handler == NULL) {
        return DCMI_PARAMETER;
    }
    bool all = logic == -1;
    int ret = all ? call_begin(&call, name, API_V2, true) : call_begin_logic(&call, name, logic);
    return subscribe(&call, ret, filter, handler, all);
}

/* Wait for an event of this chip. What the queue holds from before was collected for the chip of the call before. */
static int wait_event(struct call *call, int timeout_ms, const struct dcmi_event_filter *filter, struct dcmi_event *out)
{
    if (call->unit == UNIT_MCU) {
        return DCMI_NOT_SUPPORTED;
    }
    if (!allowed(call->state)) {
        return DCMI_NOT_PERMITTED;
    }
    if (!queue.registered) {
        queue.seen = call->state->newest_seq;
        queue.registered = true;
    } else if (next_event(call->state, &queue.seen, queue.phy, filter, out)) {
        queue.phy = call->ids.phy;
        return DCMI_OK;
    }
    queue.phy = call->ids.phy;
    for (long waited_ms = 0;; waited_ms += POLL_MS) {
        if (next_event(call->state, &queue.seen, queue.phy, filter, out)) {
            return DCMI_OK;
        }
        if ((timeout_ms >= 0 && waited_ms >= timeout_ms) || !state_exists()) {
            memset(out, 0, sizeof(*out));
            return DCMI_TIMEOUT;
        }
        nap_ms(POLL_MS);
        state_release(call->state);
        call->state = state_acquire();
    }
}

DCMI_EXPORT int dcmi_get_fault_event(int card, int chip, int timeout_ms, struct dcmi_event_filter filter,
    struct dcmi_event *out)
{
    struct call call;
    if (out == NULL || timeout_ms < -1 || timeout_ms > TIMEOUT_MAX_MS) {
        return DCMI_PARAMETER;
    }
    int ret = call_begin_chip(&call, "dcmi_get_fault_event", card, chip);
    return call_end(&call, ret != DCMI_OK ? ret : wait_event(&call, timeout_ms, &filter, out));
}

DCMI_EXPORT int dcmiv2_get_fault_event(int logic, int timeout_ms, struct dcmi_event_filter filter, struct dcmi_event *out)
{
    struct call call;
    if (out == NULL || timeout_ms < -1 || timeout_ms > TIMEOUT_MAX_MS) {
        return DCMI_PARAMETER;
    }
    int ret = call_begin_logic(&call, "dcmiv2_get_fault_event", logic);
    return call_end(&call, ret != DCMI_OK ? ret : wait_event(&call, timeout_ms, &filter, out));
}
