// Package profile reads profiles: what a kind of host must show, what cloud-init does for it, and which slots it gives.
//
// Three profiles are built in, and further ones are files. A host has at most one profile.
package profile

import (
	"strings"

	"muster/agent/wire"
	"muster/gateway/api"
)

// exclusive begins the names of profiles that change a host: its kernel's arguments and its packages.
const exclusive = "gpuaas-profile-"

// Conflict reports whether two profiles must never be on one host, not even one after the other unless a person has looked at it.
func Conflict(a, b string) bool {
	return a != b && strings.HasPrefix(a, exclusive) && strings.HasPrefix(b, exclusive)
}

// Find returns a profile that is built in.
func Find(name string) (found api.Profile, ok bool) {
	for _, p := range BuiltIn() {
		if p.Name == name {
			return p, true
		}
	}
	return found, false
}

// BuiltIn returns the profiles that are built in.
func BuiltIn() []api.Profile {
	return []api.Profile{
		{
			Name: api.ProfileContainer, BuiltIn: true,
			About:  "Container: a rented box that can prove nothing about its host",
			Checks: []string{wire.CheckDriver},
			Slots:  api.ProfileSlots{Shapes: []string{api.ShapeGPU, api.ShapeNode}, Sizes: []int{}},
		},
		{
			Name: api.ProfileSliceVM, BuiltIn: true,
			About: "KVM/IOMMU/VFIO, OVS, libvirt: slice-ready host",
			Checks: []string{wire.CheckKVM, wire.CheckIOMMU, wire.CheckVFIO, wire.CheckOVS, wire.CheckLibvirt,
				wire.CheckBareMetal},
			Slots:       api.ProfileSlots{Shapes: []string{api.ShapeVM}, Sizes: []int{1, 2, 4, 8}},
			CloudConfig: sliceVM, Erase: true, Restart: true,
		},
		{
			Name: api.ProfileBareMetal, BuiltIn: true,
			About: "Bare-metal-only firmware tune",
			Checks: []string{wire.CheckGPUs, wire.CheckDriver, wire.CheckFabric, wire.CheckECC, wire.CheckRows,
				wire.CheckBareMetal},
			Slots:       api.ProfileSlots{Shapes: []string{api.ShapeNode}, Sizes: []int{}},
			CloudConfig: bareMetal, Erase: true, Restart: true,
		},
	}
}

// cloud-init writes files before it runs commands. So the files wait in a folder of the profile: the helper refuses where the host carries
// the
// other profile's mark, and only after it has agreed they go to their places. What it says stands in cloud-init's log. Both profiles have
// the
// same files, so no arguments of the one stay beside those of the other. The cards are taken by vfio-pci from the next boot on: until then
// their own driver tells the agent their UUIDs and their places on the board.
const (
	sliceVM = `#cloud-config
# Prepares a host for virtual machines with GPUs of their own. It is complete after the next boot.
packages: [qemu-kvm, libvirt-daemon-system, openvswitch-switch]
write_files:
- path: /etc/muster/profiles/gpuaas-profile-slice-vm/etc/default/grub.d/60-muster-profile.cfg
  content: |
    GRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT intel_iommu=on iommu=pt"
- path: /etc/muster/profiles/gpuaas-profile-slice-vm/etc/modules-load.d/muster-profile.conf
  content: |
    vfio-pci
- path: /etc/muster/profiles/gpuaas-profile-slice-vm/etc/udev/rules.d/60-muster-profile.rules
  content: |
    ACTION=="add", SUBSYSTEM=="pci", ATTR{vendor}=="0x10de", ATTR{class}=="0x0300*|0x0302*", ATTR{driver_override}="vfio-pci"
runcmd:
- /var/lib/muster-agent/current/muster-agent profile apply gpuaas-profile-slice-vm &&
  cp -R /etc/muster/profiles/gpuaas-profile-slice-vm/etc / && update-grub
`
	bareMetal = `#cloud-config
# Prepares a host that is given away whole. It is complete after the next boot.
packages: [fwupd, numactl, rdma-core]
write_files:
- path: /etc/muster/profiles/gpuaas-profile-baremetal/etc/default/grub.d/60-muster-profile.cfg
  content: |
    GRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT iommu=pt numa_balancing=disable"
- path: /etc/muster/profiles/gpuaas-profile-baremetal/etc/modules-load.d/muster-profile.conf
  content: |
    # none
- path: /etc/muster/profiles/gpuaas-profile-baremetal/etc/udev/rules.d/60-muster-profile.rules
  content: |
    # none
runcmd:
- /var/lib/muster-agent/current/muster-agent profile apply gpuaas-profile-baremetal &&
  cp -R /etc/muster/profiles/gpuaas-profile-baremetal/etc / && update-grub
`
)
