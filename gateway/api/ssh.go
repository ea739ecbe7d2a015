package api

import (
	"strconv"
	"strings"
)

// Labels of a node that say how ssh logs in there. muster ssh-config reads them.
const (
	LabelSSHUser = "ssh_user"
	LabelSSHPort = "ssh_port"
)

// SSH is how ssh logs in on a node, as far as its labels say it.
type SSH struct {
	User string // empty: unknown
	Port int    // 0: unknown
}

// SSHOf reads the labels of a node. A value that ssh could take for something else counts as unknown: a node may choose its labels.
func SSHOf(labels map[string]string) SSH {
	var s SSH
	if user := labels[LabelSSHUser]; strings.Trim(user, sshUserBytes) == "" && !strings.HasPrefix(user, "-") && len(user) <= mostSSHUser {
		s.User = user
	}
	if port, err := strconv.Atoi(labels[LabelSSHPort]); err == nil && port > 0 && port <= 65535 {
		s.Port = port
	}
	return s
}

const (
	sshUserBytes = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-@"
	mostSSHUser  = 64 // characters
)
