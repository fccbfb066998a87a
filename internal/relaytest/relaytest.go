// Package relaytest is a NATS server for tests: a real one, in the test's own
// process, that demands credentials and keeps nothing.
//
// It contains [Start] and its [Options], which make a server that is worse, and
// [Server]: its address, a file with its credentials, and how it goes down and comes
// up again.
//
// Floor: test kit.
package relaytest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"

	"chaperone/internal/relay"
)

// Options make a server that is worse than nodes should have, or better.
type Options struct {
	Open      bool // nobody needs credentials
	JetStream bool // the account can keep what passes
	Payload   int32
	NKey      bool // an nkey instead of a password
	TLS       bool
	Deny      string // a subject that the user may not subscribe
}

// Server is one that runs.
type Server struct {
	Credentials string // a file
	CA          string // a file, where the server speaks TLS

	t       testing.TB
	options server.Options
	running *server.Server
}

// Password is the user's, which is called node.
const Password = "a-password-of-the-test's"

// Start starts a server on a free port of this machine; it ends with the test.
func Start(t testing.TB, o Options) *Server {
	t.Helper()
	dir := t.TempDir()
	s := &Server{t: t, Credentials: filepath.Join(dir, "credentials")}
	s.options = server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoLog: true, NoSigs: true, MaxPayload: o.Payload, JetStream: o.JetStream, StoreDir: filepath.Join(dir, "jetstream")}
	secret := "node:" + Password
	var may *server.Permissions
	if o.Deny != "" {
		may = &server.Permissions{Subscribe: &server.SubjectPermission{Deny: []string{o.Deny}}}
	}
	switch {
	case o.Open:
	case o.NKey:
		pair, err := nkeys.CreateUser()
		if err != nil {
			t.Fatal(err)
		}
		public, _ := pair.PublicKey()
		seed, _ := pair.Seed()
		secret = string(seed)
		s.options.Nkeys = []*server.NkeyUser{{Nkey: public, Permissions: may}}
	default:
		s.options.Users = []*server.User{{Username: "node", Password: Password, Permissions: may}}
	}
	if o.TLS {
		s.tls(dir)
	}
	if err := os.WriteFile(s.Credentials, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.Up()
	t.Cleanup(s.Down)
	return s
}

// URL is where it listens: the same after Down and Up.
func (s *Server) URL() string {
	scheme := "nats"
	if s.options.TLSConfig != nil {
		scheme = "tls"
	}
	return fmt.Sprintf("%s://localhost:%d", scheme, s.options.Port)
}

// Address is how a node finds it.
func (s *Server) Address() relay.Address {
	return relay.Address{URL: s.URL(), CredentialsFile: s.Credentials, CAFile: s.CA}
}

// Up starts it.
func (s *Server) Up() {
	s.t.Helper()
	options := s.options
	running, err := server.NewServer(&options)
	if err != nil {
		s.t.Fatal(err)
	}
	running.Start()
	if !running.ReadyForConnections(20 * time.Second) {
		s.t.Fatal("the NATS server doesn't start")
	}
	s.running, s.options.Port = running, running.Addr().(*net.TCPAddr).Port
}

// Down ends it. Once more is fine.
func (s *Server) Down() {
	if s.running != nil {
		s.running.Shutdown()
		s.running.WaitForShutdown()
		s.running = nil
	}
}

// Stored tells whether the server keeps anything of what passes.
func (s *Server) Stored() bool { return s.running.JetStreamEnabled() }

// tls gives it a certificate that only its own CA file knows.
func (s *Server) tls(dir string) {
	s.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		s.t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, DNSNames: []string{"localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		s.t.Fatal(err)
	}
	s.CA = filepath.Join(dir, "ca.pem")
	if err := os.WriteFile(s.CA, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		s.t.Fatal(err)
	}
	s.options.TLSConfig = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, MinVersion: tls.VersionTLS12}
}
