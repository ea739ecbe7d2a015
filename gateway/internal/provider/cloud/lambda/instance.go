package lambda

import (
	"errors"
	"regexp"
	"strconv"

	"muster/gateway/internal/provider/cloud"
)

// states are Lambda's words for an instance. None is a stop: it is charged until it is terminated.
var states = map[string]string{
	"booting":     cloud.Starting,
	"active":      cloud.Running,
	"unhealthy":   cloud.Broken,
	"terminating": cloud.Ending,
	"terminated":  cloud.Gone,
	"preempted":   cloud.Broken,
}

const (
	sshUser     = "ubuntu"
	highest     = 100_000_000 // cents an hour: more is not believed
	longestName = 64
)

// Tags of the instances that muster launches. Lambda tells no times.
const (
	rentalTag   = "muster:rental"
	launchedTag = "muster:launched"
)

// instance is what is read of an instance. The rest is not, since it has secrets: jupyter_token and jupyter_url.
type instance struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	IP     string `json:"ip"`
	Status string `json:"status"`
	Region region `json:"region"`
	Type   kind   `json:"instance_type"`
	Tags   []tag  `json:"tags"`
}

type region struct {
	Name string `json:"name"`
}

type tag struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// kind is a type of instance.
type kind struct {
	Name  string `json:"name"`
	GPU   string `json:"gpu_description"` // such as H100 (80 GB SXM5)
	Cents *int64 `json:"price_cents_per_hour"`
	Specs struct {
		GPUs int `json:"gpus"`
	} `json:"specs"`
}

// errOdd is of an instance that cannot be told from others. A list with one proves nothing.
var errOdd = errors.New("an instance has no id")

// seen is an instance in muster's words.
func (i instance) seen() (cloud.Instance, error) {
	if !cloud.ValidID(i.ID) {
		return cloud.Instance{}, errOdd
	}
	state, known := states[i.Status]
	if !known {
		state = cloud.Unknown
	}
	s := cloud.Instance{
		ID: i.ID, Name: cloud.Words(i.Name), Raw: cloud.Words(i.Status), State: state, Region: cloud.Words(i.Region.Name),
		GPU: cloud.Words(i.Type.GPU), GPUs: max(i.Type.Specs.GPUs, 0), GPUMiB: i.Type.mib(),
		Price: i.Type.price(), Running: i.Type.price(), SSH: cloud.SSHAt(i.IP, 22, sshUser),
	}
	if state == cloud.Gone {
		s.Price = new(cloud.Money)
	}
	for _, t := range i.Tags {
		if t.Key == launchedTag {
			s.StartedAt = cloud.At(t.Value)
		}
	}
	return s, nil
}

// price is an hour's; nil: not known.
func (k *kind) price() *cloud.Money {
	if k.Cents == nil || *k.Cents <= 0 || *k.Cents > highest {
		return nil
	}
	m := cloud.Money(*k.Cents) * cloud.Dollar / 100
	return &m
}

var gigabytes = regexp.MustCompile(`\(([0-9]{1,5}) GB`)

// mib is the memory of a GPU as its model is sold; nil: its description does not say.
func (k *kind) mib() *int64 {
	found := gigabytes.FindStringSubmatch(k.GPU)
	if found == nil {
		return nil
	}
	gb, _ := strconv.ParseInt(found[1], 10, 64)
	mib := gb << 10
	return &mib
}
