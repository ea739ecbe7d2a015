package maas

// Busy reports whether something goes on with a machine.
func (s *Service) Busy(id string) bool {
	s.jobs.mu.Lock()
	defer s.jobs.mu.Unlock()
	return s.jobs.busy[id]
}
