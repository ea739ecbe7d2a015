package history

import (
	"encoding/binary"
	"time"
)

// The body of a frame of samples is their number and then each sample: time, interval, the node's values, the number of GPUs, and
// each GPU's number and values. A list of values begins with a byte that has a bit for each value that is there. Each number stands as
// the difference from the one before it in this frame, of the same GPU and metric.

// EncodeSamples makes a blob.
func EncodeSamples(samples []Sample) []byte {
	var blob []byte
	for len(samples) > 0 {
		n := min(len(samples), mostSamples)
		blob = appendFrame(blob, kindSamples, samplesBody(samples[:n]))
		samples = samples[n:]
	}
	return blob
}

// before are the values that the next ones are compared with.
type before struct {
	at, interval int64
	node         [NodeMetrics]int64
	gpus         map[int]*[GPUMetrics]int64
}

func newBefore() *before { return &before{gpus: map[int]*[GPUMetrics]int64{}} }

func (b *before) gpu(number int) *[GPUMetrics]int64 {
	if b.gpus[number] == nil {
		b.gpus[number] = new([GPUMetrics]int64)
	}
	return b.gpus[number]
}

func samplesBody(samples []Sample) []byte {
	last := newBefore()
	body := binary.AppendVarint(make([]byte, 0, 256), int64(len(samples)))
	for i := range samples {
		s := &samples[i]
		interval := int64(s.Interval / time.Second)
		body = binary.AppendVarint(body, s.At-last.at)
		body = binary.AppendVarint(body, interval-last.interval)
		last.at = s.At
		last.interval = interval
		body = appendValues(body, s.Node[:], last.node[:])
		body = binary.AppendVarint(body, int64(len(s.GPUs)))
		for g := range s.GPUs {
			body = binary.AppendVarint(body, int64(s.GPUs[g].GPU))
			body = appendValues(body, s.GPUs[g].Values[:], last.gpu(s.GPUs[g].GPU)[:])
		}
	}
	return body
}

func appendValues(body []byte, values, last []int64) []byte {
	mask := len(body)
	body = append(body, 0)
	for m, v := range values {
		if v == Missing {
			continue
		}
		body[mask] |= 1 << m
		body = binary.AppendVarint(body, v-last[m])
		last[m] = v
	}
	return body
}

// DecodeSamples reads a blob. If it is damaged, the samples before that come with ErrDamaged.
func DecodeSamples(blob []byte) ([]Sample, error) { return frames(blob, kindSamples, readSamples) }

func readSamples(body []byte) ([]Sample, error) {
	in := &scanner{text: body}
	last := newBefore()
	samples := make([]Sample, in.count(mostSamples))
	for i := range samples {
		s := &samples[i]
		last.at += in.number()
		last.interval += in.number()
		s.At = last.at
		s.Interval = in.interval(last.interval)
		in.values(s.Node[:], last.node[:])
		s.GPUs = make([]GPUSample, in.count(mostGPUs))
		for g := range s.GPUs {
			s.GPUs[g].GPU = in.count(mostGPUs)
			in.values(s.GPUs[g].Values[:], last.gpu(s.GPUs[g].GPU)[:])
		}
	}
	if err := in.end(); err != nil {
		return nil, err
	}
	return samples, nil
}

func (s *scanner) values(into, last []int64) {
	mask := s.byte()
	if mask>>len(into) != 0 {
		s.bad = true
	}
	for m := range into {
		into[m] = Missing
		if mask&(1<<m) != 0 {
			last[m] += s.number()
			into[m] = last[m]
		}
	}
}
