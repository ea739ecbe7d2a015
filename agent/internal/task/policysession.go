package task

import (
	"crypto/ed25519"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"muster/agent/wire"
)

// CheckSession does what Check does, for a type of session. Sessions came after tasks, so the policy must name operators' keys for them
// too. That is not so for reading logs, which changes nothing.
func (p Policy) CheckSession(name string, key ed25519.PublicKey) error {
	if err := p.Check(name, key); err != nil {
		return err
	}
	if name == wire.SessionLogs {
		return nil
	}
	return p.checkNamed(name)
}

// CheckUser refuses a session or a program as this user of the node, if the owner names the allowed users and this is not one of them.
func (p Policy) CheckUser(name string) error {
	if p.SessionUsers == nil || slices.Contains(p.SessionUsers, name) {
		return nil
	}
	return wire.Refuse(wire.CodeTaskForbidden, fmt.Sprintf("the policy of this node allows no session or program as %.32q", name),
		p.otherUsers()+": --user NAME asks for one, or its owner changes session_users in "+PolicyFile+" there")
}

func (p Policy) otherUsers() string {
	if len(p.SessionUsers) == 0 {
		return "it allows no user at all"
	}
	return "it allows " + strings.Join(p.SessionUsers, ", ")
}

// CheckPort refuses a port that the owner does not let sessions reach.
func (p Policy) CheckPort(port int) error {
	if p.ForwardPorts == nil {
		return nil
	}
	for _, text := range p.ForwardPorts {
		if first, last, err := ports(text); err == nil && first <= port && port <= last {
			return nil
		}
	}
	return wire.Refuse(wire.CodeTaskForbidden, fmt.Sprintf("the policy of this node does not allow port %d", port),
		"its owner adds it to forward_ports in "+PolicyFile+" there")
}

// NamesHost reports whether the owner lets sessions reach a host of this name, wherever the name leads.
func (p Policy) NamesHost(name string) bool {
	return slices.ContainsFunc(p.ForwardHosts, func(text string) bool { return strings.EqualFold(text, name) })
}

// CheckAddress refuses an address that is neither the node's own nor one that the owner lets sessions reach.
func (p Policy) CheckAddress(address netip.Addr) error {
	address = address.Unmap()
	if address.IsLoopback() {
		return nil
	}
	for _, text := range p.ForwardHosts {
		if prefix, err := prefixOf(text); err == nil && prefix.Contains(address) {
			return nil
		}
	}
	return wire.Refuse(wire.CodeTaskForbidden, fmt.Sprintf("the policy of this node does not allow connections to %s", address),
		"without forward_hosts in "+PolicyFile+" only the node itself is reached: its owner adds the address, or the name, there")
}

// checkForward refuses what is no port, no address and no name.
func (p Policy) checkForward() error {
	for _, text := range p.ForwardPorts {
		if _, _, err := ports(text); err != nil {
			return err
		}
	}
	for _, text := range p.ForwardHosts {
		if _, err := prefixOf(text); err == nil {
			continue
		}
		if params := (wire.ForwardParams{Host: text, Port: 1}); text == "" || params.Check() != nil {
			return fmt.Errorf("forward_hosts: %.60q is no address, no network such as 10.0.0.0/8, and no name of a host", text)
		}
	}
	return nil
}

// ports reads "22" or "8000-8999".
func ports(text string) (first, last int, err error) {
	from, to, many := strings.Cut(text, "-")
	if !many {
		to = from
	}
	first, err = strconv.Atoi(from)
	if err == nil {
		last, err = strconv.Atoi(to)
	}
	if err != nil || first < 1 || last > 65535 || first > last {
		return 0, 0, fmt.Errorf("forward_ports: %.20q is neither a port, such as \"22\", nor a range, such as \"8000-8999\"", text)
	}
	return first, last, nil
}

// prefixOf reads an address as the network that has it alone, or a network.
func prefixOf(text string) (netip.Prefix, error) {
	if address, err := netip.ParseAddr(text); err == nil {
		address = address.Unmap()
		return netip.PrefixFrom(address, address.BitLen()), nil
	}
	return netip.ParsePrefix(text)
}
