package join

import (
	"bytes"
	"fmt"
	"net"
	"strconv"
	"strings"

	"muster/agent/wire"
	"muster/gateway/internal/cli"
)

// box is a machine to join.
type box struct {
	host string // user@address, or a name of ssh's configuration; an IPv6 address without brackets
	port string // ""; as --port or ssh's configuration says
	name string // of the node; "": as the machine says
	text string // as it was written, without the name

	tenant string   // of its token; "": as --tenant says
	gpus   int      // of its token; 0: as --gpus says
	join   []string // flags for its agent's join, beside those that all boxes get
}

// boxes are the machines that a person named, in words or in the file of --hosts. Nothing is pushed if one of them is wrong.
func boxes(s *cli.Session) ([]box, error) {
	var o struct{ Hosts, Name string }
	if err := s.Flags.Into(&o); err != nil {
		return nil, err
	}
	found := list{hosts: map[string]bool{}, names: map[string]bool{}}
	for _, word := range s.Words {
		if why := found.add(word); why != "" {
			return nil, cli.Usagef(hostHint, "%s", why)
		}
	}
	if o.Hosts != "" {
		raw, err := s.ReadFile(o.Hosts)
		if err != nil {
			return nil, fmt.Errorf("read the hosts: %w", err)
		}
		if wrong := found.lines(raw); len(wrong) > 0 {
			return nil, cli.Usagef(hostHint, "nothing was pushed: in %s, %s", o.Hosts, strings.Join(wrong, "; "))
		}
	}
	switch {
	case len(found.all) == 0:
		return nil, cli.Usagef("write muster push HOST..., or --hosts FILE", "muster push: which machines?")
	case o.Name != "" && len(found.all) > 1:
		return nil, cli.Usagef("write HOST=NAME for each", "%s is for one machine, and there are %d", s.Flags.Source("name"), len(found.all))
	case o.Name != "" && found.all[0].name != "":
		return nil, cli.Usagef("leave one of them out", "%q has a name, and so has %s", found.all[0].text, s.Flags.Source("name"))
	case o.Name != "":
		found.all[0].name = o.Name
		return found.all, wire.CheckName(o.Name)
	}
	return found.all, nil
}

const hostHint = "write user@address or a name of your ssh configuration, as in HOST, HOST:PORT or HOST=NAME, each machine once"

// list is machines, each with a host and a name of its own.
type list struct {
	all          []box
	hosts, names map[string]bool
}

// lines reads a file with one machine a line, and says which lines are wrong.
func (l *list) lines(raw []byte) (wrong []string) {
	const mostSaid = 10
	for i, line := range bytes.Split(raw, []byte("\n")) {
		text, _, _ := strings.Cut(" "+string(line), " #") // a comment begins a line, or stands behind a blank
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		why := l.add(text)
		if why != "" && len(wrong) == mostSaid {
			return append(wrong, "and more")
		}
		if why != "" {
			wrong = append(wrong, fmt.Sprintf("line %d: %s", i+1, why))
		}
	}
	return wrong
}

// add adds a machine, or says what is wrong with it.
func (l *list) add(text string) (why string) {
	host, name, named := strings.Cut(text, "=")
	host, name = strings.TrimSpace(host), strings.TrimSpace(name)
	b, why := parseHost(host)
	switch {
	case why != "":
	case named && wire.CheckName(name) != nil:
		why = fmt.Sprintf("%.80q is not a node's name", name)
	case l.hosts[b.host+" "+b.port]:
		why = fmt.Sprintf("%q stands twice", host)
	case named && l.names[name]:
		why = fmt.Sprintf("the name %q stands twice", name)
	}
	if why != "" {
		return why
	}
	b.name = name
	l.hosts[b.host+" "+b.port] = true
	l.names[name] = true
	l.all = append(l.all, b)
	return ""
}

// parseHost refuses a host that ssh would take for something else, such as an option.
func parseHost(text string) (b box, why string) {
	b = box{host: text, text: text}
	bad := fmt.Sprintf("%.80q is no host", text)
	if text == "" || !only(text, hostBytes+"[]") {
		return b, bad
	}
	name := text[strings.LastIndexByte(text, '@')+1:]
	user := text[:len(text)-len(name)]
	if host, port, err := net.SplitHostPort(name); err == nil {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return b, fmt.Sprintf("%.80q has no port from 1 to 65535", text)
		}
		b.port = port
		name = host
	} else if strings.HasPrefix(name, "[") { // ssh takes an IPv6 address without brackets
		name = strings.TrimSuffix(name[1:], "]")
	}
	b.host = user + name
	if name == "" || name[0] == '-' || b.host[0] == '-' || b.host[0] == '@' || !only(b.host, hostBytes) {
		return b, bad
	}
	return b, ""
}

const (
	letters     = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	hostBytes   = letters + "._@%:+~-" // nothing that a shell or a ProxyCommand could take apart
	folderBytes = letters + "/._+-"
)

func only(s, allowed string) bool { return strings.Trim(s, allowed) == "" }
