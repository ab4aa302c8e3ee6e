/* dist/own_address.h - the address by which this machine is reached. */
#ifndef SR1__DIST_OWN_ADDRESS_H
#define SR1__DIST_OWN_ADDRESS_H

#include "base/error.h"
#include "dist/launch.h"

/* The local address of a socket towards host, as a number; nothing is sent. The name of
 * the machine itself is often 127.0.1.1 in its own list of hosts, by which no other
 * machine finds it. SR1_E_NETWORK if the host has no address. */
sr1_status sr1__own_address(const char *host, uint16_t port, char out[SR1__HOST_MAX]);

#endif
