package sitetest

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// Nginx serves a site by Debian's nginx on a port of 127.0.0.1, and ends it with the
// test. The files are its documents by name; atHTTP and inServer are what a site's
// operator adds to the http and the server block.
func Nginx(t testing.TB, port int, files map[string]string, atHTTP, inServer string) {
	t.Helper()
	program, err := exec.LookPath("nginx")
	if err != nil {
		program = "/usr/sbin/nginx" // which isn't in everybody's PATH
	}
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// One process, so that whoever may read the folder is who runs the test.
	conf := fmt.Sprintf(`daemon off; master_process off; pid %[1]s/pid; error_log stderr warn;
events { worker_connections 256; }
http {
  types { text/html html; text/javascript js; }
  access_log off; log_not_found off; client_body_temp_path %[1]s/t1; proxy_temp_path %[1]s/t2; fastcgi_temp_path %[1]s/t3; uwsgi_temp_path %[1]s/t4; scgi_temp_path %[1]s/t5;
  %[3]s
  server { listen 127.0.0.1:%[2]d; root %[1]s; index index.html; %[4]s }
}
`, dir, port, atHTTP, inServer)
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	cmd := exec.Command(program, "-p", dir, "-e", "stderr", "-c", file)
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatalf("nginx (apt-get install -y nginx-light): %v", err)
	}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = cmd.Wait() }() // how it ends is read below
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended already
		<-ended
		if t.Failed() {
			t.Logf("nginx said:\n%s", said.Bytes())
		}
	})
	for range 500 {
		if c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			c.Close()
			return
		}
		select {
		case <-ended:
			t.Fatalf("nginx ended:\n%s", said.Bytes())
		case <-time.After(20 * time.Millisecond):
		}
	}
	t.Fatal("nginx doesn't answer")
}
