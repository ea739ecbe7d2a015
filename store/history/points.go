package history

import (
	"encoding/binary"
	"slices"
	"time"
)

// The body of a frame of points has columns, because neighbours in a column are alike: the number of points; their times, counts and
// intervals; the number of GPUs; then for the node and for each GPU a byte with a bit for each metric that is there, and each metric's
// column. A column has four numbers a point: how many of the samples did not say the value; and where some did, the least value, how
// much higher the most is, and how far the mean is from the middle of the two.

// EncodePoints makes a blob of points that are in order.
func EncodePoints(points []Point) []byte {
	body := binary.AppendVarint(nil, int64(len(points)))
	var start, interval int64
	for i := range points {
		p := &points[i]
		seconds := int64(p.Interval / time.Second)
		body = binary.AppendVarint(body, p.Start-start)
		body = binary.AppendVarint(body, p.Heard)
		body = binary.AppendVarint(body, seconds-interval)
		start = p.Start
		interval = seconds
	}
	numbers := gpusIn(points)
	body = binary.AppendVarint(body, int64(len(numbers)))
	body = appendColumns(body, points, NodeMetrics, func(p *Point, m int) Value { return p.Node[m] })
	for _, number := range numbers {
		body = binary.AppendVarint(body, int64(number))
		body = appendColumns(body, points, GPUMetrics, func(p *Point, m int) Value { return p.of(number)[m] })
	}
	return appendFrame(nil, kindPoints, compress(body))
}

// gpusIn lists the GPUs of points in the order of their numbers.
func gpusIn(points []Point) []int {
	var numbers []int
	for i := range points {
		for _, g := range points[i].GPUs {
			if at, found := slices.BinarySearch(numbers, g.GPU); !found {
				numbers = slices.Insert(numbers, at, g.GPU)
			}
		}
	}
	return numbers
}

// of gives a GPU's values: all missing where the point has none of it.
func (p *Point) of(number int) [GPUMetrics]Value {
	for i := range p.GPUs {
		if p.GPUs[i].GPU == number {
			return p.GPUs[i].Values
		}
	}
	return [GPUMetrics]Value{}
}

func appendColumns(body []byte, points []Point, metrics int, value func(*Point, int) Value) []byte {
	mask := len(body)
	body = append(body, 0)
	for m := range metrics {
		if !said(points, m, value) {
			continue
		}
		body[mask] |= 1 << m
		var last int64
		for i := range points {
			v := value(&points[i], m)
			body = binary.AppendVarint(body, points[i].Heard-v.Count)
			if v.Count > 0 {
				body = binary.AppendVarint(body, v.Least-last)
				body = binary.AppendVarint(body, v.Most-v.Least)
				body = binary.AppendVarint(body, v.Mean-middle(v))
				last = v.Least
			}
		}
	}
	return body
}

func said(points []Point, m int, value func(*Point, int) Value) bool {
	for i := range points {
		if value(&points[i], m).Count > 0 {
			return true
		}
	}
	return false
}

func middle(v Value) int64 { return v.Least + (v.Most-v.Least)/2 }

// DecodePoints reads a blob. If it is damaged, the points before that come with ErrDamaged.
func DecodePoints(blob []byte) ([]Point, error) { return frames(blob, kindPoints, readPoints) }

func readPoints(body []byte) ([]Point, error) {
	body, err := expand(body)
	if err != nil {
		return nil, err
	}
	in := &scanner{text: body}
	points := make([]Point, in.count(mostPoints))
	var start, interval int64
	for i := range points {
		start += in.number()
		points[i].Start = start
		points[i].Heard = in.number()
		interval += in.number()
		points[i].Interval = in.interval(interval)
	}
	gpus := in.count(mostGPUs)
	for i := range points {
		points[i].GPUs = make([]GPUPoint, gpus)
	}
	in.columns(points, NodeMetrics, func(p *Point, m int) *Value { return &p.Node[m] })
	before := -1
	for g := range gpus {
		number := in.count(mostGPUs)
		if number <= before {
			in.bad = true
		}
		before = number
		for i := range points {
			points[i].GPUs[g].GPU = number
		}
		in.columns(points, GPUMetrics, func(p *Point, m int) *Value { return &p.GPUs[g].Values[m] })
		if in.bad {
			break
		}
	}
	if err := in.end(); err != nil {
		return nil, err
	}
	return points, nil
}

func (s *scanner) columns(points []Point, metrics int, value func(*Point, int) *Value) {
	mask := s.byte()
	if mask>>metrics != 0 {
		s.bad = true
	}
	for m := range metrics {
		if mask&(1<<m) == 0 {
			continue
		}
		var last int64
		for i := range points {
			last = s.value(value(&points[i], m), points[i].Heard, last)
		}
	}
}

// value reads one value of a column, and gives what the next one is compared with.
func (s *scanner) value(v *Value, heard, last int64) int64 {
	v.Count = heard - s.number()
	if v.Count <= 0 {
		v.Count = 0
		return last
	}
	v.Least = last + s.number()
	v.Most = v.Least + s.number()
	v.Mean = middle(*v) + s.number()
	return v.Least
}
