package engine

import "time"

// slowStep is for how long a step before a build may say nothing.
const slowStep = 2 * time.Second

// during runs f, and says what is waited for if it takes longer. That is said by who calls, as all
// else is.
func (w *Workspace) during(f func() error, after <-chan time.Time, line string) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-after:
		w.Front.Waiting(line)
		return <-done
	}
}
