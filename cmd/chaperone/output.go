package main

import (
	"os"
	"sync"
)

// output is standard output that keeps the first thing that went wrong with it,
// also where whoever printed didn't look.
type output struct {
	*os.File

	mu  sync.Mutex
	err error
}

func (o *output) Write(data []byte) (int, error) {
	n, err := o.File.Write(data)
	o.keep(err)
	return n, err
}

// WriteString is what io.WriteString would else find on the file itself.
func (o *output) WriteString(text string) (int, error) { return o.Write([]byte(text)) }

func (o *output) keep(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil {
		o.err = err
	}
}

func (o *output) lost() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}
