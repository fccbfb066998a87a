package sourcetest

import (
	"crypto/sha1"
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

// gatewayVersion is the S3 server's, built from the module proxy at first use.
const gatewayVersion = "v1.8.0"

// Gateway is versitygw on a directory.
type Gateway struct {
	*server
	Host    string // HOST:PORT
	buckets atomic.Int64
}

// Credentials of the gateway's one user.
const (
	AccessKey = "chaperone"
	SecretKey = "correct-horse-battery"
)

var sharedGateway = sync.OnceValues(startGateway)

// S3 answers the process's S3 server.
func S3(t testing.TB) *Gateway {
	t.Helper()
	s, err := sharedGateway()
	return must(t, s, err)
}

// Bucket answers a new empty bucket.
func (g *Gateway) Bucket(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("bucket-%d", g.buckets.Add(1))
	if err := os.Mkdir(filepath.Join(g.dir, "data", name), 0o755); err != nil {
		t.Fatal(err)
	}
	return name
}

func startGateway() (*Gateway, error) {
	bin, err := buildGateway()
	if err != nil {
		return nil, err
	}
	g := &Gateway{}
	g.server, err = start("s3", func(dir string) ([]string, string, error) {
		n, err := port()
		if err != nil {
			return nil, "", err
		}
		g.Host = local(n)
		if err := os.Mkdir(filepath.Join(dir, "data"), 0o755); err != nil {
			return nil, "", err
		}
		return []string{bin, "--port", g.Host, "--access", AccessKey, "--secret", SecretKey, "--quiet", "posix", filepath.Join(dir, "data")}, g.Host, nil
	})
	return g, err
}

// buildGateway builds the server into the checkout's .cache and answers its path.
func buildGateway() (string, error) {
	_, file, _, ok := runtime.Caller(0)
	if !ok {
		return "", fmt.Errorf("where is the checkout?")
	}
	dir := filepath.Join(filepath.Dir(file), "..", "..", ".cache", "versitygw-"+gatewayVersion)
	bin := filepath.Join(dir, "versitygw")
	if _, err := os.Stat(bin); err == nil {
		return bin, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	tmp, err := os.MkdirTemp(dir, "gobin")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(tmp)
	cmd := exec.Command("/bin/sh", "-c", `GOFLAGS=-mod=mod GOBIN="$0" CGO_ENABLED=0 exec go install "github.com/versity/versitygw/cmd/versitygw@$1"`, tmp, gatewayVersion)
	cmd.Dir = tmp
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("versitygw can't be built from the Go module proxy: %w\n%s", err, out)
	}
	return bin, os.Rename(filepath.Join(tmp, "versitygw"), bin)
}

func sha1Base64(text string) string {
	sum := sha1.Sum([]byte(text))
	return base64.StdEncoding.EncodeToString(sum[:])
}
