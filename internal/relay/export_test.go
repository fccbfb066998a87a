package relay

// Decode reads a frame and answers it again as bytes.
func Decode(data []byte) ([]byte, error) {
	f, err := decode(data)
	if err != nil {
		return nil, err
	}
	return f.encode()
}

// Open opens what was sealed by a node for a subject.
func Open(key []byte, subject string, data []byte) (string, []byte, error) {
	s, err := newSealer(key, "reader")
	if err != nil {
		return "", nil, err
	}
	return s.open(subject, data)
}

// Seal seals as a node does.
func Seal(key []byte, node, subject string, text []byte) ([]byte, error) {
	s, err := newSealer(key, node)
	if err != nil {
		return nil, err
	}
	return s.seal(subject, text), nil
}

// Roots is what the subjects of a bus begin with.
func (n *NATS) Roots() string { return n.roots }

// Cut ends the connection as a death does: nothing more is said over it.
func (n *NATS) Cut() { n.nc.Close() }
