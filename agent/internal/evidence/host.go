package evidence

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
)

// dialTime bounds the connection to a daemon of this machine.
const dialTime = 5 * time.Second

// flags are those of the CPU; nil: they are not told, as on machines with ARM.
func (r *run) flags() []string {
	for line := range strings.Lines(r.Text("proc/cpuinfo")) {
		if name, value, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "flags" {
			return strings.Fields(value)
		}
	}
	return nil
}

func (r *run) kvm() finding {
	if !r.Exists("dev/kvm") {
		flags := r.flags()
		if flags != nil && !slices.Contains(flags, "vmx") && !slices.Contains(flags, "svm") {
			return failed("there is no /dev/kvm: turn virtualization on in the BIOS")
		}
		return failed("there is no /dev/kvm: load kvm_intel or kvm_amd")
	}
	for _, module := range []string{"kvm_intel", "kvm_amd"} {
		if nested := r.Text("sys/module/" + module + "/parameters/nested"); nested != "" {
			return well("/dev/kvm with %s, nested %s", module, nested)
		}
	}
	return well("/dev/kvm")
}

// ovs looks for the daemon and for its database.
func (r *run) ovs(ctx context.Context) finding {
	const folder = "run/openvswitch/"
	pid, err := strconv.Atoi(r.Text(folder + "ovs-vswitchd.pid"))
	if err != nil {
		return failed("Open vSwitch does not run: there is no /%sovs-vswitchd.pid", folder)
	}
	if name := r.Text("proc/" + strconv.Itoa(pid) + "/comm"); name != "ovs-vswitchd" {
		return failed("Open vSwitch does not run: process %d is not ovs-vswitchd", pid)
	}
	return r.answers(ctx, folder+"db.sock", "Open vSwitch")
}

// libvirt looks for its daemon: the one for all, or the one for virtual machines.
func (r *run) libvirt(ctx context.Context) finding {
	for _, socket := range []string{"run/libvirt/virtqemud-sock", "run/libvirt/libvirt-sock"} {
		if r.Exists(socket) {
			return r.answers(ctx, socket, "libvirt")
		}
	}
	return failed("libvirt does not run: it has no socket in /run/libvirt")
}

// answers connects to a daemon. One that is started by a connection is started by this.
func (r *run) answers(ctx context.Context, socket, name string) finding {
	dialer := net.Dialer{Timeout: dialTime}
	connection, err := dialer.DialContext(ctx, "unix", r.Path(socket))
	switch {
	case errors.Is(err, fs.ErrPermission):
		return unknown("the agent may not speak to %s at /%s: run it as root", name, socket)
	case err != nil:
		var call *net.OpError
		if errors.As(err, &call) {
			err = call.Err
		}
		return failed("%s does not answer at /%s: %v", name, socket, err)
	}
	_ = connection.Close()
	return well("/%s answers", socket)
}

// guests are words of the vendor or the product of virtual machines.
func guests() []string {
	return []string{"qemu", "kvm", "vmware", "virtualbox", "virtual machine", "xen", "bochs", "google compute engine", "openstack",
		"parallels", "bhyve", "cloud hypervisor", "firecracker", "nutanix ahv"}
}

// bareMetal looks whether the machine is a guest: the CPU says so, or the maker of the board does.
func (r *run) bareMetal() finding {
	board := strings.TrimSpace(r.facts.Vendor + " " + r.facts.Product)
	flags := r.flags()
	for _, word := range guests() {
		if strings.Contains(strings.ToLower(board), word) {
			return failed("it is a virtual machine: %s", board)
		}
	}
	switch {
	case slices.Contains(flags, "hypervisor"):
		return failed("it is a virtual machine: its CPU says so")
	case flags == nil && board == "":
		return unknown("neither the CPU nor the board says whether it is a virtual machine")
	}
	return well("%s", board)
}
