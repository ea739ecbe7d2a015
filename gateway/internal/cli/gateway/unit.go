package gateway

import (
	"strings"

	"muster/gateway/internal/cli"
)

// unitText is the unit of the service. Only the place of the data and the ports change it, so that an upgrade of the program leaves it as
// it is.
func unitText(f cli.ServeFlags) string {
	capabilities := "# No port below 1024: no capability at all.\nCapabilityBoundingSet=\nAmbientCapabilities="
	if privileged(f.Listen, f.PlainListen) {
		capabilities = "# For a port below 1024, and nothing else.\n" +
			"CapabilityBoundingSet=CAP_NET_BIND_SERVICE\nAmbientCapabilities=CAP_NET_BIND_SERVICE"
	}
	data := "ReadWritePaths=" + f.Data
	if name, ok := strings.CutPrefix(f.Data, "/var/lib/"); ok {
		data = "StateDirectory=" + name + "\nStateDirectoryMode=0700"
	}
	return strings.NewReplacer("@DATA@", data, "@CAPABILITIES@", capabilities).Replace(unitTemplate)
}

const unitTemplate = "# The gateway of a fleet of GPU machines. " +
	"Made by: muster service install, which writes it anew when it is given again.\n" +
	`# Own changes go into a drop-in: systemctl edit muster
[Unit]
Description=muster gateway
Wants=network-online.target
After=network-online.target
# Tried again for ever: a gateway that gave up at night would be missed by every node.
StartLimitIntervalSec=0

[Service]
# The gateway says when its listeners are open, and when it stops.
Type=notify
NotifyAccess=main
User=muster
Group=muster
EnvironmentFile=/etc/muster/gateway.env
# Read by root, and given to this service alone: the key is not where the database is.
LoadCredential=master.key:/etc/muster/master.key
ExecStart=/usr/local/bin/muster serve
Restart=always
RestartSec=2
@DATA@
UMask=0077
# A connection for each of 100,000 nodes, and as many again for their work. Where less is allowed, systemd takes what is.
LimitNOFILE=262144

@CAPABILITIES@
NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes
PrivateDevices=yes
ProtectClock=yes
ProtectHostname=yes
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectControlGroups=yes
ProtectProc=invisible
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
MemoryDenyWriteExecute=yes
RemoveIPC=yes
KeyringMode=private
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallErrorNumber=EPERM

[Install]
WantedBy=multi-user.target
`
