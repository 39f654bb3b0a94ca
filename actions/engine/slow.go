package engine

import "time"

// slowStep is how long a step before a build may run without a message.
const slowStep = 2 * time.Second

// during runs f, and shows line if f runs longer than after. The goroutine of the caller shows it,
// as it shows everything else.
func (w *Workspace) during(f func() error, after <-chan time.Time, line string) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-after:
		w.UI.Waiting(line)
		return <-done
	}
}
