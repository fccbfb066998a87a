package sourcetest

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Dovecot is an IMAP server. A user is anyone whose password is Password.
type Dovecot struct {
	*server
	Clear, TLS string // addresses: in clear with STARTTLS, and encrypted
	CA         string // file
	uid, gid   int
	users      atomic.Int64
}

// Password is every user's.
const Password = "correct-horse"

var sharedDovecot = sync.OnceValues(startDovecot)

// IMAP answers the process's Dovecot.
func IMAP(t testing.TB) *Dovecot {
	t.Helper()
	s, err := sharedDovecot()
	return must(t, s, err)
}

// User answers a user with an empty mailbox and the folders Archive and Work.
func (d *Dovecot) User(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("user%d", d.users.Add(1))
	for _, folder := range []string{"", ".Archive", ".Work"} {
		for _, sub := range []string{"cur", "new", "tmp"} {
			if err := os.MkdirAll(filepath.Join(d.home(name), "Maildir", folder, sub), 0o700); err != nil {
				t.Fatal(err)
			}
		}
	}
	err := filepath.WalkDir(d.home(name), func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Chown(path, d.uid, d.gid)
	})
	if err != nil {
		t.Fatal(err)
	}
	return name
}

func (d *Dovecot) home(user string) string { return filepath.Join(d.dir, "home", user) }

// Put delivers messages into the user's INBOX, as another program does.
func (d *Dovecot) Put(t testing.TB, user string, messages ...string) {
	t.Helper()
	for i, m := range messages {
		name := fmt.Sprintf("%d.M%dP%dQ%d.test", time.Now().Unix(), time.Now().Nanosecond(), os.Getpid(), i)
		tmp := filepath.Join(d.home(user), "Maildir", "tmp", name)
		if err := os.WriteFile(tmp, []byte(m), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(tmp, d.uid, d.gid); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(tmp, filepath.Join(d.home(user), "Maildir", "new", name)); err != nil {
			t.Fatal(err)
		}
	}
}

func startDovecot() (*Dovecot, error) {
	bin, err := need("/usr/sbin/dovecot", "dovecot-imapd")
	if err != nil {
		return nil, err
	}
	if _, err := need("/usr/lib/dovecot/imap", "dovecot-imapd"); err != nil {
		return nil, err
	}
	version, err := exec.Command(bin, "--version").Output()
	if err != nil {
		return nil, err
	}
	d := &Dovecot{}
	d.server, err = start("imap", func(dir string) ([]string, string, error) {
		clear, err1 := port()
		secure, err2 := port()
		if err1 != nil || err2 != nil {
			return nil, "", fmt.Errorf("no free port: %v %v", err1, err2)
		}
		d.Clear, d.TLS, d.CA = local(clear), local(secure), filepath.Join(dir, "cert.pem")
		if err := certificate(dir); err != nil {
			return nil, "", err
		}
		var who, group string
		if who, group, d.uid, d.gid, err = lend("nobody"); err != nil {
			return nil, "", err
		}
		inner, login := who, who
		if os.Getuid() == 0 {
			inner, login, group = "dovecot", "dovenull", "dovecot" // the package made them
		}
		conf := strings.NewReplacer("DIR", dir, "UID", fmt.Sprint(d.uid), "GID", fmt.Sprint(d.gid), "CLEAR", fmt.Sprint(clear), "SECURE", fmt.Sprint(secure),
			"INNERGROUP", group, "INNER", inner, "LOGIN", login).Replace(dovecotConf(string(version)))
		if err := write(dir, "dovecot.conf", conf); err != nil {
			return nil, "", err
		}
		home := filepath.Join(dir, "home")
		if err := os.Mkdir(home, 0o755); err != nil {
			return nil, "", err
		}
		return []string{bin, "-F", "-c", filepath.Join(dir, "dovecot.conf")}, d.Clear, os.Chown(home, d.uid, d.gid)
	})
	return d, err
}

// dovecotConf answers the configuration in the form of that version.
func dovecotConf(version string) string {
	if strings.HasPrefix(version, "2.3") || strings.HasPrefix(version, "2.2") {
		return dovecot23 + dovecotBoth
	}
	return "dovecot_config_version = 2.4.0\ndovecot_storage_version = 2.4.0\n" + dovecot24 + dovecotBoth
}

const dovecotBoth = `
base_dir = DIR/run
state_dir = DIR/state
log_path = DIR/log
protocols = imap
listen = 127.0.0.1
ssl = yes
default_internal_user = INNER
default_login_user = LOGIN
default_internal_group = INNERGROUP
first_valid_uid = 1
first_valid_gid = 1
default_process_limit = 300
mail_max_userip_connections = 300
service imap-login {
  chroot =
  service_count = 0
  inet_listener imap {
    port = CLEAR
  }
  inet_listener imaps {
    port = SECURE
    ssl = yes
  }
}
service anvil {
  chroot =
}
`

const dovecot23 = `
ssl_cert = <DIR/cert.pem
ssl_key = <DIR/key.pem
disable_plaintext_auth = no
mail_location = maildir:~/Maildir
auth_cache_size = 0
auth_failure_delay = 0
passdb {
  driver = static
  args = password=correct-horse
}
userdb {
  driver = static
  args = uid=UID gid=GID home=DIR/home/%u
}
`

const dovecot24 = `
ssl_server_cert_file = DIR/cert.pem
ssl_server_key_file = DIR/key.pem
auth_allow_cleartext = yes
mail_driver = maildir
mail_path = ~/Maildir
auth_failure_delay = 0
passdb static {
  password = correct-horse
}
userdb static {
  fields {
    uid = UID
    gid = GID
    home = DIR/home/%{user}
  }
}
`

// certificate writes cert.pem and key.pem for 127.0.0.1, signed by itself.
func certificate(dir string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "127.0.0.1"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(48 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return err
	}
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	var certPEM, keyPEM bytes.Buffer
	if err := pem.Encode(&certPEM, &pem.Block{Type: "CERTIFICATE", Bytes: cert}); err != nil {
		return err
	}
	if err := pem.Encode(&keyPEM, &pem.Block{Type: "PRIVATE KEY", Bytes: raw}); err != nil {
		return err
	}
	return write(dir, "cert.pem", certPEM.String(), "key.pem", keyPEM.String())
}
