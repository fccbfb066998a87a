package sourcetest

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// DAV is a WebDAV server (Apache's mod_dav) or a CalDAV and CardDAV one (Radicale).
type DAV struct {
	*server
	Host  string // HOST:PORT
	users atomic.Int64
}

var (
	sharedApache   = sync.OnceValues(startApache)
	sharedRadicale = sync.OnceValues(startRadicale)
)

// WebDAV answers the process's Apache. Everyone signs in as davuser with Password.
func WebDAV(t testing.TB) *DAV {
	t.Helper()
	s, err := sharedApache()
	return must(t, s, err)
}

// CalDAV answers the process's Radicale. Anyone signs in with any password and
// sees what is below their own name.
func CalDAV(t testing.TB) *DAV {
	t.Helper()
	s, err := sharedRadicale()
	return must(t, s, err)
}

// Folder answers the URL of a new empty folder of Apache's.
func (d *DAV) Folder(t testing.TB) (url, dir string) {
	t.Helper()
	name := fmt.Sprintf("f%d", d.users.Add(1))
	dir = filepath.Join(d.dir, "www", name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return "http://" + d.Host + "/" + name + "/", dir
}

// User answers a new user of Radicale's, and the URL of what is theirs.
func (d *DAV) User(t testing.TB) (name, url string) {
	t.Helper()
	name = fmt.Sprintf("u%d", d.users.Add(1))
	return name, "http://" + d.Host + "/" + name + "/"
}

// Do sends a request as name and fails the test unless its status is 2xx.
func (d *DAV) Do(t testing.TB, name, method, url, body string, header ...string) {
	t.Helper()
	r, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	r.SetBasicAuth(name, Password)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode/100 != 2 {
		t.Fatalf("%s %s: %s", method, url, res.Status)
	}
}

// Calendar makes a calendar, Book an address book.
func (d *DAV) Calendar(t testing.TB, name, url string) {
	t.Helper()
	d.Do(t, name, "MKCALENDAR", url, "")
}

// Book makes an address book.
func (d *DAV) Book(t testing.TB, name, url string) {
	t.Helper()
	d.Do(t, name, "MKCOL", url, `<?xml version="1.0"?><mkcol xmlns="DAV:" xmlns:C="urn:ietf:params:xml:ns:carddav"><set><prop><resourcetype><collection/><C:addressbook/></resourcetype></prop></set></mkcol>`,
		"Content-Type", "application/xml")
}

func startApache() (*DAV, error) {
	bin, err := need("/usr/sbin/apache2", "apache2-bin")
	if err != nil {
		return nil, err
	}
	d := &DAV{}
	d.server, err = start("dav", func(dir string) ([]string, string, error) {
		n, err := port()
		if err != nil {
			return nil, "", err
		}
		d.Host = local(n)
		who, group, uid, gid, err := lend("www-data", "nobody")
		if err != nil {
			return nil, "", err
		}
		conf := strings.NewReplacer("DIR", dir, "PORT", fmt.Sprint(n), "WHO", who, "GROUP", group).Replace(apacheConf)
		// {SHA} of Password
		if err := write(dir, "apache.conf", conf, "users", "davuser:{SHA}"+sha1Base64(Password)+"\n"); err != nil {
			return nil, "", err
		}
		for _, sub := range []string{"www", "lock"} {
			if err := os.Mkdir(filepath.Join(dir, sub), 0o755); err != nil {
				return nil, "", err
			}
			if err := os.Chown(filepath.Join(dir, sub), uid, gid); err != nil {
				return nil, "", err
			}
		}
		return []string{bin, "-f", filepath.Join(dir, "apache.conf"), "-DFOREGROUND"}, d.Host, nil
	})
	return d, err
}

const apacheConf = `
ServerRoot DIR
PidFile DIR/pid
ServerName localhost
Listen 127.0.0.1:PORT
User WHO
Group GROUP
ErrorLog DIR/log
LoadModule mpm_event_module /usr/lib/apache2/modules/mod_mpm_event.so
LoadModule authn_core_module /usr/lib/apache2/modules/mod_authn_core.so
LoadModule authn_file_module /usr/lib/apache2/modules/mod_authn_file.so
LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so
LoadModule authz_user_module /usr/lib/apache2/modules/mod_authz_user.so
LoadModule auth_basic_module /usr/lib/apache2/modules/mod_auth_basic.so
LoadModule mime_module /usr/lib/apache2/modules/mod_mime.so
LoadModule dav_module /usr/lib/apache2/modules/mod_dav.so
LoadModule dav_fs_module /usr/lib/apache2/modules/mod_dav_fs.so
TypesConfig /dev/null
AddType text/plain .txt
DavLockDB DIR/lock/db
DocumentRoot DIR/www
<Directory DIR/www>
  Dav On
  AllowOverride None
  AuthType Basic
  AuthName files
  AuthBasicProvider file
  AuthUserFile DIR/users
  Require valid-user
</Directory>
`

func startRadicale() (*DAV, error) {
	if _, err := need("/usr/lib/python3/dist-packages/radicale/__init__.py", "python3-radicale"); err != nil {
		return nil, err
	}
	d := &DAV{}
	var err error
	d.server, err = start("cal", func(dir string) ([]string, string, error) {
		n, err := port()
		if err != nil {
			return nil, "", err
		}
		d.Host = local(n)
		conf := fmt.Sprintf("[server]\nhosts = %s\n[auth]\ntype = none\n[rights]\ntype = owner_only\n[storage]\nfilesystem_folder = %s/data\n[web]\ntype = none\n", d.Host, dir)
		if err := write(dir, "radicale.conf", conf); err != nil {
			return nil, "", err
		}
		return []string{"/usr/bin/python3", "-m", "radicale", "--config", filepath.Join(dir, "radicale.conf")}, d.Host, nil
	})
	return d, err
}
