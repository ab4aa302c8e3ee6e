/* config/alarm_names.c - names and texts of the alarms of a run. */
#include <searchr1/ext/run_info.h>

static const struct {
    const char *name;
    const char *text;
} alarms[] = {
#define ALARM(name, text) {#name, text},
#include "config/alarms.def"
#undef ALARM
};

const char *sr1_alarm_name(size_t i)
{
    return i < sizeof(alarms) / sizeof(alarms[0]) ? alarms[i].name : NULL;
}

const char *sr1_alarm_text(size_t i)
{
    return i < sizeof(alarms) / sizeof(alarms[0]) ? alarms[i].text : NULL;
}
