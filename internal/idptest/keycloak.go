package idptest

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// keycloakVersion is the distribution that is fetched from Maven Central.
const keycloakVersion = "26.4.5"

// Keycloak is the provider of that name, running.
type Keycloak struct {
	URL                    string // its issuer
	ClientID, ClientSecret string
}

// keycloakDist answers the folder that the distribution is unpacked in.
func keycloakDist() (string, error) {
	dir, err := once("keycloak", []byte(keycloakVersion), func(dir string) error {
		zipped := filepath.Join(dir, "dist.zip")
		cmd := exec.Command("mvn", "-B", "-q", "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy",
			"-Dartifact=org.keycloak:keycloak-quarkus-dist:"+keycloakVersion+":zip", "-DoutputDirectory="+dir, "-Dmdep.stripVersion=true")
		cmd.Dir = dir // no pom.xml of anybody's
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("mvn: %w (run `scripts/need.sh test`, or apt-get install maven default-jre-headless)\n%s", err, out)
		}
		found, err := filepath.Glob(filepath.Join(dir, "*.zip"))
		if err != nil || len(found) != 1 {
			return fmt.Errorf("mvn brought %v, %v", found, err)
		}
		if err := os.Rename(found[0], zipped); err != nil {
			return err
		}
		return errors.Join(unzip(zipped, dir), os.Remove(zipped))
	})
	return filepath.Join(dir, "keycloak-"+keycloakVersion), err
}

// unzip unpacks an archive whose names stay below dir.
func unzip(file, dir string) error {
	z, err := zip.OpenReader(file)
	if err != nil {
		return err
	}
	defer z.Close()
	for _, f := range z.File {
		if !filepath.IsLocal(f.Name) {
			return fmt.Errorf("an archive with the name %q", f.Name)
		}
		to := filepath.Join(dir, f.Name)
		if f.FileInfo().IsDir() {
			if err := os.MkdirAll(to, 0o755); err != nil {
				return err
			}
			continue
		}
		if err := unpack(f, to); err != nil {
			return err
		}
	}
	return nil
}

func unpack(f *zip.File, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	in, err := f.Open()
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, f.Mode().Perm()|0o200)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// NewKeycloak starts it with one realm, for a client at origin whose back-channel
// logout is at the other URL; it ends with the test. It takes half a minute and
// half a gigabyte: one test starts it once.
func NewKeycloak(t testing.TB, origin, backchannel string) *Keycloak {
	t.Helper()
	dist, err := keycloakDist()
	if err != nil {
		t.Fatal(err)
	}
	base, err := root()
	if err != nil {
		t.Fatal(err)
	}
	realm, err := os.ReadFile(filepath.Join(base, "internal", "idptest", "keycloak", "realm.json"))
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir() // a copy by links: what it builds and stores stays in the test's own folder
	if err := link(dist, home); err != nil {
		t.Fatal(err)
	}
	realm = bytes.ReplaceAll(realm, []byte("ORIGIN"), []byte(origin))
	realm = bytes.ReplaceAll(realm, []byte("BACKCHANNEL"), []byte(backchannel))
	imports := filepath.Join(home, "data", "import")
	if err := errors.Join(os.MkdirAll(imports, 0o755), os.WriteFile(filepath.Join(imports, "test-realm.json"), realm, 0o644)); err != nil {
		t.Fatal(err)
	}
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	url := fmt.Sprintf("http://127.0.0.1:%d", port)
	cmd := exec.Command(filepath.Join(home, "bin", "kc.sh"), "start-dev", "--import-realm", "--http-host=127.0.0.1",
		fmt.Sprintf("--http-port=%d", port), "--hostname="+url, "--health-enabled=false", "--metrics-enabled=false", "--cache=local")
	cmd.Env = append(os.Environ(), "JAVA_OPTS_KC_HEAP=-Xms64m -Xmx512m", "JAVA_OPTS_APPEND=-Djava.net.preferIPv4Stack=true -XX:TieredStopAtLevel=1", "KC_CACHE=local")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatalf("%v (run `scripts/need.sh test`, or apt-get install default-jre-headless)", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	gone := false
	t.Cleanup(func() {
		if !gone {
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // its own group, all of it ours
			<-ended
		}
		if t.Failed() {
			t.Logf("Keycloak said:\n%s", log.Bytes())
		}
	})
	issuer := url + "/realms/test"
	for deadline := time.Now().Add(10 * time.Minute); ; time.Sleep(300 * time.Millisecond) {
		select {
		case err := <-ended:
			gone = true
			t.Fatalf("Keycloak ended at its start: %v", err)
		default:
		}
		resp, err := http.Get(issuer + "/.well-known/openid-configuration")
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				break
			}
		}
		if time.Now().After(deadline) {
			t.Fatal("Keycloak doesn't answer in three minutes")
		}
	}
	return &Keycloak{URL: issuer, ClientID: "client", ClientSecret: "a secret: with + and %"}
}

// link makes a tree of hard links: folders anew, files shared until they are
// replaced. Across file systems it copies.
func link(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel := strings.TrimPrefix(path, from)
		if d.IsDir() {
			return os.MkdirAll(filepath.Join(to, rel), 0o755)
		}
		if err := os.Link(path, filepath.Join(to, rel)); err == nil {
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), data, info.Mode().Perm())
	})
}

// freePort answers a port of 127.0.0.1 that nobody listens on.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
