package world

import (
	"errors"
	"slices"
	"sync"
)

// Disk keeps one text of a process that is killed and started again. It implements services.DoubtList.
type Disk struct {
	mu   sync.Mutex
	text []byte
	dead bool
}

// Successor is the disk as the next process finds it; what is saved on this one from now on is lost.
func (d *Disk) Successor() *Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dead = true
	return &Disk{text: slices.Clone(d.text)}
}

// Load gives what was saved last; nil when nothing was.
func (d *Disk) Load() ([]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.text), nil
}

// Save keeps a text, unless the process was killed.
func (d *Disk) Save(text []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dead {
		return errors.New("the process was killed")
	}
	d.text = slices.Clone(text)
	return nil
}
