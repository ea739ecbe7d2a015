package region_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"muster/gateway/internal/kit/maassim"
	"muster/gateway/internal/maas/region"
)

// TestListMemory: a list of machines that has 18 MB is read in less than 6. It runs alone, so that nobody else counts.
func TestListMemory(t *testing.T) {
	const machines = 1200
	c := served(t, func(w http.ResponseWriter, _ *http.Request) { writeList(w, machines) })
	var most, base uint64
	count := 0
	err := c.Machines(t.Context(), region.Filter{}, func(region.Machine) error {
		if count++; count%200 == 1 {
			var now runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&now)
			if count == 1 {
				base = now.HeapAlloc
			}
			most = max(most, now.HeapAlloc)
		}
		return nil
	})
	if err != nil || count != machines {
		t.Fatalf("%d machines, %v", count, err)
	}
	if most > base+6<<20 {
		t.Errorf("%d MiB more than at its beginning", (most-base)>>20)
	}
}

// writeList writes a list of machines with 12 disks and 10 interfaces each, as MAAS shows them: 15 KB.
func writeList(w io.Writer, machines int) {
	disk := `{"id":1,"name":"nvme0n1","model":"SAMSUNG MZQL21T9","serial":"S64GNE0R","size":1920383410176,"block_size":4096,"tags":["ssd"],` +
		`"partitions":[{"id":1,"size":536870912,"filesystem":{"fstype":"fat32","mount_point":"/boot/efi"},"resource_uri":"/MAAS/api/2.0/x/"}],` +
		strings.Repeat(`"used_for":"GPT partitioned with 2 partitions",`, 10) + `"available_size":0}`
	nic := `{"id":7,"name":"eno1","type":"physical","mac_address":"52:54:00:12:34:56","vlan":{"vid":0,"mtu":1500,"fabric":"fabric-0"},` +
		`"links":[{"id":1,"mode":"auto","subnet":{"cidr":"10.0.0.0/24"}}],` +
		strings.Repeat(`"resource_uri":"/MAAS/api/2.0/nodes/",`, 5) + `"tags":[]}`
	row := strings.TrimSuffix(whole, "}") + `,"blockdevice_set":[` + strings.Repeat(disk+",", 11) + disk + `],` +
		`"interfaces":[` + strings.Repeat(nic+",", 9) + nic + `]}`
	_, _ = io.WriteString(w, "["+row)
	for range machines - 1 {
		_, _ = io.WriteString(w, ","+row)
	}
	_, _ = io.WriteString(w, "]")
}

// BenchmarkMachines reads a list of 5,000 machines.
func BenchmarkMachines(b *testing.B) {
	var list bytes.Buffer
	writeList(&list, 5000)
	b.SetBytes(int64(list.Len()))
	for b.Loop() {
		if err := region.ReadMachines(bytes.NewReader(list.Bytes()), func(region.Machine) error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
}

// TestListEnds: an error of the function that takes machines ends the list, and comes back as it is, also if it is one of MAAS.
func TestListEnds(t *testing.T) {
	t.Parallel()
	l := newLab(t, maassim.Config{})
	for range 3 {
		l.ready()
	}
	for _, own := range []error{errors.New("enough"), &region.Error{Kind: region.Unclear, Status: 503}} {
		count := 0
		err := l.client.Machines(t.Context(), region.Filter{}, func(region.Machine) error { count++; return own })
		if err != own || count != 1 {
			t.Errorf("%v after %d", err, count)
		}
	}
}
