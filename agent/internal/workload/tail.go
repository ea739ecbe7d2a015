package workload

// tail keeps the last bytes that are written to it.
type tail struct {
	most    int
	kept    []byte
	dropped int64
}

// Write never fails.
func (t *tail) Write(data []byte) (int, error) {
	t.kept = append(t.kept, data...)
	if len(t.kept) > 2*t.most { // not at every write, which would copy all of it each time
		t.cut()
	}
	return len(data), nil
}

func (t *tail) cut() {
	if over := len(t.kept) - t.most; over > 0 {
		t.dropped += int64(over)
		t.kept = append(t.kept[:0], t.kept[over:]...)
	}
}

// bytes is what was kept.
func (t *tail) bytes() []byte {
	t.cut()
	return t.kept
}
