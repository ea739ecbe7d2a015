package runpod

import (
	"errors"

	"muster/gateway/internal/provider/cloud"
)

// states are RunPod's words for a pod. RUNNING is the rental's: a container that exits is started again, and only its log tells.
var states = map[string]string{
	"PROVISIONING": cloud.Starting,
	"STARTING":     cloud.Starting,
	"RUNNING":      cloud.Running,
	"EXITED":       cloud.Stopped, // the container's disk is wiped, and the volume stays
	"ERROR":        cloud.Broken,
	"TERMINATED":   cloud.Gone,
}

// A gigabyte's price is a month's, and a month has so many hours.
const (
	diskMonth    = cloud.Dollar / 10 // of a container's disk, and of a volume while its pod runs
	stoppedMonth = cloud.Dollar / 5  // of a volume while its pod is stopped
	monthHours   = 730
)

// disk is what gigabytes cost an hour.
func disk(gb int, month cloud.Money) cloud.Money { return cloud.Money(gb) * month / monthHours }

const largestDisk = 1 << 20 // GB: more is not believed

// pod is what is read of a pod. The rest is not, since it has secrets: env and args.
type pod struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	Status string `json:"status"`
	GPU    struct {
		ID    string `json:"id"`
		Count int    `json:"count"`
	} `json:"gpu"`
	Region string   `json:"dataCenterId"`
	Cost   *float64 `json:"cost"` // of its GPUs, an hour, now
	Disk   *int     `json:"disk"` // GB
	Mounts struct {
		Persistent struct {
			Size int `json:"size"` // GB
		} `json:"persistent"`
	} `json:"mounts"`
	SSH struct {
		Direct struct {
			Host string `json:"host"`
			Port int    `json:"port"`
			User string `json:"username"`
		} `json:"direct"`
	} `json:"ssh"`
	Cluster *struct {
		ID string `json:"id"`
	} `json:"cluster"`
	StartedAt string `json:"startedAt"`
}

// errOdd is of a pod that cannot be told from others. A list with one proves nothing.
var errOdd = errors.New("a pod has no id")

// instance is a pod in muster's words.
func (p pod) instance() (cloud.Instance, error) {
	if !cloud.ValidID(p.ID) {
		return cloud.Instance{}, errOdd
	}
	state, known := states[p.Status]
	if !known {
		state = cloud.Unknown
	}
	direct := p.SSH.Direct
	i := cloud.Instance{
		ID: p.ID, Name: cloud.Words(p.Name), Raw: cloud.Words(p.Status), State: state, Region: cloud.Words(p.Region),
		GPU: cloud.Words(p.GPU.ID), GPUs: max(p.GPU.Count, 0), StartedAt: cloud.At(p.StartedAt),
		SSH: cloud.SSHAt(direct.Host, direct.Port, direct.User),
	}
	if p.Cluster != nil {
		i.Why = "it is of the cluster " + cloud.Words(p.Cluster.ID) + ", and can be changed and ended only with it"
	}
	p.price(&i)
	return i, nil
}

// price says what a pod costs. Its cost is that of its GPUs, which is 0 while it is stopped; its disks are charged beside it.
func (p *pod) price(i *cloud.Instance) {
	volume := p.Mounts.Persistent.Size
	if p.Disk == nil || *p.Disk < 0 || *p.Disk > largestDisk || volume < 0 || volume > largestDisk {
		return
	}
	storage := disk(volume, stoppedMonth)
	i.Storage = &storage
	if p.Cost != nil && *p.Cost > 0 { // a machine that runs for nothing is one whose price is not known yet
		if i.Running = cloud.PerHour(*p.Cost); i.Running != nil {
			*i.Running += disk(*p.Disk+volume, diskMonth)
		}
	}
	switch i.State {
	case cloud.Stopped:
		i.Price = &storage
	case cloud.Gone:
		i.Price = new(cloud.Money)
	default:
		i.Price = i.Running
	}
}
